"""Viewing a terminal that lives in another ostler process, over its owner's socket.

The first line is a request in JSON and its answer; then frames go both ways, each with four bytes of length and
one that tells text from bytes before it. Nobody reads ahead: what the viewer does not take stays with the owner.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct, to_builtins

from ostler.terminal.lease import Author
from ostler.terminal.screen_words import Snapshot
from ostler.terminal.viewing import FRAME_LIMIT, Frame, Gone, Refused, Rights, Shown, Viewing, told
from ostler.words import Owner, Problem, TerminalRow
from ostler.work.ended import shown
from ostler.work.owner import asked, connected, hang_up, say

_HEAD = struct.Struct("!I?")  # length, whether it is text
_OFFSET = struct.Struct("!Q")
_LONGEST = 64 << 20  # a snapshot with all its scrollback is far below
_UNSENT = 2 * FRAME_LIMIT  # an owner that takes so little of what is typed is as good as dead
_HIGH = 64 * 1024  # bytes for a viewer that wait here; the rest stays in the terminal's log


class Ask(NamedTuple):
    """Whom to ask about a terminal."""

    owner: Owner
    row: TerminalRow


class Asked(Struct, frozen=True, kw_only=True):
    """A request to view."""

    terminal: str
    author: Author
    rights: Rights
    offset: int | None = None
    op: Literal["view"] = "view"


# -- the viewer's side ----------------------------------------------------------------------------------


Rest = Callable[[TerminalRow], Awaitable[tuple[TerminalRow, Snapshot | None]]]
"""How a terminal stands now, and its last screen if it has ended."""


async def remote_view(ask: Ask, author: Author, rights: Rights, offset: int | None, rest: Rest) -> "RemoteViewing":
    """Raises what the owner says, or `crashed` when it does not answer. `rest` is asked when it is gone."""
    reader, writer = await connected(ask.owner, _HIGH)
    request = Asked(terminal=ask.row.id, author=author, rights=rights, offset=offset)
    try:
        await asked(ask.owner, to_builtins(request), reader, writer)
    except BaseException:
        writer.close()
        raise
    return RemoteViewing(ask, reader, writer, rest)


class RemoteViewing:
    """A `Viewing` whose terminal is elsewhere. A dead owner is told as an error and the end of the terminal."""

    def __init__(self, ask: Ask, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rest: Rest) -> None:
        self._ask = ask
        self._reader, self._writer = reader, writer
        self._rest = rest
        self._offset = 0
        self._closed = False

    async def frames(self) -> AsyncIterator[Frame]:
        ended = False
        while not ended:
            try:
                frame = await read_frame(self._reader, _LONGEST)
            except (OSError, EOFError):
                for last in await self._broken():
                    yield last
                return
            if isinstance(frame, bytes):
                self._offset = _OFFSET.unpack_from(frame)[0] + len(frame) - _OFFSET.size
            elif frame.startswith('{"kind":"snapshot"'):
                self._offset = msgspec.json.decode(frame, type=Shown).offset
            else:
                ended = frame.startswith('{"kind":"exit"')
            yield frame

    def hear(self, frame: Frame) -> None:
        if self._writer.is_closing():
            return
        self._writer.write(packed(frame))
        if self._writer.transport.get_write_buffer_size() > _UNSENT:
            self._writer.transport.abort()

    async def close(self) -> None:
        self._closed = True
        await hang_up(self._writer)

    async def _broken(self) -> list[Frame]:
        """What to say when the owner is gone in the middle."""
        if self._closed:
            return []
        row, last = await self._rest(self._ask.row)
        problem = Problem(
            kind="crashed",
            message=f"the ostler process {self._ask.owner.pid}, which ran this terminal, is gone",
            hint="What it showed last is kept" if row.state == "ended" else "Connect again",
        )
        frames: list[Frame] = []
        if last is not None and last.offset > self._offset:  # it went before all was taken
            frames.append(told(shown(last)))
        if row.exit is None:
            frames.append(told(Refused(problem=problem)))
        if row.state == "ended":
            frames.append(told(Gone(exit=row.exit, offset=max(self._offset, last.offset if last else 0))))
        return frames


# -- the owner's side -----------------------------------------------------------------------------------


async def serve_view(viewing: Viewing, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carries frames between a viewing here and its viewer elsewhere, until one of them ends."""
    try:
        await say(writer, {"ok": True})
        writer.transport.set_write_buffer_limits(high=_HIGH)
        async with asyncio.TaskGroup() as pumps:
            telling = pumps.create_task(_tell(viewing, writer))
            hearing = pumps.create_task(_hear(viewing, reader))
            telling.add_done_callback(lambda _: hearing.cancel())
            hearing.add_done_callback(lambda _: telling.cancel())
    finally:
        await viewing.close()


async def _tell(viewing: Viewing, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):  # the viewer has left
        async for frame in viewing.frames():
            writer.write(packed(frame))
            await writer.drain()


async def _hear(viewing: Viewing, reader: asyncio.StreamReader) -> None:
    with suppress(OSError, EOFError):
        while True:
            viewing.hear(await read_frame(reader, 2 * FRAME_LIMIT))


# -- frames -----------------------------------------------------------------------------------------------


def packed(frame: Frame) -> bytes:
    data = frame.encode("utf-8", "surrogatepass") if isinstance(frame, str) else frame
    return _HEAD.pack(len(data), isinstance(frame, str)) + data


async def read_frame(reader: asyncio.StreamReader, longest: int) -> Frame:
    """Raises EOFError at the end, OSError for what is no frame."""
    length, text = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if length > longest:
        raise OSError(f"a frame of {length} bytes")
    data = await reader.readexactly(length)
    return data.decode("utf-8", "replace") if text else data
