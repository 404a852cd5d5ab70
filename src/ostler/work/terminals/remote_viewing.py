"""Viewing a terminal that lives in another ostler process, over its owner's socket.

The first line is a request in JSON and its answer; then frames go both ways, each with four bytes of length and
one that tells text from bytes before it. Nobody reads ahead: what the viewer does not take stays with the owner.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import msgspec

from ostler.model import Owner, Problem, TerminalRow, json_head
from ostler.terminal.screen.protocol import Snapshot
from ostler.terminal.viewer_protocol import FRAME_LIMIT, Format, Frame, Gone, RefusedMessage, Viewing, encode_message
from ostler.work.owner import Streams, close_writer, connect, send_line, send_request
from ostler.work.terminals.ended import last_screen
from ostler.work.terminals.requests import ViewTerminal

_HEAD = struct.Struct("!I?")  # length, whether it is text
_SNAPSHOT, _ROWS, _EXIT = (json_head(kind).decode() for kind in ("snapshot", "rows", "exit"))
_OFFSET = struct.Struct("!Q")
_LONGEST = 64 << 20  # a snapshot with all its scrollback is far below
_UNSENT = 2 * FRAME_LIMIT  # an owner that takes so little of what is typed is as good as dead
_HIGH = 64 * 1024  # bytes for a viewer that wait here; the rest stays in the terminal's log


class _Screen(msgspec.Struct):
    """A snapshot or rows, as far as matters here."""

    offset: int


# -- the viewer's side ----------------------------------------------------------------------------------


LastState = Callable[[TerminalRow], Awaitable[tuple[TerminalRow, Snapshot | None]]]
"""How a terminal stands now, and its last screen if it has ended."""


async def remote_view(owner: Owner, row: TerminalRow, request: ViewTerminal, last_state: LastState) -> "RemoteViewing":
    """Raises what the owner says, or `crashed` when it does not answer. `last_state` is called when it is gone."""
    streams = await connect(owner, _HIGH)
    try:
        await send_request(owner, request, streams)
    except BaseException:
        streams[1].close()
        raise
    return RemoteViewing(owner, row, streams, last_state, request.format)


class RemoteViewing:
    """A `Viewing` whose terminal is elsewhere. A dead owner is told as an error and the end of the terminal."""

    def __init__(self, owner: Owner, row: TerminalRow, streams: Streams, last_state: LastState, format: Format) -> None:
        self._owner, self._row = owner, row
        self._reader, self._writer = streams
        self._last_state = last_state
        self._format = format
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
            elif frame.startswith((_SNAPSHOT, _ROWS)):
                self._offset = msgspec.json.decode(frame, type=_Screen).offset
            else:
                ended = frame.startswith(_EXIT)
            yield frame

    def receive(self, frame: Frame) -> None:
        if self._writer.is_closing():
            return
        self._writer.write(packed(frame))
        if self._writer.transport.get_write_buffer_size() > _UNSENT:
            self._writer.transport.abort()

    async def close(self) -> None:
        self._closed = True
        await close_writer(self._writer)

    async def _broken(self) -> list[Frame]:
        """What to say when the owner is gone in the middle."""
        if self._closed:
            return []
        row, last = await self._last_state(self._row)
        problem = Problem(
            kind="crashed",
            message=f"the ostler process {self._owner.pid}, which ran this terminal, is gone",
            hint="What it showed last is kept" if row.state == "ended" else "Connect again",
        )
        frames: list[Frame] = []
        if last is not None and last.offset > self._offset:  # it went before all was taken
            frames.append(last_screen(last, self._format))
        if row.exit is None:
            frames.append(encode_message(RefusedMessage(problem=problem)))
        if row.state == "ended":
            frames.append(encode_message(Gone(exit=row.exit, offset=max(self._offset, last.offset if last else 0))))
        return frames


# -- the owner's side -----------------------------------------------------------------------------------


async def serve_view(viewing: Viewing, streams: Streams) -> None:
    """Carries frames between a viewing here and its viewer elsewhere, until one of them ends."""
    reader, writer = streams
    try:
        await send_line(writer, {"ok": True})
        writer.transport.set_write_buffer_limits(high=_HIGH)
        async with asyncio.TaskGroup() as pumps:
            telling = pumps.create_task(_send_frames(viewing, writer))
            hearing = pumps.create_task(_receive_frames(viewing, reader))
            telling.add_done_callback(lambda _: hearing.cancel())
            hearing.add_done_callback(lambda _: telling.cancel())
    finally:
        await viewing.close()


async def _send_frames(viewing: Viewing, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):  # the viewer has left
        async for frame in viewing.frames():
            writer.write(packed(frame))
            await writer.drain()


async def _receive_frames(viewing: Viewing, reader: asyncio.StreamReader) -> None:
    with suppress(OSError, EOFError):  # the viewer has left
        while True:
            viewing.receive(await read_frame(reader, 2 * FRAME_LIMIT))


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
