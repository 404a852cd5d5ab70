"""Watches the store for everybody who watches this server: one look at its version, however many they are."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable

from ostler.errors import OstlerError
from ostler.server.board import Board
from ostler.server.streams import EVERY, HEARTBEAT, journal_frame
from ostler.store.watch import Watch
from ostler.work import Ostler

POLL = 0.015  # seconds between looks at the store's version, which cost some microseconds
PACE = 0.1  # seconds between two tellings of the same row
_ROOM = 256 * 1024  # bytes of a journal that are held for one viewer
_MANY = 500  # events
_TROUBLE = 1.0

log = logging.getLogger("ostler.server")


class Journal:
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


class Live:
    """The one who looks. It begins with the first viewer and ends with the last."""

    def __init__(self, ostler: Ostler) -> None:
        self.watch: Watch = ostler.store.watch()
        self._journals: dict[str, Journal] = {}
        self._board: Board | None = None
        self._readers = 0  # of the board
        self._viewers = 0  # of anything
        self._looking: asyncio.Task[None] | None = None
        self._due = 0.0

    async def events(self, session: str, after: int) -> AsyncGenerator[bytes, None]:
        """The session's journal beyond `after` as frames, for ever; ends when the session is removed.

        One piece at a time is read from the store: a slow viewer holds no more than that.
        """
        async with self._following(session) as journal:
            while not journal.gone:
                stored = self.watch.journal(session, after, _MANY, _ROOM)
                if stored:
                    after = stored[-1][0]
                    yield b"".join(map(journal_frame, stored))
                elif not await _in_time(journal.beyond(after)):
                    yield HEARTBEAT

    async def rows(self, ready: bytes) -> AsyncGenerator[bytes, None]:
        """All sessions and terminals as frames, then `ready`, then what changes."""
        async with self._on_the_board() as board:
            n, pieces = board.everything()
            for piece in (*pieces, ready):
                yield piece
            del pieces
            while True:
                if not await _in_time(board.beyond(n)):
                    yield HEARTBEAT
                    continue
                changed = board.since(n)
                if changed is None:
                    return  # it has to begin anew
                n, data = changed
                yield data
                await asyncio.sleep(PACE)

    # -- viewers

    @contextlib.asynccontextmanager
    async def _following(self, session: str) -> AsyncIterator[Journal]:
        journal = self._journals.setdefault(session, Journal())
        journal.viewers += 1
        try:
            async with self._looked_at():
                yield journal
        finally:
            journal.viewers -= 1
            if not journal.viewers:
                self._journals.pop(session, None)

    @contextlib.asynccontextmanager
    async def _on_the_board(self) -> AsyncIterator[Board]:
        if self._board is None:
            self._board = Board(self.watch)
        self._readers += 1
        try:
            async with self._looked_at():
                yield self._board
        finally:
            self._readers -= 1
            if not self._readers:
                self._board = None

    @contextlib.asynccontextmanager
    async def _looked_at(self) -> AsyncIterator[None]:
        """While somebody watches the store is looked at; the last one to leave ends it."""
        self._viewers += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_for_ever())
        try:
            yield
        finally:
            self._viewers -= 1
            if not self._viewers:
                looking, self._looking = self._looking, None
                looking.cancel()
                await asyncio.wait([looking])

    # -- looking

    async def _look_for_ever(self) -> None:
        version: int | None = None
        while True:
            try:
                now = self.watch.version()
                if now != version:
                    self._look()
                    version = now
                self._refresh()
            except OstlerError as error:
                log.warning("the store cannot be watched: %s", error)
                await asyncio.sleep(_TROUBLE)
            await asyncio.sleep(POLL)

    def _look(self) -> None:
        if self._journals:
            seqs = self.watch.last_seqs(self._journals)
            for session, journal in self._journals.items():
                journal.look(seqs.get(session, 0), gone=session not in seqs)
        if self._board is not None:
            self._board.look()

    def _refresh(self) -> None:
        """At a pace: what changes often is told as it is then, not each time."""
        if self._board is not None and self._board.stale and time.monotonic() >= self._due:
            self._board.refresh()
            self._due = time.monotonic() + PACE


async def _in_time(something: Awaitable[None]) -> bool:
    """False: it did not come before the next heartbeat is due."""
    try:
        async with asyncio.timeout(EVERY):
            await something
    except TimeoutError:
        return False
    return True
