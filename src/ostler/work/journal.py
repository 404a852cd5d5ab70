"""A session's journal as its owner writes it: stamped, redacted, committed, and only then told."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from msgspec import structs

from ostler.store import Redactor, Store
from ostler.words import AnyEvent, Ended, ToolEnded, ToolStarted

_RECENT = 4096


class Journal:
    """The part of a session's journal that one turn writes.

    Readers pull by seq: the newest events from memory, older ones from the store, so a slow
    reader costs nothing and loses nothing.
    """

    def __init__(
        self,
        store: Store,
        session: str,
        turn: str,
        next_seq: int,
        redactor: Redactor,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.session = session
        self.turn = turn
        self.first_seq = next_seq
        self.ended: Ended | None = None
        self.failure: BaseException | None = None  # why the end could not be written
        self.heard: Callable[[list[AnyEvent]], None] | None = None  # gets what was committed, at once
        self._store = store
        self._redactor = redactor
        self._clock = clock
        self._next = next_seq
        self._last_told = next_seq - 1
        self._recent: deque[AnyEvent] = deque(maxlen=_RECENT)
        self._tools: dict[str, float] = {}
        self._writing = asyncio.Lock()
        self._told = asyncio.Event()

    async def add(self, events: Iterable[AnyEvent], *, first: bool = False) -> None:
        """Commits the events, then wakes the readers. Raises OstlerError("store").

        `first`: the first that the agent says; with them it is committed that the turn runs.
        """
        async with self._writing:
            stamped = self._stamp(clean for event in events for clean in self._redactor.event(event))
            if not stamped and not first:
                return
            commit = asyncio.ensure_future(self._commit(stamped, first))
            try:
                await asyncio.shield(commit)
            except asyncio.CancelledError:
                await asyncio.wait([commit])  # it is written all the same, and the readers must not miss it
                if commit.exception() is None:
                    self._tell(stamped)
                raise
            self._tell(stamped)

    async def close(self, last: Iterable[AnyEvent], commit: Callable[[list[AnyEvent]], Awaitable[bool]]) -> None:
        """The last events, written by `commit` in one transaction with the end of the turn."""
        async with self._writing:
            held = self._redactor.flush()
            stamped = self._stamp([*held, *(clean for e in last for clean in self._redactor.event(e))])
            await commit(stamped)
            self._tell(stamped)

    def fail(self, failure: BaseException) -> None:
        """Tells the readers that there will be no end to read."""
        self.failure = failure
        self._told.set()

    async def read(self, after: int | None = None) -> AsyncIterator[AnyEvent]:
        """All events of this turn after `after`, live, up to and with `ended`. Raises what made it fail."""
        seen = self.first_seq - 1 if after is None else after
        while True:
            self._told.clear()
            for event in self._after(seen):
                yield event
                seen = event.seq
            if self.ended is not None and seen >= self.ended.seq:
                return
            if seen < self._last_told:
                continue
            if self.failure is not None:
                raise self.failure
            await self._told.wait()

    async def _commit(self, stamped: list[AnyEvent], first: bool) -> None:
        if first:
            await self._store.append_first(self.turn, self.session, stamped)
        else:
            await self._store.append(self.session, stamped)

    def _after(self, seen: int) -> list[AnyEvent]:
        if not self._recent or self._recent[0].seq <= seen + 1:
            return [event for event in self._recent if event.seq > seen]
        return self._store.events(self.session, after=seen, limit=_RECENT)

    def _tell(self, stamped: list[AnyEvent]) -> None:
        self._recent.extend(stamped)
        if self.heard is not None:
            self.heard(stamped)
        self._last_told = self._next - 1
        if stamped and isinstance(stamped[-1], Ended):
            self.ended = stamped[-1]
        self._told.set()

    def _stamp(self, events: Iterable[AnyEvent]) -> list[AnyEvent]:
        now = self._clock()
        stamped = []
        for event in events:
            changes: dict[str, object] = {"seq": self._next, "at": now, "turn": self.turn}
            if isinstance(event, ToolStarted):
                self._tools[event.id] = now
            elif isinstance(event, ToolEnded):
                began = self._tools.pop(event.id, None)
                if event.duration_ms is None and began is not None:
                    changes["duration_ms"] = round((now - began) * 1000)
            stamped.append(structs.replace(event, **changes))
            self._next += 1
        return stamped
