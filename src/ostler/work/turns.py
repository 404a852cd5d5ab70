"""The turns of this process: those that run, those in line, and those that others left behind."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from ostler.errors import OstlerError
from ostler.store import Store
from ostler.words import Envelope, Outcome, Problem, Turn
from ostler.work.carry import Stop
from ostler.work.owner import OwnerDesk, alive, end_orphaned_turns, end_unwatched
from ostler.work.turn import TurnRun

_POLL = 0.05
_PATIENCE = 1.0
_CLOSING = "ostler is closing"


class Turns:
    """What this process carries; `close` cancels all of it and waits for its end."""

    def __init__(self, store: Store, owner: OwnerDesk) -> None:
        self._store, self._owner = store, owner
        self._running: dict[str, tuple[TurnRun, asyncio.Task[Envelope]]] = {}
        self._in_line: dict[str, Stop] = {}
        self._begun: set[asyncio.Task[None]] = set()  # turns that go on though nobody reads them
        self._abandoned: set[str] = set()  # turns whose end could not be written
        self._looking_after: asyncio.Task[None] | None = None
        self._closing = False

    async def close(self) -> None:
        self._closing = True
        for run, _ in self._running.values():
            run.cancel(_CLOSING)
        for stop in self._in_line.values():
            stop.wish(Problem(kind="cancelled", message=_CLOSING))
        tasks = (*(task for _, task in self._running.values()), *self._begun)
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._looking_after is not None:
            self._looking_after.cancel()
            await asyncio.gather(self._looking_after, return_exceptions=True)

    def track(self, run: TurnRun) -> "asyncio.Task[Envelope]":
        """Runs the turn in a task of its own, which is waited for at the end."""
        task = asyncio.create_task(run.run())
        self._running[run.turn.id] = run, task
        task.add_done_callback(lambda task: self._untrack(run.turn.id, task))
        if self._closing:
            run.cancel(_CLOSING)
        return task

    def own(self, work: Coroutine[Any, Any, None]) -> None:
        """A task that this Ostler waits for when it closes: what it does goes on though nobody awaits it."""
        task = asyncio.create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._disown)

    def _disown(self, task: "asyncio.Task[None]") -> None:
        self._begun.discard(task)
        if not task.cancelled():
            task.exception()  # a turn that could not be ended is in `_abandoned`; nothing else is raised

    def _untrack(self, turn_id: str, task: "asyncio.Task[Envelope]") -> None:
        self._running.pop(turn_id, None)
        if task.cancelled() or task.exception() is not None:
            self._abandoned.add(turn_id)

    def cancel(self, turn_id: str) -> bool:
        """False: it is none of this process's."""
        if turn_id in self._running:
            self._running[turn_id][0].cancel()
        elif turn_id in self._in_line:
            self._in_line[turn_id].wish(Problem(kind="cancelled", message="cancelled"))
        else:
            return False
        return True

    def cancel_all(self) -> bool:
        """Cancels every turn of this process, those in line too. False: there is none."""
        told = [self.cancel(turn_id) for turn_id in (*self._running, *self._in_line)]
        return any(told)

    # -- in line

    async def wait_in_line(self, turn: Turn) -> int:
        """Waits until a queued turn may begin; the next seq. A cancel ends it as cancelled."""
        stop, look = Stop(), 0.0
        self._in_line[turn.id] = stop
        if self._closing:
            stop.wish(Problem(kind="cancelled", message=_CLOSING))
        try:
            while stop.problem is None:
                version = self._store.data_version()
                if time.monotonic() >= look:
                    await self.end_orphaned()
                    look = time.monotonic() + _PATIENCE
                if self._store.next_turn(turn.session) == turn.id:
                    next_seq = await self._store.claim_turn(turn.id, self._owner.id)
                    if next_seq is not None:
                        return next_seq
                await change_since(self._store, version, stop)
            raise OstlerError("cancelled", "cancelled while it waited for the session")
        except BaseException as error:
            await self.give_up(turn, error)
            raise
        finally:
            del self._in_line[turn.id]

    async def give_up(self, turn: Turn, error: BaseException) -> None:
        """Ends a stored turn that nobody will carry, for this reason."""
        row = self._store.turn(turn.id)
        if row is None:
            return
        problem = Problem(kind="cancelled", message="cancelled while it waited for the session")
        if isinstance(error, OstlerError):
            problem = Problem(kind=error.kind, message=error.message, hint=error.hint, retry_at=error.retry_at)
        outcome: Outcome = "cancelled" if problem.kind == "cancelled" else "failed"
        await end_unwatched(self._store, row, outcome, problem)

    # -- what others left behind

    async def end_orphaned(self) -> bool:
        """Ends the turns that nobody carries any more. True: there were some."""
        ended = await end_orphaned_turns(self._store, self._abandoned)
        self._abandoned -= {row.id for row in ended}
        return bool(ended)

    def look_after(self) -> None:
        """From now on, until the end."""
        self._looking_after = asyncio.create_task(self._look_after())

    async def _look_after(self) -> None:
        """One that stays ends what others leave behind when they die: those who watch are told soon."""
        while True:
            await asyncio.sleep(_PATIENCE)
            with suppress(OstlerError):  # a store in trouble is asked again
                if not all(map(alive, self._store.owners())):
                    await self.end_orphaned()


async def change_since(store: Store, version: int, stop: Stop | None = None) -> None:
    """Waits until somebody wrote to the store; a second at most, since a dead owner writes nothing."""
    deadline = time.monotonic() + _PATIENCE
    while store.data_version() == version and time.monotonic() < deadline:
        if stop is not None and stop.problem is not None:
            return
        await asyncio.sleep(_POLL)
