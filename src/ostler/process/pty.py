"""A program in a terminal of ours: always read, written without blocking, resized, and read to its end."""

import asyncio
import os
import termios
from collections.abc import Callable

from ostler.errors import OstlerError
from ostler.process.child import Process
from ostler.process.pipes import Feed
from ostler.words import Exit

BURST = 16  # reads in a row before the loop gets its turn; one gives 4 KB at most
SHORT = 2048  # a read of less has emptied the terminal
INPUT_LIMIT = 256 * 1024  # bytes that may wait for a program that does not read them
PATIENCE = 1.0  # seconds that a program waits at most for an emulation that is behind
DRAIN = 0.25  # a process in the background may hold the terminal open for ever
SOON = 0.002


class Pty:
    """The terminal of a spawned process, which is released by `to_end`."""

    def __init__(self, process: Process) -> None:
        assert process.tty_fd is not None
        self.process = process
        self.leaked: tuple[str, ...] = ()  # what had to be killed after the leader's exit
        self._fd: int | None = process.tty_fd
        self._output: Callable[[bytes], None] = lambda _: None
        self._crowded: Callable[[], bool] = lambda: False
        self._loop = asyncio.get_running_loop()
        self._feed = Feed(process.tty_fd, borrowed=True)
        self._hung_up = asyncio.Event()  # no process has the terminal open
        self._held_since: float | None = None
        self._gave_up = False  # it is too far behind to be waited for
        self._resuming: asyncio.TimerHandle | None = None

    def start(self, output: Callable[[bytes], None], crowded: Callable[[], bool] = lambda: False) -> None:
        """Hands on what comes. `crowded`: the other one is so far behind that the program should wait a little."""
        assert self._fd is not None
        self._output, self._crowded = output, crowded
        self._loop.add_reader(self._fd, self._read)

    def write(self, data: bytes) -> None:
        """Never blocks. `too_many` when the program reads nothing, `not_found` when it has gone."""
        if self._fd is None:
            raise OstlerError("not_found", "the program has ended", "Open a new terminal")
        if self._feed.pending + len(data) > INPUT_LIMIT:
            raise OstlerError("too_many", "the program does not read its input", "Try again later, or interrupt it")
        self._feed.put(data)

    def resize(self, cols: int, rows: int) -> None:
        """The program is told by SIGWINCH."""
        if self._fd is not None:
            termios.tcsetwinsize(self._fd, (rows, cols))

    async def to_end(self) -> Exit:
        """Waits for the leader's exit, its last bytes and what it left running; then all is released."""
        try:
            exit = await self.process.wait()
            await self.drained()
            self.leaked = await self.process.sweep()
            await self.drained()
            return exit
        finally:
            self.close()

    def close(self) -> None:
        """Stops reading and lets go of the terminal; idempotent."""
        if self._fd is None:
            return
        self._pause()
        self._feed.close()
        self._fd = None
        self.process.release()

    async def drained(self) -> None:
        """The last bytes are read; bounded, since what runs in the background may hold the terminal."""
        try:
            await asyncio.wait_for(self._hung_up.wait(), DRAIN)
        except TimeoutError:
            pass

    def _read(self) -> None:
        assert self._fd is not None
        parts = []
        hung_up = False
        try:
            for _ in range(BURST):
                parts.append(os.read(self._fd, 65536))
                if len(parts[-1]) < SHORT:
                    break
        except BlockingIOError:
            pass
        except OSError:  # EIO
            hung_up = True
        if parts:
            self._output(parts[0] if len(parts) == 1 else b"".join(parts))
        if hung_up:
            self._stopped()
        elif not self._crowded():
            self._gave_up = False
        elif not self._gave_up:
            self._hold()

    def _stopped(self) -> None:
        """All have closed the terminal. While the leader lives, someone may open it again."""
        self._pause()
        self._hung_up.set()
        if self.process.exit is None:
            self._resuming = self._loop.call_later(DRAIN, self._resume)

    def _hold(self) -> None:
        """The emulation is behind: the program waits a little, so that no byte of it is left out there."""
        self._held_since = self._held_since or self._loop.time()
        self._pause()
        self._resuming = self._loop.call_later(SOON, self._go_on)

    def _go_on(self) -> None:
        assert self._held_since is not None
        self._gave_up = self._loop.time() - self._held_since > PATIENCE
        if self._crowded() and not self._gave_up:
            self._resuming = self._loop.call_later(SOON, self._go_on)
            return
        self._held_since = None
        self._resume()

    def _resume(self) -> None:
        self._resuming = None
        if self._fd is not None:
            self._hung_up.clear()
            self._loop.add_reader(self._fd, self._read)

    def _pause(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
