"""The input lease of a live terminal in time: hands it back when its holder idles or has vanished."""

import asyncio
from collections import Counter
from collections.abc import Callable

from ostler import clock
from ostler.terminal.lease import IDLE, Author, Lease, LeaseChange
from ostler.terminal.viewer_protocol import Leased

GRACE = 5.0  # a page that is loaded again comes back within it


class Keyboard:
    """The lease, one timer, and who of those that watch might hold it. `passed` hears of every change."""

    def __init__(self, passed: Callable[[LeaseChange | None], None], idle: float = IDLE, grace: float = GRACE) -> None:
        self._loop = asyncio.get_running_loop()
        self.lease = Lease(clock.monotonic, idle)
        self._passed = passed
        self._grace = grace
        self._watching: Counter[Author] = Counter()
        self._vacant_since: float | None = None  # when the holder's last viewer went
        self._timer: asyncio.TimerHandle | None = None

    def take(self, author: Author) -> None:
        """`denied` as the lease says."""
        self._pass(self.lease.take(author))

    def wait(self, author: Author) -> None:
        """Automation that was refused gets it when the person who holds it lets go, or idles."""
        self.lease.wait(author)
        self._passed(None)  # those who watch are told that somebody waits
        self._arm()

    def release(self, author: Author) -> None:
        self._pass(self.lease.release(author))

    def use(self, author: Author) -> None:
        """For each key; `denied` without the lease."""
        if change := self.lease.use(author):
            self._pass(change)

    def came(self, author: Author) -> None:
        """A viewer of this author watches now."""
        self._watching[author] += 1
        if author == self.lease.holder:
            self._vacant_since = None

    def went(self, author: Author) -> None:
        """One that came has gone. With the author's last one the lease goes, shortly after."""
        self._watching[author] -= 1
        if self._watching[author] > 0:
            return
        del self._watching[author]
        if author == self.lease.holder:
            self._vacant_since = self._loop.time()
            self._arm()

    def leased(self, author: Author) -> Leased:
        """What this one is told of it."""
        holder, due = self.lease.holder, self.lease.due
        at = None if due is None else round(clock.now() + due - self._loop.time(), 3)
        return Leased(holder=holder, yours=holder is not None and holder == author, waiting=self.lease.waiting, due=at)

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _pass(self, change: LeaseChange | None) -> None:
        if change:
            self._vacant_since = None
            self._passed(change)
        self._arm()

    def _arm(self) -> None:
        """The timer may go off too early, when a key came meanwhile: then it is set again."""
        due = self._next_due()
        if due is not None and (self._timer is None or self._timer.when() > due):
            self.close()
            self._timer = self._loop.call_at(due, self._check)

    def _next_due(self) -> float | None:
        gone = None if self._vacant_since is None else self._vacant_since + self._grace
        return min((at for at in (gone, self.lease.due) if at is not None), default=None)

    def _check(self) -> None:
        self._timer = None
        now, holder = self._loop.time(), self.lease.holder
        if holder and self._vacant_since is not None and now >= self._vacant_since + self._grace:
            self._pass(self.lease.release(holder))
        elif change := self.lease.expire():
            self._pass(change)
        else:
            if self.lease.due is not None:
                self._passed(None)  # nobody else holds it, but `due` is another
            self._arm()
