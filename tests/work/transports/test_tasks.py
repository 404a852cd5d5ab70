"""Several things at once: nothing of them is left when the wait is over."""

import asyncio

import pytest

from ostler.work.transports.tasks import all_of


class Slow:
    """Works for ever, and takes a moment to end."""

    def __init__(self) -> None:
        self.begun, self.ended = asyncio.Event(), False

    async def work(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            self.ended = True


async def test_all_of_returns_what_each_returns() -> None:
    async def number(n: int) -> int:
        return n

    assert await all_of(number(n) for n in (1, 2)) == [1, 2]


async def test_when_one_fails_the_others_are_over() -> None:
    slow = Slow()

    async def fail() -> None:
        await slow.begun.wait()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await all_of([slow.work(), fail()])
    assert slow.ended


async def test_when_it_is_cancelled_all_are_over() -> None:
    quick, slow = asyncio.Event(), Slow()
    waiting = asyncio.create_task(all_of([quick.wait(), slow.work()]))
    await slow.begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert slow.ended
