"""When a turn has taken too long, and what counts as work: decided by events and the time alone."""

import asyncio
from typing import Any

import pytest

from ostler.model import (
    AnyEvent,
    Limited,
    Limits,
    Notice,
    Plan,
    Problem,
    Raw,
    Started,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Usage,
    UsageReport,
)
from ostler.work.transports.limits import LimitClock, is_progress

NO_LIMITS = Limits(first_record=None, idle=None, total=None, retry=None)
TOOL = ToolStarted(id="1", name="Bash")


def after(limits: Limits, seconds: float, *heard: AnyEvent, busy: bool = False) -> Problem | None:
    """What the limits say that long after the last thing that was heard, which came at once."""
    watch = LimitClock(limits)
    if heard:
        watch.record(list(heard))
    return watch.passed((watch.last if heard else watch.began) + seconds, busy)


def late(message: str, hint: str) -> Problem:
    return Problem(kind="timed_out", message=message, hint=hint)


def test_without_limits_a_turn_may_take_for_ever() -> None:
    held = Limited(error="limited")
    costly = UsageReport(usage=Usage(), cost_usd=1e9)
    assert after(NO_LIMITS, 1e9) is None
    assert after(NO_LIMITS, 1e9, TOOL, held, costly) is None


def test_the_whole_turn() -> None:
    limits = Limits(total=600, idle=None)
    assert after(limits, 599, TOOL) is None
    assert after(limits, 601, TOOL) == late("the turn took longer than 600 s", "Raise --timeout")
    assert after(limits, 601, TOOL, busy=True) == late("the turn took longer than 600 s", "Raise --timeout")
    assert after(Limits(total=0.5), 0.6) == late("the turn took longer than 0.5 s", "Raise --timeout")


def test_the_first_record() -> None:
    hint = "Is the agent logged in? Try `ostler doctor`"
    assert after(Limits(first_record=90), 89) is None
    assert after(Limits(first_record=90), 91) == late("no output within 90 s", hint)
    assert after(Limits(first_record=90), 91, busy=True) == late("no output within 90 s", hint)
    assert after(Limits(first_record=90), 91, Raw(line="booting")) is None  # anything that is said will do


def test_silence_before_the_first_record_is_not_idle() -> None:
    assert after(Limits(first_record=None, idle=10), 1000) is None


def test_silence() -> None:
    limits = Limits(idle=600)
    assert after(limits, 599, Text(text="a")) is None
    assert after(limits, 601, Text(text="a")) == late("no output for 600 s", "Raise --idle-timeout")


def test_silence_is_not_counted_while_it_is_busy_but_from_then_on() -> None:
    watch = LimitClock(Limits(idle=600))
    watch.record([TOOL])
    began = watch.began
    assert watch.passed(began + 5000, busy=True) is None
    assert watch.passed(began + 5599, busy=False) is None
    assert watch.passed(began + 5601, busy=False) == late("no output for 600 s", "Raise --idle-timeout")


def test_retries_without_progress_end_with_what_the_agent_said() -> None:
    held = Limited(error="overloaded", message="529, try 3", retry_at=99.0)
    limits = Limits(retry=60)
    assert after(limits, 59, held) is None
    assert after(limits, 61, held) == Problem(kind="overloaded", message="529, try 3", retry_at=99.0)
    assert after(limits, 61, Limited()) == Problem(kind="limited", message="still limited after 60 s of retries")
    assert after(limits, 61, held, busy=True) is not None


@pytest.mark.parametrize(
    "event", [TOOL, Text(text="a"), TextDelta(text="a"), Thought(text="a"), ThoughtDelta(text="a")]
)
def test_work_ends_the_retries(event: AnyEvent) -> None:
    assert is_progress([event])
    assert after(Limits(retry=60, idle=None), 1000, Limited(), event) is None


@pytest.mark.parametrize(
    "event",
    [Started(), Raw(line="x"), Notice(text="x"), ToolEnded(id="1"), Plan(steps=()), UsageReport(usage=Usage())],
)
def test_what_is_no_work_does_not(event: AnyEvent) -> None:
    assert not is_progress([event]) and not is_progress([])
    assert is_progress([event, TOOL])
    assert after(Limits(retry=60), 61, Limited(), event) == Problem(
        kind="limited", message="still limited after 60 s of retries"
    )


async def test_retries_are_counted_from_the_first_of_them(clock: Any) -> None:
    watch = LimitClock(Limits(retry=60, idle=None))
    watch.record([Limited(message="first")])
    await clock.turn(40)
    watch.record([Limited(message="second")])
    assert watch.passed(watch.last + 30, busy=False) == Problem(kind="limited", message="first")


def test_money() -> None:
    limits = Limits(cost_usd=0.5)

    def spent(*costs: float | None) -> Problem | None:
        return after(limits, 0, *(UsageReport(usage=Usage(), cost_usd=cost) for cost in costs))

    assert spent(None) is None and spent(0.5) is None
    assert spent(0.51) == Problem(kind="over_budget", message="the turn cost $0.5100; its limit is $0.5000")
    assert spent(0.51, None) == Problem(kind="over_budget", message="the turn cost $0.5100; its limit is $0.5000")
    assert spent(0.6, 0.4) is None  # each report replaces the one before


async def test_limits_are_watched_as_time_goes_by(clock: Any) -> None:
    watch = LimitClock(Limits(idle=600))
    busy = [True]
    waiting = asyncio.create_task(watch.limit(lambda: busy[0]))
    await clock.turn(1)
    watch.record([TOOL])
    await clock.turn(3600)
    assert not waiting.done()
    busy.clear()
    busy.append(False)
    await clock.turn(300)
    watch.record([])  # a line that gave no event is a sign of life
    await clock.turn(400)
    assert not waiting.done()
    await clock.turn(300)
    assert await waiting == late("no output for 600 s", "Raise --idle-timeout")
