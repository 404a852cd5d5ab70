"""Bytes into lines: a pure framer with a cap, and the reading of a descriptor."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator

from msgspec import Struct

CAP = 32 << 20
KEPT = 64 << 10  # of a line over the cap
_FEW = 4096  # bytes: who writes fewer is not flooding


class OutputLine(Struct, frozen=True, gc=False):
    """One line without its end; `cut` when it was over the cap and only its beginning is here."""

    data: bytes
    cut: bool


class LineFramer:
    """Any chunking of the same bytes gives the same lines. Holds at most `cap` bytes and one chunk."""

    def __init__(self, cap: int = CAP) -> None:
        self._cap = cap
        self._kept = min(KEPT, cap)
        self._pending = bytearray()  # the line that has not ended yet
        self._cut = False  # it is over the cap: `_pending` holds its beginning, the rest is dropped

    def feed(self, data: bytes) -> list[OutputLine]:
        """The lines that end within `data`."""
        first, *more = data.split(b"\n")
        if not more:
            self._hold(first)
            return []
        if self._pending or self._cut:
            self._hold(first)
            lines = [self._take()]
        else:
            lines = [self._line(first)]
        last = more.pop()
        lines += [self._line(line) for line in more]
        self._hold(last)
        return lines

    def close(self) -> list[OutputLine]:
        """The last line, if it did not end with a newline."""
        return [self._take()] if self._pending or self._cut else []

    def _hold(self, data: bytes) -> None:
        if self._cut:
            return
        if len(self._pending) + len(data) <= self._cap:
            self._pending += data
            return
        self._pending = (self._pending[: self._kept] + data[: self._kept])[: self._kept]
        self._cut = True

    def _take(self) -> OutputLine:
        line = OutputLine(bytes(self._pending), True) if self._cut else self._line(bytes(self._pending))
        self._pending = bytearray()
        self._cut = False
        return line

    def _line(self, data: bytes) -> OutputLine:
        if len(data) > self._cap:
            return OutputLine(data[: self._kept], True)
        return OutputLine(data[:-1] if data[-1:] == b"\r" else data, False)


async def chunks(fd: int, size: int = 65536) -> AsyncIterator[bytes]:
    """What a non-blocking descriptor gives, until its end; a terminal's EIO is one.

    Watches the descriptor only while it waits, so a consumer that stops or is cancelled leaves no
    reader behind; who does not ask for the next chunk holds the writer back. Close `fd` only after.
    """
    while True:
        try:
            data = os.read(fd, size)
        except BlockingIOError:
            await readable(fd)
            continue
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""
        if not data:
            return
        yield data
        if len(data) < _FEW:
            await readable(fd)  # most likely that was all for now
        else:
            await asyncio.sleep(0)  # a flood must not keep the loop


async def readable(fd: int) -> None:
    """Waits until there is something to read, or the end."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
