"""Loops in the background: they log, back off and go on; stopping one ends its step."""

import asyncio
import logging

import pytest

from ostler import supervise
from ostler.errors import OstlerError
from ostler.supervise import Loop, retried
from ostler.testing.clock import Clock
from waiting import PATIENCE


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "FIRST_PAUSE", 0.001)


class Steps:
    """Fails as often as it is told, then goes well."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0
        self.well = asyncio.Event()

    async def __call__(self) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        self.well.set()
        await asyncio.sleep(0)


@pytest.mark.parametrize("error", [OstlerError("store", "the disk is full"), KeyError("x"), OSError(5, "I/O")])
async def test_it_goes_on_after_any_error_and_says_so(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    steps = Steps(error, error, error)
    loop = Loop("counting hay", steps)
    loop.start()
    loop.start()
    async with asyncio.timeout(PATIENCE):
        await steps.well.wait()
    await asyncio.sleep(0)
    assert loop.running and loop.trouble is None
    await loop.stop()
    calls = steps.calls
    await asyncio.sleep(0)
    assert steps.calls == calls and not loop.running
    said = [record.getMessage() for record in caplog.records]
    assert len([line for line in said if line.startswith(f"counting hay failed: {error} (trying again in")]) == 1
    assert said[-1] == "counting hay works again after 3 failures"
    traces = [record for record in caplog.records if record.exc_info]
    assert len(traces) == (1 if isinstance(error, KeyError) else 0)


async def test_the_pause_doubles_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    ended = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 6:
            ended.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(supervise.asyncio, "sleep", sleep)
    loop = Loop("x", Steps(*[OSError("no")] * 10), longest=0.01)
    loop.start()
    await ended.wait()
    await loop.stop()
    assert pauses == [0.001, 0.002, 0.004, 0.008, 0.01, 0.01]


async def test_lasting_trouble_is_told_once_for_each_row_of_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Exception] = []
    steps = Steps(*[OSError("first")] * 3)
    loop = Loop("x", steps, troubled=told.append)
    monkeypatch.setattr(supervise, "LASTING", 0.0)
    loop.start()
    async with asyncio.timeout(PATIENCE):
        await steps.well.wait()
        steps.errors, steps.well = [OSError("second")], asyncio.Event()
        await steps.well.wait()
    await loop.stop()
    assert [str(error) for error in told] == ["first", "second"]
    assert loop.lasting_trouble is None


async def test_a_short_trouble_is_told_to_nobody() -> None:
    told: list[Exception] = []
    steps = Steps(OSError("once"))
    loop = Loop("x", steps, troubled=told.append)
    loop.start()
    async with asyncio.timeout(PATIENCE):
        await steps.well.wait()
    await loop.stop()
    assert told == []


async def test_a_loop_that_is_stopped_in_trouble_can_begin_anew() -> None:
    steps = Steps(*[OSError("no")] * 3)
    loop = Loop("x", steps, longest=1000)
    loop.start()
    while loop.trouble is None:
        await asyncio.sleep(0)
    await loop.stop()
    assert loop.trouble is None
    steps.errors.clear()
    loop.start()
    async with asyncio.timeout(PATIENCE):
        await steps.well.wait()
    await loop.stop()


# -- one thing that has to be done once -------------------------------------------------------------


def is_io(error: Exception) -> bool:
    return isinstance(error, OSError)


async def test_what_fails_is_tried_again_until_it_returns(caplog: pytest.LogCaptureFixture) -> None:
    steps = Steps(*[OSError("no")] * 3)
    await retried("making hay", steps, passes=is_io, patience=1000)
    assert steps.calls == 4
    assert [record.getMessage() for record in caplog.records] == [
        "making hay failed: no (trying again in 0.0 s)",
        "making hay works again after 3 failures",
    ]


async def test_another_error_is_raised_at_once() -> None:
    steps = Steps(OSError("no"), KeyError("x"))
    with pytest.raises(KeyError):
        await retried("x", steps, passes=is_io, patience=1000)
    assert steps.calls == 2


async def test_patience_ends_and_the_pause_is_the_callers() -> None:
    pauses: list[float] = []
    clock, steps = Clock(), Steps(*[OSError("no")] * 9)

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await clock.turn(40)

    try:
        with pytest.raises(OSError, match="no"):
            await retried("x", steps, passes=is_io, patience=100, pause=pause)
    finally:
        clock.close()
    assert (steps.calls, pauses) == (4, [0.001, 0.002, 0.004])


def test_ostler_logs_nothing_by_itself() -> None:
    """Without a set-up of logging Python prints warnings to stderr, unless there is a handler."""
    assert any(isinstance(each, logging.NullHandler) for each in logging.getLogger("ostler").handlers)
