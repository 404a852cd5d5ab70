"""One request to stop, from a turn's first line to its end."""

import asyncio

import pytest

from ostler.errors import OstlerError
from ostler.model import Problem
from ostler.work.transports.stop import Stop, unless_stopped


async def test_the_first_reason_to_stop_stands() -> None:
    stop = Stop()
    assert stop.problem is None
    first = Problem(kind="cancelled", message="by Anna")
    stop.request(first)
    stop.request(Problem(kind="timed_out", message="too late"))
    assert (await stop.wait(), stop.problem) == (first, first)


async def test_a_cancel_is_a_reason_too() -> None:
    stop = Stop()
    assert repr(stop) == "<Stop of (no turn yet): not requested>"
    stop.turn = "t1"
    stop.cancel("ostler is closing")
    assert stop.problem == Problem(kind="cancelled", message="ostler is closing")
    assert repr(stop) == "<Stop of t1: ostler is closing>"


async def test_work_that_is_stopped_is_cancelled_and_the_reason_raised() -> None:
    stop, cancelled = Stop(), asyncio.Event()

    async def work() -> None:
        stop.cancel("by Anna")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(OstlerError, match="by Anna") as raised:
        await unless_stopped(work(), stop)
    assert (raised.value.kind, cancelled.is_set()) == ("cancelled", True)


async def test_work_that_is_not_stopped_returns_or_raises_as_it_does() -> None:
    async def work(fail: bool) -> int:
        if fail:
            raise ValueError("no")
        return 3

    assert await unless_stopped(work(False), Stop()) == 3
    with pytest.raises(ValueError, match="no"):
        await unless_stopped(work(True), Stop())


async def test_work_is_not_begun_once_it_was_stopped() -> None:
    stop, begun = Stop(), False
    stop.cancel("by Anna")

    async def work() -> None:
        nonlocal begun
        begun = True

    with pytest.raises(OstlerError, match="by Anna"):
        await unless_stopped(work(), stop)
    assert not begun


async def test_work_that_is_done_all_the_same_returns_and_nobody_is_cancelled_later() -> None:
    stop = Stop()

    async def work() -> int:
        stop.cancel()
        return 3

    assert await unless_stopped(work(), stop) == 3
    await asyncio.sleep(0)  # would raise
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_a_cancel_from_elsewhere_stays_a_cancel() -> None:
    stop, waits = Stop(), asyncio.Event()

    async def work() -> None:
        waits.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(unless_stopped(work(), stop))
    await waits.wait()
    task.cancel()
    stop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_cleans_up_badly_does_not_hide_the_reason() -> None:
    stop = Stop()

    async def work() -> None:
        stop.cancel("by Anna")
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("no more files")

    with pytest.raises(OstlerError, match="by Anna"):
        await unless_stopped(work(), stop)
