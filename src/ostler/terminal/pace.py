"""Something that is done at once, and then not more often than every few milliseconds."""

import asyncio
from collections.abc import Callable


class Pace:
    """Calls `run` for the first `__call__` after a pause at once, for all that follow within `interval` together.

    The last one is never lost: it is run when the interval is over, or by `flush`.
    """

    def __init__(self, interval: float, run: Callable[[], None]) -> None:
        self._interval = interval
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._free_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> None:
        if self._timer is None:
            if self._loop.time() >= self._free_at:
                self._now()
            else:
                self._timer = self._loop.call_at(self._free_at, self._now)

    def flush(self) -> None:
        """Runs what waits."""
        if self._timer:
            self._now()

    def _now(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        self._free_at = self._loop.time() + self._interval
        self._run()


class Budget:
    """`rate` a second, and up to `burst` of them at once."""

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = burst, now

    def take(self, now: float) -> bool:
        """Whether one more is within it."""
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
