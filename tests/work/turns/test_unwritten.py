"""Ends that the store did not take at once."""

import asyncio

import pytest

from ostler.errors import OstlerError
from ostler.work.turns.unwritten import Unwritten
from waiting import until


async def test_what_comes_while_the_rest_is_written_is_written_too() -> None:
    """It was forgotten: a turn stayed `running` for as long as the process lived."""
    unwritten, writing, go_on, done = Unwritten(), asyncio.Event(), asyncio.Event(), []

    async def slow() -> None:
        writing.set()
        await go_on.wait()
        done.append("first")

    async def quick() -> None:
        done.append("second")

    unwritten.keep("first", slow)
    await writing.wait()
    unwritten.keep("second", quick)
    go_on.set()
    await until(lambda: done == ["first", "second"])
    assert "first" not in unwritten and "second" not in unwritten
    await unwritten.close()


async def test_what_the_store_does_not_take_is_tried_again() -> None:
    unwritten, tries = Unwritten(), []

    async def write() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise OstlerError("store", "the disk is full")

    await unwritten.write("turn", write)
    assert "turn" in unwritten
    await until(lambda: "turn" not in unwritten)
    assert len(tries) == 3
    await unwritten.close()


async def test_an_end_that_nobody_can_take_any_more_is_not_tried_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def gone() -> None:
        raise OstlerError("not_found", "There is no turn t")

    owed = Unwritten()
    owed.keep("t", gone)
    await until(lambda: "t" not in owed)
    await owed.close()
    assert "the end of t cannot be written" in caplog.text
