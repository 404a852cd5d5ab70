"""A clock that a test turns: limits, idle times, graces and expiries are tried without waiting for them."""

import asyncio

from ostler import clock


class Clock:
    """Turns the time of this process and of its event loop: what is due then happens at once.

    Real time goes on as well, so real processes and sockets work beside it. `close` turns it back.
    """

    def __init__(self) -> None:
        self._turned = 0.0
        self._loops: list[asyncio.AbstractEventLoop] = []

    async def turn(self, seconds: float) -> None:
        """Sets the time ahead, and lets what has become due run."""
        self._follow(asyncio.get_running_loop())
        self._turned += seconds
        clock.turn(seconds)
        for _ in range(3):  # a timer that fires wakes a task, which may set what another waits for
            await asyncio.sleep(0)

    def close(self) -> None:
        clock.turn(-self._turned)
        self._turned = 0.0
        for loop in self._loops:
            vars(loop).pop("time", None)

    def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Until now the loop's own time was the same as ours, so that its timers stay right."""
        if loop not in self._loops:
            loop.time = clock.monotonic  # type: ignore[method-assign]
            self._loops.append(loop)
