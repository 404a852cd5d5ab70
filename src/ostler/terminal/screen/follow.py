"""Those who follow a screen: each gets every change, in order, merged if it was slow."""

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from ostler.terminal.screen.protocol import ScreenFacts, Update, joined, merged


class ScreenUpdates(AsyncIterator[Update]):
    """An async iterator of updates. `close` (or the end of the screen) ends it."""

    def __init__(self, left: "Callable[[ScreenUpdates], None]") -> None:
        self._pending: Update | None = None
        self._last: Update | None = None  # without its rows
        self._facts = ScreenFacts()
        self._seq = 0
        self._ended = False
        self._wake = asyncio.Event()
        self._left = left

    def put(self, update: Update) -> None:
        if self._seq or self._pending or update.whole:  # before the first whole one, rows would hang in the air
            self._pending = merged(self._pending, update)
            self._wake.set()

    def add_facts(self, facts: ScreenFacts) -> None:
        """Goes along with the next update; if none is on its way, with one that changes nothing else."""
        self._facts = joined(self._facts, facts)
        if self._last:
            self.put(self._last)

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    def close(self) -> None:
        """No more updates are wanted; idempotent."""
        self._pending = None
        self.end()
        self._left(self)

    async def __anext__(self) -> Update:
        await self._wake.wait()
        update, self._pending = self._pending, None
        if update is None:
            raise StopAsyncIteration
        if not self._ended:
            self._wake.clear()
        self._seq += 1
        facts, self._facts = self._facts, ScreenFacts()
        self._last = msgspec.structs.replace(update, changed=(), facts=ScreenFacts(), whole=False)
        return msgspec.structs.replace(update, seq=self._seq, facts=joined(facts, update.facts))


class Followers:
    """The followers of one screen."""

    def __init__(self) -> None:
        self._all: list[ScreenUpdates] = []
        self._ended = False

    def __len__(self) -> int:
        return len(self._all)

    def add(self, count_changed: Callable[[], None]) -> ScreenUpdates:
        def left(updates: ScreenUpdates) -> None:
            if updates in self._all:
                self._all.remove(updates)
                if not self._all:
                    count_changed()

        updates = ScreenUpdates(left)
        if self._ended:
            updates.end()
        else:
            self._all.append(updates)
        return updates

    def update(self, update: Update) -> None:
        for updates in self._all:
            updates.put(update)

    def add_facts(self, facts: ScreenFacts) -> None:
        for updates in self._all:
            updates.add_facts(facts)

    def end(self) -> None:
        self._ended = True
        for updates in self._all:
            updates.end()
        self._all = []
