"""What programs follow of a terminal: whole screens and what changed on them, numbered, until it ends."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

from msgspec.structs import replace

from ostler.errors import OstlerError
from ostler.terminal.display import Display, harmless
from ostler.terminal.screen.follow import ScreenUpdates
from ostler.terminal.screen.protocol import ScreenFacts, Snapshot, Update, joined
from ostler.terminal.viewer_protocol import Gone

Seen = Update | Snapshot | Gone


class Subscription(AsyncIterator[Seen]):
    """A snapshot, then updates, and in the end `Gone`. `seq` counts all of them, updates carry it.

    Nothing is lost: a reader that is more than `buffer` updates behind gets a snapshot instead of them. Facts
    (bells, titles, notes) of updates that were left out come with the next one. To be closed by its reader.
    """

    def __init__(self, subscribers: "Subscribers", buffer: int, snapshot_every: int | None) -> None:
        self.seq = 0
        self._subscribers = subscribers
        self._buffer, self._every = buffer, snapshot_every
        self._since = 0  # updates given since the last snapshot
        self._queue: deque[Update] = deque()
        self._facts = ScreenFacts()
        self._resync, self._looking = True, False
        self._event = asyncio.Event()
        self._over = False

    async def __anext__(self) -> Seen:
        while not self._over:
            if self._resync or (self._queue and self._since == self._every):
                return await self._snapshot()
            if self._queue:
                return self._update(self._queue.popleft())
            if gone := self._subscribers.gone:
                self.seq += 1
                self.close()
                return gone
            self._event.clear()
            await self._event.wait()
        raise StopAsyncIteration

    def close(self) -> None:
        """No more is wanted; idempotent."""
        self._over = True
        self._queue.clear()
        self._event.set()
        self._subscribers.remove(self)

    def resync(self) -> None:
        """The next one is a snapshot."""
        self._resync = True
        self._event.set()

    # -- for the terminal

    def put(self, update: Update) -> None:
        if self._resync and not self._looking:
            self._facts = joined(self._facts, update.facts)
            return
        self._queue.append(update)
        if len(self._queue) > self._buffer:
            self._drop(self._queue)
            self._queue.clear()
            self._resync = True
        self._event.set()

    def wake(self) -> None:
        self._event.set()

    # -- what comes next

    async def _snapshot(self) -> Snapshot:
        """On cancel the next call begins again."""
        self._resync, self._looking = False, True
        try:
            snapshot = await self._subscribers.display.snapshot(False)
        except BaseException:
            self._resync = True
            raise
        finally:
            self._looking = False
        later = [update for update in self._queue if self._is_news(update, snapshot)]
        self._drop(update for update in self._queue if update not in later)
        self._queue = deque(later)
        self._since = 0
        self.seq += 1
        return snapshot

    def _is_news(self, update: Update, snapshot: Snapshot) -> bool:
        """A resize changes the screen without a byte: of those at the same offset the last one counts."""
        if update.offset != snapshot.offset:
            return update.offset > snapshot.offset
        last = (update.cols, update.rows) == self._subscribers.display.size
        return update.whole and last and tuple(row.vt for row in update.changed) != snapshot.styled

    def _drop(self, updates: Iterable[Update]) -> None:
        for update in updates:
            self._facts = joined(self._facts, update.facts)

    def _update(self, update: Update) -> Update:
        self.seq += 1
        self._since += 1
        facts, self._facts = joined(self._facts, update.facts), ScreenFacts()
        return replace(update, seq=self.seq, facts=facts)


class Subscribers:
    """All subscriptions of one terminal; one task hands the changes of its screen to them."""

    def __init__(self, display: Display) -> None:
        self.display = display
        self.gone: Gone | None = None  # set when the last change was handed on
        self._all: list[Subscription] = []
        self._updates: ScreenUpdates | None = None
        self._pump: asyncio.Task[None] | None = None

    def add(self, buffer: int, snapshot_every: int | None) -> Subscription:
        """Raises `bad_request`, and `too_many` when no more screens can be opened; then nothing is kept of it."""
        if buffer < 1 or (snapshot_every is not None and snapshot_every < 1):
            raise OstlerError("bad_request", "a subscription needs a buffer and a distance of at least 1")
        if self._updates is None and self.display.gone is None:
            self._updates = self.display.screen().changes()
            self._pump = asyncio.get_running_loop().create_task(self._hand_on(self._updates))
        subscription = Subscription(self, buffer, snapshot_every)
        self._all.append(subscription)
        return subscription

    def remove(self, subscription: Subscription) -> None:
        if subscription in self._all:
            self._all.remove(subscription)
        if self._updates and not self._all:
            self._updates.close()
            self._updates = None

    async def end(self, gone: Gone) -> None:
        """To be called when the screen is closed: after its last change comes the end."""
        if self._pump:
            await self._pump
        self.gone = gone
        for subscription in self._all:
            subscription.wake()

    async def _hand_on(self, updates: ScreenUpdates) -> None:
        before: Update | None = None
        async for update in updates:
            if before is None or is_visible(update, before):
                made = replace(update, facts=harmless(update.facts))
                for subscription in tuple(self._all):
                    subscription.put(made)
            before = update


def is_visible(update: Update, before: Update) -> bool:
    """Not every sequence that a screen is fed changes it."""
    if update.changed or update.whole or update.facts != ScreenFacts():
        return True
    return (update.cursor, update.modes) != (before.cursor, before.modes)
