"""The request to end a turn: one object from the turn's first line to its end."""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from ostler.errors import OstlerError
from ostler.model import Problem, SignalName
from ostler.process import SIGNALS

T = TypeVar("T")


class LeftInPane(OstlerError):
    """The turn goes on, and this process does not hear of it any more. No end of it is written."""

    def __init__(self) -> None:
        hint = "See it with `ostler tmux attach`; the next ostler process picks it up"
        super().__init__("cancelled", "ostler has closed: the turn keeps running in its pane", hint)


_log = logging.getLogger(__name__)


class Stop:
    """Whether a turn is to end, and why; the first reason stands. `turn` is its id, once it has one."""

    def __init__(self) -> None:
        self.turn: str | None = None
        self.problem: Problem | None = None
        self.signal: SignalName | None = None  # what the processes are sent instead of being asked in the usual steps
        self.can_leave = False  # the turn goes on by itself in a pane, and can be taken up again
        self.left = False  # that is what it is to do
        self._requested = asyncio.Event()
        self._calls: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"<Stop of {self.turn or '(no turn yet)'}: {self.problem.message if self.problem else 'not requested'}>"

    def request(self, problem: Problem) -> None:
        if self.problem is None:
            self.problem = problem
            _log.info("turn %s is to end: %s", self.turn or "(in preparation)", problem.message)
        self._requested.set()
        for call in list(self._calls):
            call()

    @contextmanager
    def calling(self, call: Callable[[], object]) -> Iterator[None]:
        """Meanwhile `call` is called with each request."""
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)

    def cancel(self, why: str = "cancelled", signal: SignalName | None = None) -> None:
        """With `signal` the turn's processes get that, and KILL if they have not ended soon after."""
        if self.problem is None:
            self.signal = signal
        self.request(Problem(kind="cancelled", message=why))

    def leave(self, why: str) -> None:
        """Ostler closes: a turn that can go on without it is left to itself, every other one is cancelled."""
        self.left = self.can_leave and self.problem is None
        self.cancel(why)

    async def wait(self) -> Problem:
        await self._requested.wait()
        assert self.problem is not None
        return self.problem


class Endable(Protocol):
    """A process that is ended with all that it started: one of ours, or one in a pane."""

    async def end(self) -> object: ...
    async def end_by(self, number: signal.Signals, /) -> object: ...


async def end_process(process: Endable, stop: Stop) -> None:
    """Ends it and all that it started: by INT, TERM and KILL, or by the signal that was asked for."""
    await (process.end() if stop.signal is None else process.end_by(SIGNALS[stop.signal]))


async def unless_stopped(work: Coroutine[Any, Any, T], stop: Stop) -> T:
    """What `work` returns. When the stop is requested first, the work is cancelled, and the reason raised.

    It is done in the task of the caller, as `asyncio.timeout` does it: a task of its own takes as long as a small work.
    """
    if stop.problem is not None:
        work.close()
        raise stop.problem.raised()
    task, interrupted = asyncio.current_task(), False
    assert task is not None

    def interrupt() -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = task.cancel()

    with stop.calling(interrupt):
        try:
            done = await work
            if interrupted:
                await _pass_cancel(task)  # which the work may not have met
            return done
        except (asyncio.CancelledError, Exception):
            if interrupted and task.cancelling() == 1 and stop.problem is not None:  # by nobody else
                raise stop.problem.raised() from None
            raise
        finally:
            if interrupted:
                task.uncancel()


async def _pass_cancel(task: "asyncio.Task[Any]") -> None:
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        if task.cancelling() > 1:
            raise
