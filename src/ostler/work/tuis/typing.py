"""Types into a TUI as automation: under the lease, one thing at a time, and the keyboard is given back."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import get_args

from ostler import clock
from ostler.errors import OstlerError
from ostler.terminal.input_encoding import encoded
from ostler.terminal.keys import Key, Mod, paste
from ostler.terminal.lease import Author
from ostler.terminal.live import LiveTerminal
from ostler.terminal.screen.protocol import Modes
from ostler.terminal.viewer_protocol import Paste, PressKey, SendBytes, Type

_PIECE = 16 * 1024  # bytes of a paste that are handed on at once
_AGAIN = 0.02  # seconds until a program that is behind is given more
_NAMED = ("Enter", "Escape", "ArrowUp", "ArrowDown", "Tab")


class Typist:
    """Automation's hands on one terminal."""

    def __init__(self, live: LiveTerminal, session: str) -> None:
        self._live = live
        self._author = Author("ostler", "automation", session)
        self._one_at_a_time = asyncio.Lock()

    @asynccontextmanager
    async def at_keyboard(self) -> AsyncIterator[None]:
        """Has the keyboard. A person who holds it is waited for, without end; it is given back in any case."""
        async with self._one_at_a_time:
            await self._live.acquire(self._author)
            try:
                yield
            finally:
                self._live.release(self._author)

    async def regain(self) -> None:
        """Waits until a person who took the keyboard meanwhile gives it back. Within `at_keyboard`."""
        await self._live.acquire(self._author)

    def is_held_up(self) -> bool:
        """A person holds the keyboard."""
        holder = self._live.lease.holder
        return holder is not None and holder != self._author

    async def paste(self, text: str, modes: Modes, limit: float) -> None:
        """One bracketed paste, without anything that controls a terminal. `undelivered` if the program reads no more.

        Within `at_keyboard`.
        """
        if self._live.own_input is not None:
            self._live.input(self._author, Paste(text=text))
            return
        data, deadline = encoded(Paste(text=text), modes), clock.monotonic() + limit
        while data:
            try:
                self._live.input(self._author, SendBytes(data=data[:_PIECE]))
                data = data[_PIECE:]
            except OstlerError as error:
                if error.kind != "too_many":
                    raise
                if clock.monotonic() > deadline:
                    raise OstlerError("undelivered", "the program does not read what is pasted") from error
                await asyncio.sleep(_AGAIN)

    def send(self, data: SendBytes) -> None:
        """Bytes as they are. Within `at_keyboard`."""
        self._live.input(self._author, data)

    def press(self, keys: Sequence[str]) -> None:
        """Presses keys by name, each as its own write. Within `at_keyboard`."""
        for key in keys:
            self._live.input(self._author, _press(key))


def pasted(text: str) -> str:
    """The text as a program gets it: without what controls a terminal."""
    return paste(text, bracketed=False).decode().replace("\r", "\n")


def _press(key: str) -> PressKey | Type:
    """`Enter`, `ctrl+c`; anything else is a character."""
    *mods, name = key.split("+") if len(key) > 1 else [key]
    if mods or name in _NAMED:
        return PressKey(key=Key(name=name, mods=frozenset(mod for mod in get_args(Mod) if mod in mods)))
    return Type(text=name)
