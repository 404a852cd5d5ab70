"""Sessions, terminals and runs of other machines: listed, followed live, and shown as they were when one is away."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from functools import partial
from urllib.parse import urlencode

import msgspec
from msgspec import Struct, structs

from ostler.errors import OstlerError
from ostler.machines.event_stream import ServerEvent, events_of, whole_frames
from ostler.machines.membership import SeenMachine
from ostler.machines.model import SessionEntry
from ostler.machines.run_index import RunIndex
from ostler.machines.states import BEAT
from ostler.model import SessionState, TerminalRow
from ostler.server.addressing import target_of
from ostler.server.auth import Person
from ostler.server.front_door import FrontDoor, check_answers, unreachable
from ostler.server.live_index import RUNS, LiveIndex, Removed, RowKind
from ostler.server.machine_client import NETWORK_ERRORS
from ostler.server.run_queue import waiting_view, why_nobody
from ostler.server.run_views import RunView, indexed_view
from ostler.server.views import SessionView
from ostler.supervise import Loop, stop_all

MANY = 500  # sessions of one machine that is away
_SILENCE = 45.0  # seconds: a stream tells every 15 that it lives
_AGAIN = 1.0  # seconds before a machine that does not answer is asked again
_STREAM = [(b"accept", b"text/event-stream")]
_encode = msgspec.json.Encoder().encode

# The rows of a live view are the same for everybody who may look at all.
_VIEWER = Person(id="front-door", name="front door", rights="view")

_log = logging.getLogger(__name__)


class SessionFilter(Struct, frozen=True, kw_only=True):
    """Which sessions are asked for, as `GET /api/sessions` takes it."""

    query: str
    state: SessionState | None
    limit: int

    @property
    def takes_all(self) -> bool:
        """Whether the answer is as good as all that a machine is remembered by."""
        return not self.query and self.state is None and self.limit >= MANY

    def as_query(self) -> str:
        given = {"query": self.query, "state": self.state, "limit": self.limit}
        return urlencode({name: value for name, value in given.items() if value})


class FarSessions(Struct):
    items: list[SessionView]


class FarRuns(Struct):
    items: list[RunView]


class RemoteSessions:
    def __init__(self, front_door: FrontDoor) -> None:
        self._door, self._membership = front_door, front_door.membership
        self._last: dict[str, dict[str, SessionView]] = {}  # machine → what it last told
        self._terminals: dict[str, set[str]] = {}  # machine → those that it told of
        self._runs: dict[str, dict[str, RunView]] = {}  # the same of runs
        self._following: dict[str, Loop] = {}
        self._looking = Loop("following other machines", self._look)
        self._waiting: dict[str, RunView] = {}  # runs that no machine has yet, as they were told
        self._queue = Loop("looking at runs that wait for a machine", self._look_at_queue)
        self._index: LiveIndex | None = None

    # -- listed

    async def listed(self, person: Person, wanted: SessionFilter) -> list[SessionView]:
        """Of all other machines: each chooses its own; of one that is away, all that is known.

        Nothing is waited for longer than some seconds.
        """
        machines = [seen for seen in self._membership.others if seen.state != "gone"]
        found = await asyncio.gather(*(self._of_machine(seen, person, wanted) for seen in machines))
        return [view for views in found for view in views]

    async def _of_machine(self, machine: SeenMachine, person: Person, wanted: SessionFilter) -> list[SessionView]:
        try:
            check_answers(machine)
            status, body = await self._door.get(machine, person, target_of("/api/sessions", wanted.as_query()))
            if status != 200:
                raise unreachable(machine, f"it answered {status}")
            views = [_of(machine, view) for view in msgspec.json.decode(body, type=FarSessions).items]
        except (OstlerError, msgspec.DecodeError) as error:
            _log.debug("sessions of %s: %s", machine.name, error)
            return await self._last_known(machine)
        by_id = {view.id: view for view in views}
        if wanted.takes_all:
            self._last[machine.id] = by_id
        elif machine.id in self._last:  # else the index is to be read for what a part does not have
            self._last[machine.id] |= by_id
        return views

    async def _last_known(self, machine: SeenMachine) -> list[SessionView]:
        """What it told us, else what the directory's index has."""
        if machine.id not in self._last:
            try:
                entries = await self._membership.directory.sessions_of(machine.id, MANY)
            except OstlerError as error:
                _log.debug("the index of %s: %s", machine.name, error)
                return []
            self._last[machine.id] = {entry.id: _of(machine, _view_of(entry)) for entry in entries}
        return [structs.replace(view, reachable=False) for view in self._last[machine.id].values()]

    async def listed_runs(self, person: Person, limit: int) -> list[RunView]:
        """Of all other machines; of one that is away, those that it told us of."""
        machines = [seen for seen in self._membership.others if seen.state != "gone"]
        found = await asyncio.gather(*(self._runs_of(seen, person, limit) for seen in machines))
        return [view for views in found for view in views]

    async def _runs_of(self, machine: SeenMachine, person: Person, limit: int) -> list[RunView]:
        try:
            check_answers(machine)
            status, body = await self._door.get(machine, person, f"/api/runs?limit={limit}")
            if status != 200:
                raise unreachable(machine, f"it answered {status}")
            views = [_run_of(machine, view) for view in msgspec.json.decode(body, type=FarRuns).items]
        except (OstlerError, msgspec.DecodeError) as error:
            _log.debug("runs of %s: %s", machine.name, error)
            return list((await self._lost_runs(machine, limit)).values())
        self._runs.setdefault(machine.id, {}).update({view.id: view for view in views})
        return views

    async def _lost_runs(self, machine: SeenMachine, limit: int) -> dict[str, RunView]:
        """Those of a machine that is away, as they were: what it told us, and what the index has, but for those that
        other machines have by now.
        """
        known, index = self._runs.setdefault(machine.id, {}), RunIndex(self._membership.directory)
        try:
            elsewhere = {id for id, run in (await index.find_all(known)).items() if run.machine != machine.id}
            new = {}
            for run in await index.runs_of(machine.id, limit):
                nodes = await index.nodes(run.id) if run.state in ("running", "cancelling") else []
                view = known.get(run.id) or indexed_view(run, nodes)
                why = why_nobody(run, self._membership.machines, nodes) if view.ended_at is None else view.error
                new[run.id] = structs.replace(view, error=why)
        except OstlerError as error:
            _log.debug("the index of runs of %s: %s", machine.name, error)
            elsewhere, new = set(), {}
        for id in elsewhere:
            del known[id]
        known |= {id: _run_of(machine, view) for id, view in new.items()}
        return {id: _away(view) for id, view in known.items()}

    # -- journals

    async def journal(self, session: str, after: int, person: Person) -> AsyncGenerator[bytes, None] | None:
        """The journal of a session elsewhere beyond `after`, as frames; None: it is here, or nowhere."""
        key, machine = await self._door.find_session(session, person)
        if machine is None or machine.id == self._membership.id:
            return None
        check_answers(machine)
        target = target_of(f"/api/sessions/{key}/events", f"after={after}")
        return self._frames(machine, person, target)

    async def _frames(self, machine: SeenMachine, person: Person, target: str) -> AsyncGenerator[bytes, None]:
        """Whole frames of an event stream, until it ends. Raises crashed, or what the machine says."""
        async with await self._door.ask(machine, person, "GET", target, _STREAM) as answer:
            if answer.status != 200:
                raise OstlerError("not_found", f"machine {machine.name} refused it ({answer.status})")
            rest = b""
            async for data in _while_heard(machine, answer.chunks()):
                whole, rest = whole_frames(rest + data)
                if whole:
                    yield whole

    # -- live

    def follow(self, index: LiveIndex) -> None:
        """Tells this index the rows of all other machines, from now on."""
        self._index, self._waiting = index, {}
        self._looking.start()
        self._queue.start()

    async def leave(self) -> None:
        self._index = None
        following, self._following = self._following, {}  # at once: somebody may follow again while these end
        await stop_all([self._looking, self._queue, *following.values()])

    async def _look(self) -> None:
        """One follower for each machine that answers; those that are gone are let go, with their rows."""
        wanted = {seen.id: seen for seen in self._membership.others if seen.state != "gone"}
        for id in self._following.keys() - wanted.keys():
            await self._following.pop(id).stop()
            self._remove_rows_of(id)
        for id in wanted.keys() - self._following.keys():
            name = f"following machine {wanted[id].name}"
            self._following[id] = Loop(name, partial(self._follow_once, id), longest=_AGAIN)
            self._following[id].start()
        await self._membership.changed()

    async def _look_at_queue(self) -> None:
        """Nobody tells of runs that wait: they belong to no machine. Once one has such a run, that one tells of it."""
        try:
            runs = await RunIndex(self._membership.directory).runs_of(None, RUNS)
        except OstlerError as error:
            _log.debug("runs that wait: %s", error)
        else:
            self._update_waiting({run.id: waiting_view(run, self._membership.machines) for run in runs})
        await asyncio.sleep(BEAT)

    def _update_waiting(self, now: dict[str, RunView]) -> None:
        before, self._waiting = self._waiting, now
        if self._index is None:
            return
        for id, view in now.items():
            if before.get(id) != view:
                self._index.put_foreign("run", id, _encode(view))
        for id in before.keys() - now.keys():
            if not any(id in runs for runs in self._runs.values()):
                self._index.remove_foreign("run", id)

    async def _follow_once(self, id: str) -> None:
        """As long as the machine answers; when it does not, its rows say so."""
        machine = self._membership.machine(id)
        if machine is None:
            return
        try:
            check_answers(machine)
            work = asyncio.create_task(self._take_rows(machine))
            lost = asyncio.create_task(self._membership.until_lost(id))
            try:
                await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    work.result()
            finally:
                work.cancel()
                lost.cancel()
                await asyncio.gather(work, lost, return_exceptions=True)
        except OstlerError as error:
            _log.debug("following %s: %s", machine.name, error)
        await self._last_known(machine)
        await self._lost_runs(machine, RUNS)
        self._mark_unreachable(id)
        await asyncio.sleep(_AGAIN)

    async def _take_rows(self, machine: SeenMachine) -> None:
        known: dict[str, SessionView] = {}
        async for piece in self._frames(machine, _VIEWER, "/api/live"):
            for event in events_of(piece):
                self._take(machine, known, event)

    def _take(self, machine: SeenMachine, known: dict[str, SessionView], event: ServerEvent) -> None:
        kind, data = event
        if self._index is None:
            return
        if kind == "session":
            view = _of(machine, msgspec.json.decode(data, type=SessionView))
            known[view.id] = view
            self._index.put_foreign("session", view.id, _encode(view))
        elif kind == "terminal":
            terminal = msgspec.json.decode(data, type=TerminalRow).id
            self._terminals.setdefault(machine.id, set()).add(terminal)
            self._index.put_foreign("terminal", terminal, data)
        elif kind == "run":
            run = _run_of(machine, msgspec.json.decode(data, type=RunView))
            if run.state == "moved":
                return  # the machine that has it tells of it
            self._runs.setdefault(machine.id, {})[run.id] = run
            self._index.put_foreign("run", run.id, _encode(run))
        elif kind == "gone":
            removed = msgspec.json.decode(data, type=Removed)
            known.pop(removed.id, None)
            self._runs.get(machine.id, {}).pop(removed.id, None)
            self._index.remove_foreign(removed.what, removed.id)
        elif kind == "ready":
            for id in self._last.get(machine.id, {}).keys() - known.keys():
                self._index.remove_foreign("session", id)  # removed while nobody followed
            self._last[machine.id] = known

    def _mark_unreachable(self, machine: str) -> None:
        rows: list[tuple[RowKind, SessionView | RunView]] = [
            *(("session", view) for view in self._last.get(machine, {}).values()),
            *(("run", _away(view)) for view in self._runs.get(machine, {}).values()),
        ]
        for what, view in rows:
            if self._index is not None:
                self._index.put_foreign(what, view.id, _encode(structs.replace(view, reachable=False)))

    def _remove_rows_of(self, machine: str) -> None:
        rows: list[tuple[RowKind, str]] = [("session", id) for id in self._last.pop(machine, {})]
        rows += [("terminal", id) for id in self._terminals.pop(machine, ())]
        rows += [("run", id) for id in self._runs.pop(machine, {})]
        for what, id in rows:
            if self._index is not None:
                self._index.remove_foreign(what, id)


async def _while_heard(machine: SeenMachine, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """What comes, until nothing came for longer than a stream may be silent. Raises crashed."""
    try:
        while True:
            async with asyncio.timeout(_SILENCE):
                data = await anext(chunks, None)
            if data is None:
                return
            yield data
    except NETWORK_ERRORS as error:
        raise unreachable(machine, str(error) or "it has fallen silent") from error


def _of(machine: SeenMachine, view: SessionView) -> SessionView:
    return structs.replace(view, machine=machine.name, reachable=True)


def _run_of(machine: SeenMachine, view: RunView) -> RunView:
    return structs.replace(view, machine=machine.name, reachable=True)


def _away(view: RunView) -> RunView:
    """A run of a machine that does not answer: nobody goes on with it for now."""
    state = "interrupted" if view.state in ("running", "cancelling") else view.state
    return structs.replace(view, reachable=False, state=state)


def merged_runs(views: Iterable[RunView]) -> list[RunView]:
    """Each run once, as the machine tells it that has it."""
    merged: dict[str, RunView] = {}
    for view in sorted(views, key=lambda view: (view.state == "moved", not view.reachable)):
        merged.setdefault(view.id, view)
    return list(merged.values())


def _view_of(entry: SessionEntry) -> SessionView:
    """What the index knows of a session whose machine is away."""
    return SessionView(
        id=entry.id,
        agent=entry.agent,
        folder=entry.folder,
        created_at=entry.created_at,
        used_at=entry.used_at,
        name=entry.name,
        state=entry.state,
        turns=entry.turns,
        turn=None,
        doing="",
        queued=0,
        live_terminals=0,
        ask=None,
        asks=0,
        primary_terminal=None,
    )
