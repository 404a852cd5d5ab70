"""What is left of an ended terminal: the screen it ended with, as it was kept or as its recording shows it."""

import asyncio
import contextlib
import math
from collections import deque

import msgspec
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.model import TerminalRow
from ostler.store.files import write_private
from ostler.terminal import clean
from ostler.terminal.cast import Cast, read_cast
from ostler.terminal.display import folder
from ostler.terminal.log import LIMIT, ByteLog
from ostler.terminal.screen.protocol import Cursor, Modes, Snapshot
from ostler.terminal.screen.screens import Screens
from ostler.terminal.text import plain_text
from ostler.work.terminals.context import TerminalContext
from ostler.work.terminals.drawn_recording import recording_file
from ostler.work.terminals.recording import screen_path

_SLICE = 256 * 1024  # bytes of a recording that are read before others get their turn
_BEHIND = 512 * 1024
_SOON = 0.002


class LastScreen(Struct, frozen=True):
    """The last screen of an ended terminal, and the VT that shows it below its scrollback."""

    screen: Snapshot
    history: bytes

    def snapshot(self, history: bool) -> Snapshot:
        return msgspec.structs.replace(self.screen, vt=self.history) if history else self.screen


# -- the last screen --------------------------------------------------------------------------------


def keep_screen(row: TerminalRow, kept: LastScreen) -> None:
    if row.recording:
        write_private(screen_path(row), msgspec.msgpack.encode(kept))


async def kept_screen(context: TerminalContext, row: TerminalRow) -> LastScreen:
    """As it was kept; else as its recording shows it, which is kept from then on; else an empty one."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):  # not kept, or by another version: it is drawn anew
        if row.recording:
            return msgspec.msgpack.decode(screen_path(row).read_bytes(), type=LastScreen)
    try:
        cast = read_cast(await recording_file(context, row))
    except OstlerError as error:
        if error.kind not in ("not_found", "bad_request", "store"):
            raise
        return LastScreen(empty(row.cols, row.rows), b"")
    kept = await replayed(cast, context.screens())
    with contextlib.suppress(OstlerError):  # a full disk: it is drawn anew the next time
        keep_screen(row, kept)
    return kept


async def recorded_snapshot(context: TerminalContext, row: TerminalRow, at: float, history: bool) -> Snapshot:
    """The screen as it was `at` seconds after the terminal began, by its recording; the last one if that is later.

    Raises `not_found` where there is no recording, `bad_request` for what is not a time.
    """
    if not at >= 0:
        raise OstlerError(
            "bad_request", f"{at} is not a valid time in the recording", "Give seconds from its beginning"
        )
    cast = read_cast(await recording_file(context, row))
    return (await replayed(cast, context.screens(), until=at)).snapshot(history)


async def replayed(cast: Cast, screens: Screens, until: float = math.inf) -> LastScreen:
    """The screen at the end of a recording, or at a time of it, by emulation. Queries in it are answered to nobody."""
    log = ByteLog()
    screen = screens.open(cast.header.width, cast.header.height, read_log=log.read)
    try:
        fed = 0
        for event in cast.events():
            if event.at > until:
                break
            if event.kind == "o":
                data = event.data.encode()
                log.append(data)
                screen.feed(log.end - len(data), data)
                fed += len(data)
            elif event.size:
                screen.resize(*event.size)
            if fed > _SLICE:
                fed = 0
                await asyncio.sleep(0)
                while screen.backlog > _BEHIND:  # what leaves the log before it is emulated would be lost
                    await asyncio.sleep(_SOON)
        last = await screen.snapshot()
        last = msgspec.structs.replace(last, title=clean.title(last.title), cwd=folder(last.cwd))
        return LastScreen(last, (await screen.snapshot(history=True)).vt)
    finally:
        await screen.close()


def empty(cols: int = 80, rows: int = 24) -> Snapshot:
    """What a terminal shows before its first byte."""
    blank = ("",) * rows
    return Snapshot(
        offset=0,
        cols=cols,
        rows=rows,
        text=blank,
        styled=blank,
        cursor=Cursor(),
        modes=Modes(),
        title="",
        cwd="",
        progress=None,
        scrollback=0,
        vt=b"",
    )


# -- the output -------------------------------------------------------------------------------------


async def recorded_output(context: TerminalContext, row: TerminalRow, size: int) -> bytes | None:
    """All that the program wrote, if that is `size` bytes and its terminal never had another size; else None."""
    with contextlib.suppress(OstlerError):  # a recording that is gone, or broken
        return await asyncio.to_thread(_recorded_output, await recording_file(context, row), size)
    return None


def _recorded_output(path: str, size: int) -> bytes | None:
    output = bytearray()
    with contextlib.suppress(OstlerError):  # a recording that is gone or cut: it is too short, then
        for event in read_cast(path).events():
            if event.size:
                return None
            if event.kind == "o":
                output += event.data.encode()
            if len(output) > size:  # what is no character takes more in a recording
                return None
    return bytes(output) if len(output) == size else None


# -- the text ---------------------------------------------------------------------------------------


async def recorded_text(context: TerminalContext, row: TerminalRow, limit: int | None, since: int | None = None) -> str:
    """The last text of the recording, at most `limit` characters, and after an offset; empty if there is none."""
    with contextlib.suppress(OstlerError):  # a recording that is gone, or broken
        return await asyncio.to_thread(_recorded_text, await recording_file(context, row), limit, since)
    return ""


def _recorded_text(path: str, limit: int | None, since: int | None) -> str:
    parts: deque[bytes] = deque()
    size, skip = 0, since or 0
    with contextlib.suppress(OstlerError):  # a recording that is gone or cut: what could be read is shown
        for event in read_cast(path).events():
            if event.kind == "o":
                data = event.data.encode()
                parts.append(data[skip:])
                skip = max(0, skip - len(data))
                size += len(parts[-1])
                while size - len(parts[0]) > LIMIT:
                    size -= len(parts.popleft())
    text = plain_text(b"".join(parts)[-LIMIT:])
    return text if limit is None else text[len(text) - limit :] if limit < len(text) else text
