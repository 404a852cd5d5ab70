"""The descriptors of a process: its pipes or terminal, and the writing of its input."""

import asyncio
import contextlib
import fcntl
import os
import termios
from array import array
from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple

from msgspec import Struct

from ostler.errors import OstlerError

BURST = 16  # writes in a row before the loop gets its turn


class Size(NamedTuple):
    cols: int
    rows: int


class Ends(Struct, frozen=True):
    """Both sides of what connects us to a child; `theirs` is (stdin, stdout, stderr) or (terminal,)."""

    theirs: tuple[int, ...]
    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    tty: int | None = None

    @property
    def ours(self) -> list[int]:
        return [fd for fd in (self.stdin, self.stdout, self.stderr, self.tty) if fd is not None]

    def close(self) -> None:
        close_all([*self.theirs, *self.ours])


def open_ends(tty: Size | None, stdin: bool, source: int | None = None) -> Ends:
    """Pipes, or a PTY of that size; ours do not block. Without `stdin` the child reads `source`, or /dev/null.

    Raises OSError and leaves nothing open.
    """
    opened: list[int] = []
    try:
        return open_tty(tty, opened) if tty else open_pipes(stdin, source, opened)
    except BaseException:
        close_all(opened)
        raise


def open_tty(size: Size, opened: list[int]) -> Ends:
    master, slave = os.openpty()
    opened += (master, slave)
    termios.tcsetwinsize(slave, (size.rows, size.cols))
    os.set_blocking(master, False)
    return Ends((slave,), tty=master)


def open_pipes(stdin: bool, given: int | None, opened: list[int]) -> Ends:
    def pipe() -> tuple[int, int]:
        both = os.pipe()
        opened.extend(both)
        return both

    source, sink = pipe() if stdin else (_read_end(given), None)
    if sink is None:
        opened.append(source)
    out, their_out = pipe()
    err, their_err = pipe()
    _widen(out)
    for fd in (sink, out, err):
        if fd is not None:
            os.set_blocking(fd, False)
    return Ends((source, their_out, their_err), sink, out, err)


def _read_end(given: int | None) -> int:
    return os.dup(given) if given is not None else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def _widen(pipe: int) -> None:
    """Room for 1 MiB: gemini exits without waiting for what it wrote, and loses what the pipe cannot hold."""
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1 << 20)
    except OSError:
        pass  # the user's pipes are full, or the system allows less: the usual size has to do


def close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


class Feed:
    """Writes to a descriptor as fast as its reader takes it, by callbacks: no task, no blocked loop.

    Owns the descriptor unless `borrowed` (a terminal is also read). A reader that is gone drops the rest.
    """

    def __init__(self, fd: int, borrowed: bool = False) -> None:
        self.fd: int | None = fd
        self._borrowed = borrowed
        self.pending = 0  # bytes that are not written yet
        self._loop = asyncio.get_running_loop()
        self._queue: deque[memoryview] = deque()
        self._waiting: list[asyncio.Future[None]] = []
        self._watched = False
        self._closing = False
        self._broken = False  # the reader went, or we closed, before all was written

    @property
    def untaken(self) -> int:
        """Bytes that the reader has not read yet: those not written, and those in the pipe."""
        if self.fd is None or self._borrowed:
            return self.pending
        held = array("i", [0])
        with contextlib.suppress(OSError):  # a system that does not tell it of this end
            fcntl.ioctl(self.fd, termios.FIONREAD, held)
        return self.pending + held[0]

    def put(self, data: bytes) -> None:
        """Queues data; what fits is written now."""
        if data:
            self._queue.append(memoryview(data))
            self.pending += len(data)
            self._pump()

    async def write(self, data: bytes) -> None:
        """Returns when all is written; raises `undelivered` if nobody reads any more. On cancel the rest still goes."""
        if self._closing or self.fd is None:
            raise undelivered()
        self.put(data)
        if self._queue:
            done = self._loop.create_future()
            self._waiting.append(done)
            await done
        if self._broken:
            raise undelivered()

    def finish(self) -> None:
        """Closes the descriptor once all is written."""
        self._closing = True
        if not self._queue:
            self.close()

    def close(self) -> None:
        """Closes now and drops what is unwritten."""
        self._broken = self._broken or bool(self._queue)
        self._unwatch()
        self._queue.clear()
        self.pending = 0
        if self.fd is not None and not self._borrowed:
            os.close(self.fd)
        self.fd = None
        self._wake()

    def _pump(self) -> None:
        try:
            for _ in range(BURST):
                if not self._queue or self.fd is None:
                    break
                written = os.write(self.fd, self._queue[0][: 1 << 16])
                self._advance(written)
        except BlockingIOError:
            pass  # full: the rest is written when there is room
        except OSError:  # EPIPE, or EIO of a terminal: nobody reads
            self.close()
            return
        if self._queue:
            self._watch()
            return
        self._unwatch()
        self._wake()
        if self._closing:
            self.close()

    def _advance(self, written: int) -> None:
        self.pending -= written
        rest = self._queue[0][written:]
        if rest:
            self._queue[0] = rest
        else:
            self._queue.popleft()

    def _watch(self) -> None:
        if not self._watched and self.fd is not None:
            self._loop.add_writer(self.fd, self._pump)
            self._watched = True

    def _unwatch(self) -> None:
        if self._watched and self.fd is not None:
            self._loop.remove_writer(self.fd)
        self._watched = False

    def _wake(self) -> None:
        for done in self._waiting:
            if not done.done():
                done.set_result(None)
        self._waiting.clear()


async def chunks(source: bytes | int) -> AsyncIterator[bytes]:
    """The bytes, or what a descriptor gives until its end. The descriptor's flags stay: others have it, too."""
    if isinstance(source, bytes):
        if source:
            yield source
        return
    while True:
        await _readable(source)
        data = os.read(source, 1 << 16)
        if not data:
            return
        yield data


async def _readable(fd: int) -> None:
    """Returns when a read does not block. A file never does."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except PermissionError:  # what epoll says of a file
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


def undelivered() -> OstlerError:
    return OstlerError("undelivered", "the process no longer reads its input")
