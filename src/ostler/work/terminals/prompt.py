"""Sends a prompt to whatever program runs in a terminal, as a careful person would: pasted, seen, then Enter.

The receipt says how far it came. Whether a program takes the prompt up, it alone knows: a turn of an agent
(`transport="pty"`) finds out.
"""

import asyncio
import contextlib
from secrets import token_hex
from typing import Literal

from msgspec import Struct

from ostler import clock
from ostler.errors import OstlerError
from ostler.terminal.keys import Key, paste
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import Paste, PressKey
from ostler.work.terminals.terminal import Terminal

LIMIT = 15.0  # seconds for all of it
_AGAIN = 0.05  # seconds between two looks
_END = 40  # characters of the prompt that the screen has to show

PromptStage = Literal["accepted", "echoed", "submitted"]


class PromptReceipt(Struct, frozen=True, kw_only=True):
    """How far a prompt came. `offset`: what the program puts out from there on came after the prompt was begun."""

    stages: tuple[PromptStage, ...]
    offset: int


async def send_prompt(
    terminal: Terminal, text: str, *, by: str = "ostler", limit: float = LIMIT, echo: bool = True
) -> PromptReceipt:
    """Pastes the text, waits until the screen shows its end, and presses Enter, as automation called `by`.

    Raises `undelivered` where that is not the case within `limit`: Enter is not pressed then. With `echo=False` it
    is not waited for (a password). Somebody else at the keyboard is waited for as long, and then it is `denied`.
    """
    if not text.strip():
        raise OstlerError("bad_request", "the prompt is empty")
    author, deadline = Author(by, "automation", token_hex(8)), clock.monotonic() + limit
    await _take_keyboard(terminal, author, deadline)
    try:
        before = await terminal.snapshot()
        await terminal.input(author, Paste(text=text))
        if echo:
            await _until_echoed(terminal, text, _shown_in(before.text), deadline, limit)
        await terminal.input(author, PressKey(key=Key(name="Enter")))
    finally:
        with contextlib.suppress(OstlerError):  # it has ended
            await terminal.lease(author, "release")
    stages: tuple[PromptStage, ...] = ("accepted", "echoed", "submitted") if echo else ("accepted", "submitted")
    return PromptReceipt(stages=stages, offset=before.offset)


async def _take_keyboard(terminal: Terminal, author: Author, deadline: float) -> None:
    while clock.monotonic() < deadline:
        try:
            await terminal.lease(author, "take")
            return
        except OstlerError as error:
            if error.kind != "denied":
                raise
        await asyncio.sleep(_AGAIN)
    await terminal.lease(author, "take")


async def _until_echoed(terminal: Terminal, text: str, before: str, deadline: float, limit: float) -> None:
    """Until its end is seen once more than before, or a new placeholder of a long paste."""
    end = _squeezed(paste(text, bracketed=False).decode())[-_END:]
    while clock.monotonic() < deadline:
        now = _shown_in((await terminal.snapshot()).text)
        if now.count(end) > before.count(end) or now.count(_PLACEHOLDER) > before.count(_PLACEHOLDER):
            return
        if terminal.row.state == "ended":
            raise OstlerError("crashed", f"the program in terminal {terminal.row.id} ended before it had the prompt")
        await asyncio.sleep(_AGAIN)
    message = f"terminal {terminal.row.id} did not show the prompt within {limit:g} s"
    raise OstlerError("undelivered", message, "Look at it (ostler attach), or send it without waiting for that")


_PLACEHOLDER = "[Pasted"


def _shown_in(rows: tuple[str, ...]) -> str:
    return _squeezed("".join(rows))


def _squeezed(text: str) -> str:
    """Without white space and frames: a screen wraps and draws as it likes."""
    return "".join(each for each in text if not each.isspace() and each not in "│┃|")
