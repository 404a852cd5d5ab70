"""Waiting for several things at once, and ending tasks."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from ostler import clock

T = TypeVar("T")


async def until_first(
    waits: list[asyncio.Task[Any]], pumps: list[asyncio.Task[None]], timeout: float | None = None
) -> None:
    """Waits for one of `waits`; a pump that fails (the store is full) raises here."""
    deadline = None if timeout is None else clock.monotonic() + timeout
    pending: set[asyncio.Task[Any]] = {*waits, *pumps}
    while not any(task.done() for task in waits):
        left = None if deadline is None else deadline - clock.monotonic()
        if left is not None and left <= 0:
            return
        done, _ = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        for pump in done & set(pumps):
            pump.result()
            pending.discard(pump)


class Wake:
    """One wait for many things: whoever changes one of them calls it, and the waiter looks at all of them again.

    A task for each of them would cost more than most turns of a dialog.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def __call__(self, *_: object) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Until it is called, or was since the last wait; so many seconds at most."""
        timer = asyncio.get_running_loop().call_later(seconds, self._event.set)
        try:
            await self._event.wait()
        finally:
            timer.cancel()
            self._event.clear()


async def all_of(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What they return; or raises what the first of them did. In any case, and on cancel, all are over then."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels them and waits until they are over."""
    tasks = [task for task in tasks if not task.done()]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)
