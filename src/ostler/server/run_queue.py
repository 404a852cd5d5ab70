"""Runs that all machines know of: told to the index in Postgres, claimed from it, and gone on with here.

One loop looks at the index. A run is claimed that waits for a machine, or whose machine was lost, if this machine fits.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from msgspec import structs

from ostler import clock
from ostler.errors import OstlerError
from ostler.machines.membership import Membership, SeenMachine
from ostler.machines.model import ANY
from ostler.machines.on_option import no_machine_called
from ostler.machines.placement import NoMachineFits, best_for_run, unfit_for_run
from ostler.machines.remotes import remote_of, top_of
from ostler.machines.run_index import IndexedRun, RunClaim, RunIndex, RunWants
from ostler.machines.states import BEAT
from ostler.pipelines.model import WORKFLOW_VERSION, NodeRow, Pipeline, RunRow
from ostler.pipelines.runs import Runs
from ostler.pipelines.shared_runs import mark_moved
from ostler.pipelines.steps import sweep_steps
from ostler.pipelines.takeover import lost_work, taken_over
from ostler.server.run_views import RunView, indexed_view
from ostler.work import Ostler
from ostler.work.sessions.choice import choose

_FIRST_CHOICE = 3 * BEAT  # seconds for which a run is left to the machine that has the least to do
_KEPT_DAYS = 7.0  # for which the index knows runs that have ended
_SWEEP = 3600.0

_run = msgspec.json.Decoder(RunRow).decode
_node = msgspec.json.Decoder(NodeRow).decode
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)

Start = Callable[[RunRow], Awaitable[None]]


class RunQueue:
    """`step` is called again and again by a loop."""

    def __init__(self, ostler: Ostler, membership: Membership, runs: Runs, start: Start) -> None:
        self._o, self.membership, self._runs, self._start = ostler, membership, runs, start
        self.index = RunIndex(membership.directory)
        self.storing = asyncio.Lock()  # held from telling all machines of a new run until it is stored here
        self._prepared = False
        self._begun = False  # whether what was interrupted when this server began was looked at
        self._free_since: dict[str, float] = {}  # run → when it was first seen to be free
        self._swept = float("-inf")

    # -- new ones

    async def share(self, row: RunRow) -> RunRow:
        """Tells all machines of a new run of this one, before it is stored here; `storing` is held.

        While Postgres is away it is known here alone; raises store, where it is to be taken over.
        """
        shared = structs.replace(row, fence=1)
        try:
            await self._prepare()
            await self._add(shared, self.membership.id, self.wants(row.pipeline, row.folder))
        except OstlerError as error:
            if row.pipeline.takeover:
                raise
            _log.warning("run %s is known to this machine alone: %s", row.id, error)
            return row
        return shared

    async def enqueue(self, row: RunRow, machine: str, labels: tuple[str, ...]) -> IndexedRun:
        """A run that waits until a machine has it which fits. `machine`: its name, or ANY. Raises not_found, store."""
        if machine not in ("", ANY) and self.membership.machine(machine) is None:
            raise no_machine_called(machine, [seen.name for seen in self.membership.machines])
        await self._prepare()
        wants = structs.replace(self.wants(row.pipeline, row.folder), machine=machine, labels=labels)
        return await self._add(row, None, wants)

    async def _add(self, row: RunRow, machine: str | None, wants: RunWants) -> IndexedRun:
        run = IndexedRun(
            id=row.id,
            machine=machine,
            fence=row.fence,
            state=row.state,
            takeover=row.pipeline.takeover,
            wants=wants,
            body=_encode(row),
            created_at=row.created_at,
        )
        if not await self.index.add(run):
            raise OstlerError("exists", f"run {row.id} already exists", "Try again")
        return run

    def wants(self, pipeline: Pipeline, folder: str) -> RunWants:
        """What a machine needs for a pipeline in this folder: its agents, and a folder of its repository."""
        repo, top = remote_of(folder), top_of(folder)
        below = os.path.relpath(folder, top) if repo and top else ""
        agents = (self._agent(node.agent) for node in pipeline.nodes if not node.on)  # others run elsewhere
        return RunWants(
            agents=tuple(dict.fromkeys(filter(None, agents))),
            repo=repo,
            below="" if below == "." else below,
            folder="" if repo else folder,
            version=WORKFLOW_VERSION,
        )

    def _agent(self, word: str) -> str:
        """The agent that is meant; "" for none, and for a profile that only other machines know."""
        try:
            return choose(self._o.settings, word).agent if word else ""
        except OstlerError:
            return ""

    async def _prepare(self) -> None:
        if not self._prepared:
            await self.index.prepare()
            self._prepared = True

    # -- those that wait

    async def waiting(self, limit: int) -> list[RunView]:
        """Those that no machine has yet, with the reason."""
        try:
            await self._prepare()
            found = await self.index.runs_of(None, limit)
        except OstlerError as error:
            _log.debug("runs that wait: %s", error)
            return []
        return [self.waiting_view(run) for run in found]

    def waiting_view(self, run: IndexedRun) -> RunView:
        return waiting_view(run, self.membership.machines)

    async def find_waiting(self, id: str) -> IndexedRun | None:
        """A run that no machine has yet."""
        await self._prepare()
        found = await self.index.find(id)
        return found if found is not None and found.machine is None else None

    # -- those that there are

    async def step(self) -> None:
        await asyncio.sleep(BEAT)
        await self._prepare()
        async with self.storing:
            found = await self.index.open_runs(self.membership.id)
            for run in found:
                if run.machine == self.membership.id:
                    await self._keep_up(run)
        self._begun = True
        await self._note_moved()
        others = [run for run in found if run.machine != self.membership.id]
        if any(run.machine is not None for run in others):
            self.membership.keep_watch()  # somebody has to see whether their machines are lost
        free = [run for run in others if run.machine is None or run.lost]
        self._free_since = {run.id: self._free_since.get(run.id, clock.monotonic()) for run in free}
        for run in free:
            await self._consider(run)
        if clock.monotonic() - self._swept > _SWEEP:
            await self.index.sweep(self.membership.id, _KEPT_DAYS)
            await sweep_steps(self.membership.directory)
            self._swept = clock.monotonic()

    async def _keep_up(self, run: IndexedRun) -> None:
        """A run of this machine: begun here if it was only claimed, ended there if it has ended here."""
        local = self._runs.get(run.id)
        if local is None or local.fence < run.fence:
            await self._take_up(run)
        elif local.fence == run.fence and local.ended_at is not None:
            await self.index.put_run(run.id, RunClaim(self.membership.id, run.fence), local.state, _encode(local))
        elif not self._begun and run.takeover and not self._runs.owned(local):
            _log.info("run %s was interrupted, and goes on", run.id)
            await self._start(await self._runs.claim(local, self._o.desk.id))

    async def _note_moved(self) -> None:
        """Of runs that were interrupted here, and went on elsewhere."""
        idle = {row.id: row for row in self._runs.open() if row.fence and not self._runs.owned(row)}
        if not idle:
            return
        for id, run in (await self.index.find_all(idle)).items():
            if (run.machine, run.fence) != (self.membership.id, idle[id].fence):
                await mark_moved(self._runs, idle[id], run.machine_name)

    async def _consider(self, run: IndexedRun) -> None:
        """Claims a run that nobody has, if this machine is the one for it."""
        await self.membership.refresh_one(self.membership.id)
        if unfit_for_run(self.membership.me, run) or await self.unfit_here(run):
            return  # without a look at all the others
        await self.membership.fresh()
        machines = [seen for seen in self.membership.machines if not unfit_for_run(seen, run)]
        if not machines:
            return
        waited = clock.monotonic() - self._free_since[run.id]
        if best_for_run(machines).id != self.membership.id and waited < _FIRST_CHOICE:
            return
        claimed = await self.index.claim(run, self.membership.id, self.membership.epoch)
        if claimed is not None:
            _log.info("claimed run %s%s", run.id, f" of machine {run.machine_name}" if run.machine else "")
            await self._take_up(claimed)

    async def unfit_here(self, run: IndexedRun) -> str:
        """Why it cannot go on here, as only this machine knows; "": it can."""
        row = _run(run.body)
        if self._folder(run.wants) is None:
            return f"it has no folder {run.wants.below or run.wants.folder or run.wants.repo}"
        for word in {node.agent for node in row.pipeline.nodes if node.agent}:
            try:
                choose(self._o.settings, word)
            except OstlerError as error:
                return str(error)
        return lost_work(row, map(_node, await self.index.nodes(run.id))) if run.machine is not None else ""

    def _folder(self, wants: RunWants) -> str | None:
        """Where the run works on this machine."""
        if not wants.repo:
            return wants.folder if os.path.isdir(wants.folder) else None
        for known in self.membership.me.row.facts.folders:
            top = top_of(known.path) if known.remote == wants.repo else None
            folder = os.path.normpath(os.path.join(top, wants.below)) if top is not None else ""
            if folder and os.path.isdir(folder):
                return folder
        return None

    async def _take_up(self, run: IndexedRun) -> None:
        """Goes on here with a run of this machine that is not known here, or was another machine's since."""
        row = _run(run.body)
        nodes = [taken_over(row, _node(body), run.came_from) for body in await self.index.nodes(run.id)]
        folder = self._folder(run.wants) or row.folder
        row = structs.replace(row, folder=folder, owner=self._o.desk.id, fence=run.fence, error="")
        if row.state == "cancelling":  # nothing of it runs any more
            await self._runs.add(structs.replace(row, state="cancelled", owner=None, ended_at=clock.now()), nodes)
            return
        await self._runs.add(row, nodes)
        await self._start(row)


def waiting_view(run: IndexedRun, machines: Iterable[SeenMachine]) -> RunView:
    """A run that no machine has yet, with the reason."""
    return structs.replace(indexed_view(run, ()), state="waiting", error=why_nobody(run, machines, ()))


def why_nobody(run: IndexedRun, machines: Iterable[SeenMachine], nodes: Iterable[bytes]) -> str:
    """Why no machine has a run that waits, or goes on with that of one which is away; "": one will soon."""
    if run.machine is not None and not run.takeover:
        return f"it resumes when machine {run.machine_name} is back: its pipeline does not set takeover = true"
    if run.machine is not None and (lost := lost_work(_run(run.body), map(_node, nodes))):
        return f"it resumes when machine {run.machine_name} is back: {lost}"
    reasons = {seen.name: unfit_for_run(seen, run) for seen in machines}
    return "" if "" in reasons.values() else NoMachineFits(reasons).message
