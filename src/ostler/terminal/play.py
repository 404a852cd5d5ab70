"""Playing a recording in its own time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ostler import clock
from ostler.errors import OstlerError
from ostler.process import Size
from ostler.terminal.cast import Cast


async def play(
    cast: Cast,
    write: Callable[[bytes], Awaitable[Any]],
    *,
    speed: float = 1.0,
    idle_limit: float | None = None,
    start: float = 0.0,
    resize: Callable[[Size], Awaitable[Any]] | None = None,
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    clock: Callable[[], float] = clock.monotonic,
) -> None:
    """Writes the output as it came: `speed` times as fast, no pause longer than `idle_limit` recorded seconds.

    Events up to the recorded time `start` come at once. A cancel leaves the screen as it is.
    """
    if not speed > 0:
        raise OstlerError("bad_request", f"{speed} is not a valid speed", "Give a number above 0")
    longest = idle_limit if idle_limit is not None else cast.header.idle_time_limit
    due, seen = clock(), start
    for event in cast.events():
        pause = max(0.0, event.at - seen)
        seen = max(seen, event.at)
        due += (pause if longest is None else min(pause, longest)) / speed
        if (wait := due - clock()) > 0:
            await sleep(wait)
        if event.kind == "o":
            await write(event.data.encode())
        elif resize and event.size:
            await resize(event.size)
