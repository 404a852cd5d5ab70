"""A session's journal as its owner writes it: redacted, numbered, committed, and only then told."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from msgspec import structs

from ostler import clock
from ostler.model import AnyEvent, Ended, ToolEnded
from ostler.store import Redactor, Store
from ostler.work.turns.tool_times import ToolTimes

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
    ) -> None:
        self.session = session
        self.turn = turn
        self.first_seq = next_seq
        self.ended: Ended | None = None
        self.failure: BaseException | None = None  # why the end could not be written
        self.listener: Callable[[list[AnyEvent]], None] | None = None  # gets what was committed, at once
        self._store = store
        self._redactor = redactor
        self._next = next_seq  # a number is given away by the commit alone: one that fails leaves no gap
        self._last_published = next_seq - 1
        self._last: list[AnyEvent] | None = None  # what is to be written with the end
        self._recent: deque[AnyEvent] = deque(maxlen=_RECENT)
        self._tools = ToolTimes()
        self._writing = asyncio.Lock()
        self._published = asyncio.Event()

    async def add(self, events: Iterable[AnyEvent], *, first: bool = False) -> list[AnyEvent]:
        """Commits the events, then wakes the readers; the events as they are kept.

        Raises OstlerError("store"), and nothing was added.

        `first`: the first that the agent says; with them it is committed that the turn runs.
        """
        async with self._writing:
            clean = [clean for event in events for clean in self._redactor.event(event)]
            if not clean and not first:
                return []
            return await self._write(clean, lambda stamped: self._commit(stamped, first))

    async def close(self, last: Iterable[AnyEvent], commit: Callable[[list[AnyEvent]], asyncio.Future[Any]]) -> None:
        """The last events, written by `commit` in one transaction with the end of the turn.

        Can be repeated until it succeeds; what was given first counts.
        """
        async with self._writing:
            if self.ended is not None:
                return
            if self._last is None:
                self._last = [*self._redactor.flush(), *(clean for e in last for clean in self._redactor.event(e))]
            await self._write(self._last, commit)

    def all_in_memory(self) -> list[AnyEvent] | None:
        """What was committed up to now; None if the first of it is only in the store."""
        whole = len(self._recent) == self._next - self.first_seq
        return list(self._recent) if whole else None

    async def _write(
        self, events: list[AnyEvent], commit: Callable[[list[AnyEvent]], asyncio.Future[Any]]
    ) -> list[AnyEvent]:
        """All or nothing, also when the wait is cancelled: then the readers are told of what was written."""
        stamped = self._stamp(events)
        writing = commit(stamped)
        try:
            await writing
        except asyncio.CancelledError:  # which comes once the write is settled
            if writing.exception() is None:
                self._publish(stamped)
            raise
        self._publish(stamped)
        return stamped

    def fail(self, failure: BaseException) -> None:
        """Tells the readers that there will be no end to read."""
        self.failure = failure
        self._published.set()

    async def read(self, after: int | None = None) -> AsyncIterator[AnyEvent]:
        """All events of this turn after `after`, live, up to and with `ended`. Raises what made it fail."""
        seen = self.first_seq - 1 if after is None else after
        while True:
            self._published.clear()
            for event in self._after(seen):
                yield event
                seen = event.seq
            if self.ended is not None and seen >= self.ended.seq:
                return
            if seen < self._last_published:
                continue
            if self.failure is not None:
                raise self.failure
            await self._published.wait()

    def _commit(self, stamped: list[AnyEvent], first: bool) -> asyncio.Future[None]:
        if first:
            return self._store.append_first(self.turn, self.session, stamped)
        return self._store.append(self.session, stamped)

    def _after(self, seen: int) -> list[AnyEvent]:
        if not self._recent or self._recent[0].seq <= seen + 1:
            return [event for event in self._recent if event.seq > seen]
        return self._store.events(self.session, after=seen, limit=_RECENT)

    def _publish(self, stamped: list[AnyEvent]) -> None:
        self._next += len(stamped)
        self._recent.extend(stamped)
        if self.listener is not None:
            self.listener(stamped)
        self._last_published = self._next - 1
        if stamped and isinstance(stamped[-1], Ended):
            self.ended, self.failure = stamped[-1], None
        self._published.set()

    def _stamp(self, events: Iterable[AnyEvent]) -> list[AnyEvent]:
        """Durations are by the monotonic clock: somebody may set the other one meanwhile."""
        at, now = clock.now(), clock.monotonic()
        stamped = []
        for seq, event in enumerate(events, self._next):
            changes: dict[str, object] = {"seq": seq, "at": at, "turn": self.turn}
            took = self._tools.took(event, now)
            if took is not None and isinstance(event, ToolEnded) and event.duration_ms is None:
                changes["duration_ms"] = round(took * 1000)
            stamped.append(structs.replace(event, **changes))
        return stamped
