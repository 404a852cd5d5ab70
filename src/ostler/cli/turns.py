"""Carries a turn to its end under a view: Ctrl-C, the reader that went away, the exit code."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from typing import Any, cast

from ostler.cli.live import View
from ostler.settings import Settings, load_settings
from ostler.terminal.safe import one_line
from ostler.words import AnyEvent, Envelope


def settings_for(folder: str | None, flags: Mapping[str, Any] | None = None) -> Settings:
    """The settings that hold in a folder; what the user should know of them goes to stderr."""
    where = folder or "."
    loaded = load_settings(folder=where, environ=os.environ, flags=flags or {})
    for notice in loaded.notices:
        print(f"note: {one_line(notice, 1000)}", file=sys.stderr)
    return loaded.settings


async def carry(view: View, agent: str, events: AsyncIterator[AnyEvent], cancel: Callable[[], bool]) -> bool:
    """Shows a turn until it ends. Ctrl-C calls `cancel`, which says whether there was a turn to cancel.

    False: it was interrupted before there was one.
    """
    task = asyncio.current_task()
    assert task is not None

    def interrupt() -> None:
        if not cancel():
            task.cancel()

    view.begin(agent)
    try:
        # Closed at once when a view fails: that cancels the turn.
        async with contextlib.aclosing(cast("AsyncGenerator[AnyEvent, None]", events)) as stream:
            with interrupts(interrupt, view.stop):
                async for event in stream:
                    view.show(event)
    except asyncio.CancelledError:
        task.uncancel()
        return False
    finally:
        view.stop()
    return True


@contextlib.contextmanager
def interrupts(first: Callable[[], None], at_once: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C (or TERM, or HUP) calls `first`; the second one exits at once."""
    loop = asyncio.get_running_loop()
    before = False

    def interrupted() -> None:
        nonlocal before
        if before:
            at_once()
            os._exit(130)  # what runs is ended by the warden
        before = True
        first()

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, interrupted)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def exit_code(envelope: Envelope) -> int:
    """0 ok, 124 time limit, 130 cancelled, else 1."""
    if envelope.ok:
        return 0
    return {"timed_out": 124, "cancelled": 130}.get(envelope.outcome, 1)
