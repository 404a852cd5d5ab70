"""Turns that wait for the pool: one look at the store for all of them, whenever something changed there."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ostler.errors import OstlerError
from ostler.model import Waiting
from ostler.model.pool import PoolDecision, PoolTurn
from ostler.store import Store
from ostler.supervise import Loop
from ostler.work.owner import alive
from ostler.work.pool.pool import Pool
from ostler.work.transports.stop import Stop

if TYPE_CHECKING:
    from ostler.store.watch import StoreWatch

PATIENCE = 1.0  # seconds after which everything is looked at anew, whatever was told
_PACE = 0.005  # seconds between two looks at least: many may write at once
_log = logging.getLogger(__name__)


class WaitingLine:
    """The turns of this process that wait. While there are none, nothing is looked at."""

    def __init__(self, pool: Pool, store: Store) -> None:
        self._pool, self._store = pool, store
        self.end_orphaned: Callable[[], Awaitable[bool]] | None = None
        self.on_wait: Callable[[Waiting], None] | None = None  # why a turn of this process waits, when that changes
        self.end_idle: Callable[[str], Awaitable[None]] | None = None
        self._events: dict[str, asyncio.Event] = {}
        self._known: dict[str, tuple[int, str]] = {}  # what was told of each
        self._wake = asyncio.Event()
        self._looking = Loop("looking whether turns may start", self._look)
        self._watch: StoreWatch | None = None
        self._processes = _Processes(self._wake.set)

    async def close(self) -> None:
        await self._looking.stop()
        self._release()

    async def comes(self, turn: str, stop: Stop) -> bool:
        """True once it may be this turn's; False when it is stopped, or after a second."""
        event = self._events[turn] = asyncio.Event()
        self._looking.start()
        self._wake.set()
        try:
            with suppress(TimeoutError), stop.calling(event.set):  # after a second the turn looks for itself
                async with asyncio.timeout(PATIENCE):
                    while stop.problem is None and not event.is_set():
                        await event.wait()
        finally:
            if self._events.get(turn) is event:
                del self._events[turn]
        return event.is_set() and stop.problem is None

    async def _look(self) -> None:
        if not self._events:
            self._release()
            await self._wake.wait()
        self._wake.clear()
        turns = self._store.pool_turns()
        if self._has_dead_owner(turns) and self.end_orphaned is not None and await self.end_orphaned():
            return
        version = self._store.data_version()
        decision = self._pool.look()
        for id in decision.start:
            if id in self._events:
                self._events[id].set()
        self._report_places(decision)
        await self._make_room(decision)
        await self._changed(version)

    def _has_dead_owner(self, turns: tuple[PoolTurn, ...]) -> bool:
        """Their processes are watched, so that a slot is free the moment one of them is killed."""
        wanted = {turn.owner for turn in turns}
        owners = [owner for owner in self._store.owners() if owner.id in wanted]
        self._processes.watch({owner.pid for owner in owners} - {os.getpid()})
        known = {owner.id for owner in owners}
        return not wanted <= known or not all(map(alive, owners))

    def _report_places(self, decision: PoolDecision) -> None:
        if self.on_wait is None:
            return
        for wait in decision.waiting:
            if wait.turn in self._events and self._known.get(wait.turn) != (wait.position, wait.reason):
                self._known[wait.turn] = (wait.position, wait.reason)
                self.on_wait(wait)

    async def _make_room(self, decision: PoolDecision) -> None:
        if self.end_idle is None:
            return
        for session in decision.end:
            _log.info("session %s: its idle process ends, since turns wait for memory", session)
            try:
                await self.end_idle(session)
            except OstlerError as error:
                _log.debug("it did not end: %s", error)

    async def _changed(self, version: int) -> None:
        """Waits until somebody wrote to the store, a turn joined, or a process ended; a second at most."""
        await asyncio.sleep(_PACE)
        if self._store.data_version() != version or self._wake.is_set():
            return
        if self._watch is None:
            self._watch = self._store.watch()
        commits = self._watch.commits()
        waits = [asyncio.ensure_future(commits.wait(PATIENCE)), asyncio.ensure_future(self._wake.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            commits.close()

    def _release(self) -> None:
        """Nobody waits."""
        self._processes.watch(set())
        if self._watch is not None:
            self._watch.close()
            self._watch = None


class _Processes:
    """Other processes, whose end is told at once."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._fds: dict[int, int] = {}

    def watch(self, pids: set[int]) -> None:
        """From now on these, and no others."""
        for pid in self._fds.keys() - pids:
            self._forget(pid)
        for pid in pids - self._fds.keys():
            try:
                fd = os.pidfd_open(pid)
            except (OSError, AttributeError):
                continue  # it is gone, or the kernel cannot: it is looked for each second
            self._fds[pid] = fd
            asyncio.get_running_loop().add_reader(fd, self._over, pid)

    def _over(self, pid: int) -> None:
        self._forget(pid)
        self._ended()

    def _forget(self, pid: int) -> None:
        fd = self._fds.pop(pid)
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
