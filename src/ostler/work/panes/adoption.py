"""Takes up turns that go on in panes although the ostler process that began them is gone."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import Answered, AnyEvent, Problem, Session, TurnRow
from ostler.process import tree
from ostler.store import Store
from ostler.store.files import turn_folder
from ostler.work.leftovers import remove_scratch
from ostler.work.owner import end_unwatched
from ostler.work.panes.notes import PaneNote
from ostler.work.panes.open_panes import Panes
from ostler.work.panes.pane_turn import was_submitted
from ostler.work.transports.resources import TransportResources
from ostler.work.transports.stop import LeftInPane, Stop
from ostler.work.transports.transport import Attempt, Carried
from ostler.work.turns.artifacts import Artifacts
from ostler.work.turns.live_turns import Turns
from ostler.work.turns.prepare import prepare
from ostler.work.turns.run import TurnRun
from ostler.work.turns.setup import Setup

_log = logging.getLogger(__name__)


class Adoption:
    """What an ostler process needs to carry such turns on."""

    def __init__(
        self,
        store: Store,
        owner: str,
        setup_in: Callable[[str], Setup],
        services: TransportResources,
        turns: Turns,
        panes: Panes,
    ) -> None:
        self._store, self._owner, self._setup_in = store, owner, setup_in
        self._services, self._turns, self._panes = services, turns, panes

    async def adopt(self, row: TurnRow, carry_on: bool) -> bool:
        """Carries the turn on in the background. False: nobody can, and it is to be ended.

        Without `carry_on` it is left to itself, for a process that stays longer.
        """
        note, session = self._panes.notes.get(row.session), self._store.session(row.session)
        if note is None or session is None or row.state == "queued" or note.turn != row.id:
            return False  # nothing of it was begun there
        events = tuple(self._store.events(row.session, turn=row.id))
        if not _goes_on(note, events, self._panes):
            await self._panes.end_pane(note)
            return False
        if not carry_on:
            return True
        if not await self._store.adopt_turn(row.id, row.owner, self._owner):
            return True  # another process was quicker
        _log.info("turn %s goes on in pane %s: it is taken up again", row.id, note.pane)
        stop, known = Stop(), ExitStack()
        stop.turn, stop.can_leave = row.id, True
        known.enter_context(self._turns.cancellable(stop))  # from now on: who asked for this may want to cancel it
        self._turns.own(self._continue_turn(FoundTurn(row, session, note, events), stop, known))
        return True

    async def _continue_turn(self, found: "FoundTurn", stop: Stop, known: ExitStack) -> None:
        row, session, note, events = found
        with known:
            try:
                setup = self._setup_in(row.turn.folder)
                setup = structs.replace(setup, settings=structs.replace(setup.settings, tmux_shows=note.shows))
                attempt = structs.replace(await prepare(setup, _turn(row, note)), adopts=events)
            except OstlerError as error:
                await self._give_up(row, note, error)
                return
            run = AdoptedRun(
                setup, self._services, session, attempt, next_seq=self._store.last_seq(session.id) + 1, stop=stop
            )
            run.goes_on_from(row, events, self._panes)
            await self._turns.track(run)

    async def _give_up(self, row: TurnRow, note: PaneNote, error: OstlerError) -> None:
        await self._panes.end_pane(note)
        problem = Problem(kind="crashed", message=f"the turn could not be taken up again: {error.message}")
        await end_unwatched(self._store, row, "crashed", problem)
        await asyncio.to_thread(remove_scratch, self._store.folder, [row])


class FoundTurn(NamedTuple):
    """A turn that goes on, and where."""

    row: TurnRow
    session: Session
    note: PaneNote
    events: tuple[AnyEvent, ...]


def _goes_on(note: PaneNote, events: tuple[AnyEvent, ...], panes: Panes) -> bool:
    """Whether it is known how far the pane's turn came."""
    if note.shows == "output":
        return os.path.exists(panes.notes.pane_folder(note.session) / "stdout")
    return note.lives and was_submitted(events)


def _turn(row: TurnRow, note: PaneNote) -> Any:
    """The turn as it was given, as far as that can be known: its values are not stored, its program has them."""
    env = _environment(note)
    kept = {name: env[name] for name in row.turn.env if name in env}
    return structs.replace(row.turn, env=kept, mcp=())


def _environment(note: PaneNote) -> Mapping[str, str]:
    for pid in tree.marked(note.mark):
        pairs = tree.read_all(f"/proc/{pid}/environ").split(b"\0")
        return dict(os.fsdecode(pair).split("=", 1) for pair in pairs if b"=" in pair)
    return {}


class AdoptedRun(TurnRun):
    """The rest of a turn: what it has in the journal stays, what its agent did meanwhile is read from its records."""

    def goes_on_from(self, row: TurnRow, events: tuple[AnyEvent, ...], panes: Panes) -> None:
        self._row, self._panes = row, panes
        self.started_at = row.created_at
        self._began = clock.monotonic() - max(0.0, clock.now() - row.created_at)
        if events:
            self.journal.first_seq = events[0].seq
        self.running = row.state in ("running", "asking")

    async def _body(self) -> Carried:
        if self.stop.left:
            raise LeftInPane
        folder = turn_folder(self.setup.store.folder, self.session.id, self.turn.id)
        self.artifacts = Artifacts(folder, self.redactor)
        self.artifacts.paths["prompt"] = str(folder / "prompt.txt")
        await asyncio.to_thread(_remove_old, folder)
        for asked in self.setup.store.open_asks(self.session.id, self.turn.id):
            await self._keep([Answered(id=asked.id, option="cancelled", by="restart")])
        if self._row.state == "asking":
            await self._set_asking(False)
        await self._notice("adopted", "ostler was restarted: the turn kept running in its pane and is followed again")
        if self.turn.access != "read":
            await self._find_before(folder)
        return await self._by_schema(await self._attempt(self.first))

    async def _find_before(self, folder: Path) -> None:
        """The folder as it was when the turn began: its first process has kept that."""
        from ostler.work.diff.compare import kept_before
        from ostler.work.diff.planted import kept_marks

        if self.turn.access == "write":
            self.marks = await asyncio.to_thread(kept_marks, str(folder / "before"))
        before = await asyncio.to_thread(kept_before, str(folder / "before"))
        if before is not None:
            self._compare_with(before)
        else:
            await self._notice("diff_skipped", "no diff: there is no copy of the folder from before the turn")

    async def _attempt(self, attempt: Attempt) -> Carried:
        if self.stop.left:
            raise LeftInPane
        if self.stop.problem is not None:  # cancelled before it is followed again: what runs there has to end, too
            await self._panes.close(self.session.id)
        if attempt.adopts is not None:
            attempt = structs.replace(attempt, launch=structs.replace(attempt.launch, notices=()))
        return await super()._attempt(attempt)


def _remove_old(folder: Path) -> None:
    """What is written again from the beginning."""
    for name in ("stdout.log", "stderr.log", "events.ndjson"):
        (folder / name).unlink(missing_ok=True)
