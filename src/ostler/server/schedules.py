"""Starts the runs of schedules when they are due, while the server is up."""

import asyncio
import logging
import os

from msgspec import structs

from ostler import clock
from ostler.errors import OstlerError
from ostler.pipelines.schedule import (
    Due,
    Schedule,
    ScheduleNote,
    all_schedules,
    check_cron,
    due,
    keep_note,
    next_time,
    note_of,
)
from ostler.server.run_processes import RunProcesses
from ostler.settings import trust_file
from ostler.work import Ostler
from ostler.work.turns.checks import check_folder

_LONGEST = 30.0  # seconds: the clock on the wall may be set

_log = logging.getLogger(__name__)


class Schedules:
    """`step` is called again and again by a loop. Raises bad_request for a cron line that is none.

    Schedules of the settings are those of the server's start; which files have one that counts may change.
    """

    def __init__(self, ostler: Ostler, runs: RunProcesses) -> None:
        self._o, self._runs = ostler, runs
        for name, entry in ostler.settings.schedules.items():
            check_cron(name, entry)

    async def step(self) -> None:
        schedules = all_schedules(self._o.settings, trust_file(self._o.setup.environ))
        for name, schedule in schedules.items():
            await self._look(name, schedule)
        now = clock.now()
        nexts = (next_time(each.entry.cron, now) - now for each in schedules.values())
        await asyncio.sleep(min((_LONGEST, *nexts)))

    async def _look(self, name: str, schedule: Schedule) -> None:
        now = clock.now()
        note = note_of(self._o.store, name) or ScheduleNote(looked_at=now)
        asked = due(schedule.entry.cron, note.looked_at, now)
        note = structs.replace(note, looked_at=now)
        if asked.missed:
            note = structs.replace(note, missed=asked.missed, missed_at=asked.missed_at)
            _log.warning(
                "schedule %s: %d runs were missed while no server was up, and are not caught up", name, asked.missed
            )
        # Written before the run is started: a crash between the two must not start it twice.
        await keep_note(self._o.store, name, note)
        if asked.at is not None:
            await keep_note(self._o.store, name, await self._started(name, schedule, note, asked))

    async def _started(self, name: str, schedule: Schedule, note: ScheduleNote, asked: Due) -> ScheduleNote:
        if note.run and self._still_runs(note.run):
            _log.warning("schedule %s: its run %s is still at work, so no other is started", name, note.run)
            return structs.replace(note, problem=f"run {note.run} was still running")
        try:
            run = await self._start(schedule)
        except OstlerError as error:
            _log.warning("schedule %s: %s", name, error)
            return structs.replace(note, problem=str(error))
        _log.info("schedule %s started run %s", name, run)
        return structs.replace(note, run=run, started_at=asked.at, problem="")

    def _still_runs(self, run: str) -> bool:
        try:
            row = self._runs.runs.find(run)
        except OstlerError:
            return False  # it was removed
        return row.ended_at is None and self._runs.runs.owned(row)  # one that was interrupted must not block the next

    async def _start(self, schedule: Schedule) -> str:
        from ostler.pipelines.inputs import complete_inputs
        from ostler.pipelines.load import load_pipeline

        entry = schedule.entry
        folder = check_folder(entry.folder)
        file = os.path.join(folder, entry.pipeline)
        what = file if os.path.exists(file) else entry.pipeline
        found = await asyncio.to_thread(load_pipeline, what, schedule.sha256)
        return (await self._runs.begin(found, folder, complete_inputs(found, entry.inputs))).id
