"""Watches the store for everybody who watches this server: one look at its version, however many they are.

A write to the store wakes the one who looks. It is seen a moment before it can be read, so there are some more looks,
each after twice the time, until the longest pause is reached.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import TYPE_CHECKING

from ostler import clock
from ostler.errors import OstlerError
from ostler.server.live_index import LiveIndex
from ostler.server.remote_sessions import RemoteSessions
from ostler.server.replies import EVERY, HEARTBEAT, journal_frame
from ostler.store.watch import StoreWatch
from ostler.supervise import Loop
from ostler.work import Ostler

if TYPE_CHECKING:
    from ostler.store.commits import Commits  # with ctypes: for the first who watches

SHORTEST, LONGEST = 0.001, 0.1  # seconds between looks at the store's version, which cost some microseconds
POLL = 0.015  # the longest pause where writes wake nobody
GATHER = 0.002  # seconds after something was found: what is written meanwhile is found at once
PACE = 0.1  # seconds between two tellings of the same row
_ROOM = 256 * 1024  # bytes of a journal that are held for one viewer
_MANY = 500  # events


class JournalPosition:
    """How far a session's journal goes, as of the last look."""

    def __init__(self) -> None:
        self.seq = 0
        self.gone = False
        self.viewers = 0
        self._changed = asyncio.Event()

    def look(self, seq: int, gone: bool) -> None:
        if (seq, gone) != (self.seq, self.gone):
            self.seq, self.gone = seq, gone
            self._changed.set()
            self._changed = asyncio.Event()

    async def beyond(self, seq: int) -> None:
        while self.seq <= seq and not self.gone:
            await self._changed.wait()


class SharedIndex:
    """An index while somebody reads it."""

    def __init__(self) -> None:
        self.index: LiveIndex | None = None
        self.readers = 0


class Live:
    """Polls the store while anybody is watching: from the first viewer until the last one leaves."""

    def __init__(self, ostler: Ostler) -> None:
        self.watch: StoreWatch = ostler.store.watch()
        self._journals: dict[str, JournalPosition] = {}
        self._own, self._merged = SharedIndex(), SharedIndex()
        self._viewers = 0  # of anything
        self._looking = Loop("watching the store", self._look_once, longest=5.0)
        self._version: int | None = None  # of the store, when it was last looked at
        self._commits: Commits | None = None
        self._pause = SHORTEST
        self._due = 0.0
        self.remote_sessions: RemoteSessions | None = None  # the rows of other machines, which are told too

    def check(self) -> None:
        """Raises what keeps this server from following the store: viewers would be told of no change."""
        self.watch.newest_touch()
        self._check_looking()

    def _check_looking(self) -> None:
        trouble = self._looking.lasting_trouble
        if isinstance(trouble, OstlerError):
            raise trouble
        if trouble is not None:
            raise OstlerError("crashed", "the server cannot follow its store", "See the server's log") from trouble

    async def events(self, session: str, after: int) -> AsyncGenerator[bytes, None]:
        """The session's journal beyond `after` as frames, for ever; ends when the session is removed.

        One piece at a time is read from the store: a slow viewer holds no more than that. Raises what makes
        it impossible to know whether there is something to tell.
        """
        async with self._following(session) as journal:
            while not journal.gone:
                stored = self.watch.journal(session, after, _MANY, _ROOM)
                if stored:
                    after = stored[-1][0]
                    yield b"".join(map(journal_frame, stored))
                elif not await _in_time(journal.beyond(after)):
                    yield self._heartbeat()

    async def rows(self, ready: bytes, every: float | None = None, *, own: bool = False) -> AsyncGenerator[bytes, None]:
        """All sessions and terminals as frames, then `ready`, then what changes; a heartbeat after so much silence.

        `own`: only those of this machine, for another one.
        """
        async with self._reading_index(own) as index:
            n, pieces = index.everything()
            for piece in (*pieces, ready):
                yield piece
            del pieces
            while True:
                if not await _in_time(index.beyond(n), every):
                    yield self._heartbeat()
                    continue
                changed = index.since(n)
                if changed is None:
                    return  # it has to begin anew
                n, data = changed
                yield data
                await asyncio.sleep(PACE)

    def _heartbeat(self) -> bytes:
        """Says that nothing has changed; raises when nobody can know."""
        self._check_looking()
        return HEARTBEAT

    # -- viewers

    @contextlib.asynccontextmanager
    async def _following(self, session: str) -> AsyncIterator[JournalPosition]:
        journal = self._journals.setdefault(session, JournalPosition())
        journal.viewers += 1
        try:
            async with self._looked_at():
                yield journal
        finally:
            journal.viewers -= 1
            if not journal.viewers:
                self._journals.pop(session, None)

    @contextlib.asynccontextmanager
    async def _reading_index(self, own: bool) -> AsyncIterator[LiveIndex]:
        """One index for all who read it. `own`: without the rows of other machines."""
        shared = self._own if own or self.remote_sessions is None else self._merged
        if shared.index is None:
            shared.index = LiveIndex(self.watch)
            if shared is self._merged and self.remote_sessions is not None:
                self.remote_sessions.follow(shared.index)
        shared.readers += 1
        try:
            async with self._looked_at():
                yield shared.index
        finally:
            shared.readers -= 1
            if not shared.readers:
                shared.index = None
                if shared is self._merged and self.remote_sessions is not None:
                    await self.remote_sessions.leave()

    @contextlib.asynccontextmanager
    async def _looked_at(self) -> AsyncIterator[None]:
        """While somebody watches the store is looked at; the last one to leave ends it."""
        if self._commits is None:
            self._commits = self.watch.commits()
        self._viewers += 1
        self._looking.start()
        try:
            yield
        finally:
            self._viewers -= 1
            if not self._viewers:
                await self._looking.stop()
                self._forget()

    def _forget(self) -> None:
        """Nobody watches any more, unless somebody came while the last look ended."""
        if not self._viewers and self._commits is not None:
            self._version = None
            self._commits.close()
            self._commits = None

    # -- looking

    async def _look_once(self) -> None:
        now = self.watch.version()
        if now != self._version:
            self._look()
            self._version = now
            await asyncio.sleep(GATHER)
        self._refresh()
        assert self._commits is not None  # there is one while anybody watches
        if await self._commits.wait(self._until_next()):
            self._pause = SHORTEST
        else:
            self._pause = min(2 * self._pause, LONGEST if self._commits.works else POLL)

    def _look(self) -> None:
        if self._journals:
            seqs = self.watch.last_seqs(self._journals)
            for session, journal in self._journals.items():
                journal.look(seqs.get(session, 0), gone=session not in seqs)
        for index in self._indexes:
            index.look()

    @property
    def _indexes(self) -> list[LiveIndex]:
        return [shared.index for shared in (self._own, self._merged) if shared.index is not None]

    def _until_next(self) -> float:
        """Seconds to the next look if nobody writes."""
        if not any(index.stale for index in self._indexes):
            return self._pause
        return min(self._pause, max(0.0, self._due - clock.monotonic()))

    def _refresh(self) -> None:
        """At a pace: what changes often is told as it is then, not each time."""
        stale = [index for index in self._indexes if index.stale]
        if stale and clock.monotonic() >= self._due:
            for index in stale:
                index.refresh()
            self._due = clock.monotonic() + PACE


async def _in_time(something: Awaitable[None], every: float | None = None) -> bool:
    """False: it did not come before the next heartbeat is due."""
    try:
        async with asyncio.timeout(EVERY if every is None else every):
            await something
    except TimeoutError:
        return False
    return True
