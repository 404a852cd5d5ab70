"""When a turn has taken too long, and what counts as work: decided by events and the time alone."""

import asyncio
from collections.abc import Callable

from ostler import clock
from ostler.model import (
    AnyEvent,
    Limited,
    Limits,
    Problem,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolStarted,
    UsageReport,
)

_PROGRESS = (Text, TextDelta, Thought, ThoughtDelta, ToolStarted)
TICK = 0.25  # seconds between looks at the clock


def is_progress(events: list[AnyEvent]) -> bool:
    """Whether the agent did something that must not be done again by another."""
    return any(isinstance(event, _PROGRESS) for event in events)


class LimitClock:
    """When a turn has taken too long, by the limits it was given."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.began = self.last = clock.monotonic()
        self.spoke = False
        self.retrying: tuple[float, Limited] | None = None
        self.spent: float | None = None

    def record(self, events: list[AnyEvent]) -> None:
        self.last = clock.monotonic()
        self.spoke = True
        for event in events:
            if isinstance(event, Limited):
                self.retrying = self.retrying or (self.last, event)
            elif isinstance(event, _PROGRESS):
                self.retrying = None
            elif isinstance(event, UsageReport) and event.cost_usd is not None:
                self.spent = event.cost_usd

    async def limit(self, busy: Callable[[], bool]) -> Problem:
        """Returns once a limit is passed. While `busy` (a tool runs, a person is asked) silence is no wonder."""
        while (problem := self.passed(clock.monotonic(), busy())) is None:
            await asyncio.sleep(TICK)
        return problem

    def passed(self, now: float, busy: bool) -> Problem | None:
        limits = self.limits
        if limits.total is not None and now - self.began > limits.total:
            return _late(f"the turn took longer than {limits.total:g} s", "Raise --timeout")
        if not self.spoke and limits.first_record is not None and now - self.began > limits.first_record:
            return _late(f"no output within {limits.first_record:g} s", "Is the agent logged in? Try `ostler doctor`")
        if self.retrying and limits.retry is not None and now - self.retrying[0] > limits.retry:
            held = self.retrying[1]
            return Problem(
                kind=held.error,
                message=held.message or f"still {held.error} after {limits.retry:g} s of retries",
                retry_at=held.retry_at,
            )
        if busy:
            self.last = now
        if limits.idle is not None and now - self.last > limits.idle and self.spoke:
            return _late(f"no output for {limits.idle:g} s", "Raise --idle-timeout")
        if limits.cost_usd is not None and self.spent is not None and self.spent > limits.cost_usd:
            return Problem(
                kind="over_budget", message=f"the turn cost ${self.spent:.4f}; its limit is ${limits.cost_usd:.4f}"
            )
        return None


def _late(message: str, hint: str) -> Problem:
    return Problem(kind="timed_out", message=message, hint=hint)
