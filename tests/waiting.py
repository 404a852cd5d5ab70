"""Waiting for what no event tells, in one place: a condition is looked at until it holds."""

import asyncio
import inspect
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 90.0  # seconds: two slow cores may be busy with something else
_AGAIN = 0.01


async def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """The first true value of `condition`, which may be awaited; fails when there never is one."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(_AGAIN)


def ends(pid: int | str) -> bool:
    """Waits until that process has ended: it is gone, or a zombie that nobody has waited for."""

    def has_ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    return bool(wait_until(has_ended))


def stop(pid: int) -> None:
    """SIGSTOP, and it does stand still: one that has only been sent the signal may still read what comes."""

    def stands_still() -> bool:
        states = [each.read_text().rpartition(")")[2].split()[0] for each in Path(f"/proc/{pid}/task").glob("*/stat")]
        return all(state == "T" for state in states)

    os.kill(pid, signal.SIGSTOP)
    wait_until(stands_still)


def wait_until(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """The same for a test without an event loop."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(_AGAIN)
    return value
