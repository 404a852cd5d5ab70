"""Shows a turn to its end: Ctrl-C, the reader that went away, the exit code."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from ostler.cli.views import SHOWN_BEFORE, TurnDisplay
from ostler.model import AnyEvent, Envelope
from ostler.settings import Settings, load_settings
from ostler.terminal.safe import one_line

if TYPE_CHECKING:
    from ostler.work import Ostler


class Events(Protocol):
    """A turn, or what is made of its events."""

    def __aiter__(self) -> AsyncIterator[AnyEvent]: ...
    async def aclose(self) -> None: ...


def settings_for(folder: str | None, *, silently: bool = False) -> Settings:
    """The settings that hold in a folder; what the user should know of them goes to stderr, unless `silently`."""
    where = folder or "."
    loaded = load_settings(folder=where, environ=os.environ)
    if silently:
        return loaded.settings
    for notice in loaded.notices:
        print(f"note: {one_line(notice, 1000)}", file=sys.stderr)
    SHOWN_BEFORE.update(loaded.notices)
    return loaded.settings


def opened(settings: Settings, role: str) -> "Ostler":
    """An Ostler of this process, whose turns have the settings of their own folders."""
    from ostler.work import Ostler
    from ostler.work.folder_settings import loader

    environ = dict(os.environ)  # which decodes a variable each time it is read
    return Ostler(settings, environ, role, loader(environ))


async def show_turn(view: TurnDisplay, agent: str, events: Events, cancel: Callable[[], bool]) -> bool:
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
        async with contextlib.aclosing(events) as stream:
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

    def handle(*_: object) -> None:
        loop.call_soon_threadsafe(interrupted)

    def interrupted() -> None:
        nonlocal before
        if before:
            at_once()
            os._exit(130)  # what runs is ended by the warden
        before = True
        first()

    # loop.add_signal_handler looks through all signals each time, which takes a hundred times as long.
    handlers = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def exit_code(envelope: Envelope) -> int:
    """0 ok, 124 time limit, 130 cancelled, else 1."""
    if envelope.ok:
        return 0
    return {"timed_out": 124, "cancelled": 130}.get(envelope.outcome, 1)
