"""The turns of this process: those that run, those in line, and those that others left behind."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from ostler.errors import OstlerError, internal_error
from ostler.model import Envelope, Outcome, Problem, SignalName, Turn, TurnRow
from ostler.store import Store
from ostler.supervise import Loop, retried
from ostler.work.owner import OwnerDesk, alive, end_orphaned_turns, end_unwatched
from ostler.work.pool.pool import Pool
from ostler.work.pool.waiting_line import WaitingLine
from ostler.work.transports.stop import Stop
from ostler.work.turns.run import TurnRun
from ostler.work.turns.unwritten import Unwritten

_PATIENCE = 1.0
_MEASURED_EACH = 2.0  # seconds
STORE_PATIENCE = 300.0  # seconds for which a turn in line waits for a store that is in trouble
_CLOSING = "ostler is closing"

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Turns:
    """What this process carries; `close` cancels all of it and waits for its end."""

    def __init__(self, store: Store, owner: OwnerDesk, unwritten: Unwritten, pool: Pool) -> None:
        self._store, self._owner, self._unwritten = store, owner, unwritten
        self.pool = pool
        self.line = WaitingLine(pool, store)
        self.line.end_orphaned = self.end_orphaned
        self._stops: list[Stop] = []  # of each turn from its first line to its end: a cancel always finds it
        self._running: set[asyncio.Task[Envelope]] = set()
        self._begun: set[asyncio.Task[None]] = set()  # turns that go on though nobody reads them
        self._looking_after = Loop("looking for turns of dead processes", self._look_after)
        self._closing = False
        self._sessions: dict[str, str] = {}  # of the turns that run → their agents
        self._measuring = Loop("measuring the memory of agents", self._measure)
        self.spawner: Callable[[], int | None] = lambda: None  # the process below which agents run
        self.until_free: Callable[[str, Stop], Awaitable[bool]] | None = None  # waits for a person at the keyboard
        self.adopt: Callable[[TurnRow, bool], Awaitable[bool]] | None = None  # carries on what runs in a pane
        self.also_looks: Callable[[], Awaitable[None]] | None = None  # what else a process that stays looks after
        self.on_orphaned: Callable[[list[TurnRow]], Awaitable[None]] | None = None  # told of turns that were ended

    async def close(self) -> None:
        self._closing = True
        for stop in self._stops:
            stop.leave(_CLOSING)
        await asyncio.gather(*self._running, *self._begun, return_exceptions=True)
        await self._looking_after.stop()
        await self._measuring.stop()
        await self.line.close()

    @contextmanager
    def cancellable(self, stop: Stop) -> Iterator[None]:
        """Around all that is done for a turn, from its first line."""
        self._stops.append(stop)
        if self._closing:
            stop.cancel(_CLOSING)
        try:
            yield
        finally:
            self._stops.remove(stop)

    def track(self, run: TurnRun) -> "asyncio.Task[Envelope]":
        """Runs the turn in a task of its own, which is waited for at the end."""
        task = asyncio.create_task(run.run())
        self._running.add(task)
        self._sessions[run.session.id] = run.turn.agent
        self._measuring.start()
        task.add_done_callback(lambda task: self._untrack(run, task))
        return task

    async def _measure(self) -> None:
        """What the agents of the turns that run take, every few seconds; short turns are never looked at."""
        await asyncio.sleep(_MEASURED_EACH)
        spawner = self.spawner()
        if self._sessions and spawner is not None:
            await asyncio.to_thread(self.pool.memory.sample, [spawner], list(self._sessions))

    def own(self, work: Coroutine[Any, Any, None]) -> None:
        """A task that this Ostler waits for when it closes: what it does goes on though nobody awaits it."""
        task = asyncio.create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._disown)

    def _disown(self, task: "asyncio.Task[None]") -> None:
        self._begun.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, OstlerError):
            _log.debug("work in the background ended: %s", error)  # an end that is not written is in `_unwritten`
        else:
            _log.error("work in the background failed", exc_info=error)

    def _untrack(self, run: TurnRun, task: "asyncio.Task[Envelope]") -> None:
        self._running.discard(task)
        self._sessions.pop(run.session.id, None)
        if run.session.id in self.pool.memory.peaks and not self._closing:
            self.own(self.pool.memory.learn(run.turn.agent, run.session.id))
        if run.owes_its_end:
            self._unwritten.keep(run.turn.id, run.write_end)

    def cancel(self, turn_id: str, signal: SignalName | None = None) -> bool:
        """False: it is none of this process's."""
        found = [stop for stop in self._stops if stop.turn == turn_id]
        for stop in found:
            stop.cancel(signal=signal)
        return bool(found)

    def cancel_all(self) -> bool:
        """Cancels every turn of this process, those in line or in preparation too. False: there is none."""
        for stop in self._stops:
            stop.cancel()
        return bool(self._stops)

    # -- in line

    async def wait_in_line(self, turn: Turn, stop: Stop) -> int:
        """Waits until a queued turn may begin; the next seq. A cancel ends it as cancelled."""
        _log.info("turn %s waits in line", turn.id)
        place = _InLine(self, turn, stop)
        try:
            while stop.problem is None:
                next_seq = await self.despite_store(turn, stop, place.look)
                if next_seq is not None:
                    _log.debug("turn %s is next", turn.id)
                    return next_seq
            raise OstlerError("cancelled", "cancelled while it waited for the session")
        except BaseException as error:
            await self.give_up(turn, error)
            raise

    async def despite_store(self, turn: Turn, stop: Stop, step: Callable[[], Awaitable[T]]) -> T:
        """What `step` returns for a turn in line. A store in trouble is waited for; in the end its error is raised."""

        async def pause(seconds: float) -> None:
            with suppress(TimeoutError):  # the pause is over, and nobody stopped the turn
                async with asyncio.timeout(seconds):
                    raise (await stop.wait()).raised()

        return await retried(f"turn {turn.id} in line", step, passes=_is_of_store, patience=STORE_PATIENCE, pause=pause)

    async def give_up(self, turn: Turn, error: BaseException) -> None:
        """Ends a stored turn that nobody will carry, for this reason: now, or once the store can be written."""
        problem = Problem(kind="cancelled", message="cancelled before it began")
        if isinstance(error, OstlerError):
            problem = Problem.of(error)
        elif isinstance(error, Exception):
            _log.error("turn %s: this is a bug in ostler", turn.id, exc_info=error)
            problem = Problem(kind="crashed", message=internal_error(error)[:2000])
        outcome: Outcome = "cancelled" if problem.kind == "cancelled" else "failed"
        await self._unwritten.write(turn.id, lambda: self._end_unbegun(turn.id, outcome, problem))

    async def _end_unbegun(self, turn_id: str, outcome: Outcome, problem: Problem) -> None:
        row = self._store.turn(turn_id)
        if row is not None:
            await end_unwatched(self._store, row, outcome, problem)

    async def claim(self, turn: Turn) -> int | None:
        """The next seq if a queued turn is the next of its session, and now ours; else None."""
        if self._store.next_turn(turn.session) != turn.id:
            return None
        next_seq = await self._store.claim_turn(turn.id, self._owner.id, self.pool.gate())
        if next_seq is None and (row := self._store.turn(turn.id)) is not None:
            # A claim may be committed though the store said that it failed.
            ours = (row.state, row.owner) == ("starting", self._owner.id)
            next_seq = self._store.last_seq(turn.session) + 1 if ours else None
        return next_seq

    # -- what others left behind

    async def end_orphaned(self, carry_on: bool = True) -> bool:
        """Ends the turns that nobody carries any more, and our own whose end is not written. True: there were some.

        Those that go on in panes are taken over, with `carry_on`, or left to themselves.
        """
        written = await self._unwritten.write_all()
        return await self._end_orphaned(carry_on) or written

    async def _end_orphaned(self, carry_on: bool = True) -> bool:
        adopt, carry_on = self.adopt, carry_on and not self._closing
        orphans = await end_orphaned_turns(self._store, adopt and (lambda row: adopt(row, carry_on)))
        if orphans.ended and self.on_orphaned is not None:
            await self.on_orphaned(orphans.ended)
        return bool(orphans.found)

    def look_after(self) -> None:
        """From now on, until the end."""
        self._looking_after.start()

    async def _look_after(self) -> None:
        """One that stays ends what others leave behind when they die: those who watch are told soon."""
        await asyncio.sleep(_PATIENCE)
        owners = {owner.id: alive(owner) for owner in self._store.owners()}
        left = any(row.owner not in owners for row in self._store.running_turns())
        if left or not all(owners.values()):
            await self._end_orphaned()
        if self.also_looks is not None:
            await self.also_looks()


class _InLine:
    """A queued turn that looks whether it may begin."""

    def __init__(self, turns: Turns, turn: Turn, stop: Stop) -> None:
        self._turns, self._turn, self._stop = turns, turn, stop
        self._may_come = False

    async def look(self) -> int | None:
        """The next seq if it may; else None, once the pool has something for it, or after a second."""
        turns, turn = self._turns, self._turn
        is_next = turns._store.next_turn(turn.session) == turn.id  # raises where the store is in trouble
        if not (self._may_come and is_next) and not await turns.line.comes(turn.id, self._stop):
            return None  # nothing is written for a turn that only waits
        self._may_come = True
        if self._stop.problem is not None or await self._held():
            return None
        next_seq = await turns.claim(turn)
        if next_seq is None:
            self._may_come = False
            await asyncio.sleep(0)
        return next_seq

    async def _held(self) -> bool:
        """Waits while a person has the keyboard; nobody else waits for that. False: nobody had it."""
        turns, session = self._turns, self._turn.session
        if turns.until_free is None:
            return False
        turns.pool.held[session] = "a person has the keyboard"
        try:
            return await turns.until_free(session, self._stop)
        finally:
            turns.pool.held.pop(session, None)


def _is_of_store(error: Exception) -> bool:
    return isinstance(error, OstlerError) and error.kind == "store"
