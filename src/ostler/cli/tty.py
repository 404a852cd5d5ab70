"""The terminal that the user sits at: raw while a program has it, put back in order whatever happens."""

import asyncio
import os
import re
import sys
import termios
import threading
import tty
from collections.abc import Collection
from queue import SimpleQueue
from typing import Any

from ostler.process import Size

# What a program may have switched on, off, where that leaves the cursor in its place.
_CALM = (
    b"\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l"
    b"\x1b[?2004l\x1b[?2026l\x1b[?2031l\x1b[?1l\x1b[?5l\x1b[?7h\x1b[?25h\x1b[?66l\x1b[4l\x1b>\x1b[=0;1u"
    b"\x1b[>4;0m\x1b(B\x0f\x1b[0m\x1b[0 q"
)
_CLEAR = b"\x1b[H\x1b[2J"
# All of it, and an empty screen: the alternate one is left, origin mode and margins are as at first.
AFRESH = b"\x18\x1b[?1049l\x1b[?6l\x1b[r" + _CALM + _CLEAR
ERASE_BELOW = b"\x1b[J"
_ALTERNATE = (b"47", b"1047", b"1049")
_ORIGIN = b"6"
_MODE = re.compile(rb"\x1b\[\?([\d;]+)([hl])|\x1bc")
_STUCK = 0.5  # seconds after which a terminal that takes nothing is left as it is


class UserTerminal:
    """Use it by `with`: raw inside, as before outside. Without a terminal it writes plainly and reads nothing."""

    def __init__(self) -> None:
        self.out = sys.stdout.fileno()
        self.shows = os.isatty(self.out)
        self.keys = sys.stdin.fileno() if self.shows and sys.stdin is not None and sys.stdin.isatty() else None
        self._before: list[Any] | None = None
        self._writer: _Writer | None = None
        self._modes: set[bytes] = set()  # which what was written has switched on

    @property
    def size(self) -> Size:
        """80 × 24 where there is no terminal."""
        try:
            found = os.get_terminal_size(self.out)
        except OSError:
            return Size(80, 24)
        return Size(found.columns or 80, found.lines or 24)

    def __enter__(self) -> "UserTerminal":
        sys.stdout.flush()
        self._writer = _Writer(self.out)
        if self.keys is not None:
            self._before = termios.tcgetattr(self.keys)
            tty.setraw(self.keys, termios.TCSANOW)
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    def restore(self) -> None:
        """Idempotent; never raises: a terminal that has gone needs no order."""
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        try:
            if self.shows and writer.free.wait(_STUCK):
                os.write(self.out, reset_modes(self._modes))
            if self.keys is not None and self._before is not None:
                termios.tcsetattr(self.keys, termios.TCSANOW, self._before)
        except (OSError, termios.error):
            pass  # the terminal has gone

    async def write(self, data: bytes) -> None:
        """Returns when the terminal has taken it all; raises OSError when it is gone."""
        if data and self._writer is not None:
            follow_modes(data, self._modes)
            await self._writer.write(data)

    async def make_room(self) -> None:
        """What stands on the screen goes into its scrollback; the cursor is at the top of an empty screen."""
        if self.shows:
            rows = self.size.rows
            await self.write(b"\x1b[%dH" % rows + b"\n" * rows + _CLEAR)


def follow_modes(data: bytes, modes: set[bytes]) -> None:
    """Keeps `modes` as they are after these bytes, in which no sequence is cut."""
    for found in _MODE.finditer(data):
        if found[1] is None:  # a full reset
            modes.clear()
        elif found[2] == b"h":
            modes.update(found[1].split(b";"))
        else:
            modes.difference_update(found[1].split(b";"))


def reset_modes(modes: Collection[bytes]) -> bytes:
    """Puts a terminal in order that has these modes; what is written next stands below what the program wrote.

    To leave an alternate screen that is not there moves the cursor, and so do the ends of origin mode and margins.
    """
    leave = b"".join(b"\x1b[?%bl" % mode for mode in _ALTERNATE if mode in modes)
    origin = b"\x1b[?6l\x1b[999H" if _ORIGIN in modes else b""
    return b"\x18" + leave + origin + b"\x1b7\x1b[r\x1b8" + _CALM


class _Writer:
    """Writes in a thread: a terminal that was stopped by Ctrl-S must not stop what runs in this process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._queue: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.free = threading.Event()  # nothing is being written
        self.free.set()

    async def write(self, data: bytes) -> None:
        if self._thread is None:
            # A daemon: one that hangs in a write does not keep the process.
            self._thread = threading.Thread(target=self._work, name="ostler-tty", daemon=True)
            self._thread.start()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.free.clear()
        self._queue.put((data, done))
        await done

    def _work(self) -> None:
        while True:
            data, done = self._queue.get()
            error: OSError | None = None
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
            except OSError as failed:
                error = failed
            self.free.set()
            try:
                done.get_loop().call_soon_threadsafe(_settle, done, error)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more


def _settle(done: "asyncio.Future[None]", error: OSError | None) -> None:
    if done.done():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(None)
