"""Loops in the background: each goes on whatever happens to it, and says what did."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from ostler import clock
from ostler.errors import OstlerError

FIRST_PAUSE = 0.1  # seconds before the first retry; each further one waits twice as long
LONGEST_PAUSE = 30.0
LASTING = 2.0  # seconds of failures after which somebody should be told

_log = logging.getLogger(__name__)

T = TypeVar("T")


def pause_after(failures: int, first: float, longest: float) -> float:
    """Seconds: twice as long after each failure in a row."""
    return min(first * float(1 << min(failures - 1, 20)), longest)


class Loop:
    """Calls `step` again and again in a task of its own, from `start` to `stop`.

    A step that raises is logged (once, until it raises something else) and called again after a pause that
    doubles up to `longest`. `trouble` is what it raised, until a step returns. `troubled` is told once when
    failures have lasted for some seconds.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], Awaitable[None]],
        *,
        longest: float = LONGEST_PAUSE,
        troubled: Callable[[Exception], None] | None = None,
    ) -> None:
        self.name = name
        self.trouble: Exception | None = None
        self._step, self._longest, self._troubled = step, longest, troubled
        self._since = 0.0  # when the first failure of this streak came
        self._failures = 0
        self._was_told = False
        self._logged = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None

    @property
    def lasting_trouble(self) -> Exception | None:
        """What it raises, once it has done so for some seconds."""
        return self.trouble if self.trouble and self._lasted() >= LASTING else None

    def start(self) -> None:
        """Nothing happens if it runs already."""
        if self._task is None:
            self._task = asyncio.create_task(self.run(), name=self.name)

    async def stop(self) -> None:
        """Cancels the step and waits for its end. It can be started again."""
        await stop_all([self])

    def _cancel(self) -> "asyncio.Task[None] | None":
        """Its task, to be waited for. From now on it can be started again."""
        task, self._task, self.trouble = self._task, None, None
        if task is not None:
            task.cancel()
        return task

    async def run(self) -> None:
        """For ever; ends when it is cancelled."""
        while True:
            try:
                await self._step()
            except Exception as error:  # whatever it is: a loop that nobody waits for must not end unseen
                await asyncio.sleep(self._failed(error))
            else:
                self._went_well()

    def _lasted(self) -> float:
        """Seconds since the first failure of this streak."""
        return clock.monotonic() - self._since

    def _failed(self, error: Exception) -> float:
        """Notes and tells it; how long to wait."""
        now = clock.monotonic()
        if self.trouble is None:
            self._since, self._failures, self._was_told, self._logged = now, 0, False, ""
        self.trouble = error
        self._failures += 1
        pause = pause_after(self._failures, FIRST_PAUSE, self._longest)
        self._log(error, pause)
        if self._troubled is not None and not self._was_told and self.lasting_trouble is not None:
            self._was_told = True
            try:
                self._troubled(error)
            except Exception:  # a listener must not end the loop
                _log.exception("%s: its trouble could not be told", self.name)
        return pause

    def _log(self, error: Exception, pause: float) -> None:
        """The same words once in a row: a log must not grow with the time that something takes."""
        words = str(error) or repr(error)
        if words != self._logged:
            self._logged = words
            # An error of ours says all in its words; what nobody expected needs its traceback.
            unexpected = None if isinstance(error, OstlerError | OSError) else error
            _log.warning("%s failed: %s (trying again in %.1f s)", self.name, words, pause, exc_info=unexpected)

    def _went_well(self) -> None:
        if self.trouble is not None:
            _log.warning("%s works again after %d failures", self.name, self._failures)
            self.trouble = None


async def stop_all(loops: Iterable[Loop]) -> None:
    """Cancels all at once, then waits for their ends: one that somebody starts again meanwhile goes on."""
    if tasks := [task for loop in loops if (task := loop._cancel()) is not None]:
        await asyncio.wait(tasks)


async def retried(
    name: str,
    step: Callable[[], Awaitable[T]],
    *,
    passes: Callable[[Exception], bool],
    patience: float,
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> T:
    """What `step` returns, once it does; an error that `passes` is logged and tried again, with the pauses of a loop.

    Raises every other error at once, and the last one when nothing went well for `patience` seconds.
    """
    tries = Loop(name, lambda: asyncio.sleep(0))
    while True:
        try:
            result = await step()
        except Exception as error:
            if not passes(error):
                raise
            seconds = tries._failed(error)
            if tries._lasted() >= patience:
                raise
            await pause(seconds)
        else:
            tries._went_well()
            return result
