"""A program in a terminal of ours: always read, written without blocking, resized, and read to its end."""

import asyncio
import os
import signal
import termios
from collections.abc import Callable

from ostler.errors import OstlerError
from ostler.model import Exit
from ostler.process.child import Process
from ostler.process.pipes import Feed, chunks

BURST = 16  # reads in a row before the loop gets its turn; one gives 4 KB at most
SHORT = 2048  # a read of less has emptied the terminal
INPUT_LIMIT = 256 * 1024  # bytes that may wait for a program that does not read them
PATIENCE = 1.0  # seconds that a program waits at most for an emulation that is behind
DRAIN = 0.25  # a process in the background may hold the terminal open for ever
SOON = 0.002


class Pty:
    """The terminal of a spawned process, which is released by `to_end`."""

    answers = True  # what a program asks its terminal is answered by us

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

    async def type_in(self, source: bytes | int) -> None:
        """Types all of it, as fast as the program reads, and the end of file; returns early if the program has gone.

        `source` is bytes or a descriptor to read from.
        """
        last = b"\n"
        try:
            async for data in chunks(source):
                await self._feed.write(data)
                last = data[-1:]
            await self._feed.write(self._end_of_file(last))
        except OstlerError:
            pass  # undelivered: nobody reads it any more

    def _end_of_file(self, last: bytes) -> bytes:
        """Ctrl-D, or what the terminal has for it; twice in the middle of a line, which the first one only hands on."""
        if self._fd is None:
            return b""
        _, _, _, local, _, _, characters = termios.tcgetattr(self._fd)
        by_lines = local & termios.ICANON
        return bytes(characters[termios.VEOF]) * (2 if by_lines and last != b"\n" else 1)

    def resize(self, cols: int, rows: int) -> None:
        """The program is told by SIGWINCH."""
        if self._fd is not None:
            termios.tcsetwinsize(self._fd, (rows, cols))

    def signal(self, number: int) -> None:
        """INT and QUIT to what runs in the foreground, as the keyboard sends them; others to all that runs here.

        Nothing happens if it has ended; `denied` for a program that is not ours to signal.
        """
        if self._fd is None or self.process.exit is not None:
            return
        if number not in (signal.SIGINT, signal.SIGQUIT):
            self.process.signal_tree(number)
        elif (group := os.tcgetpgrp(self._fd)) > 1:
            try:
                os.killpg(group, number)
            except ProcessLookupError:
                pass  # it has just ended
            except PermissionError as error:
                raise OstlerError("denied", "the program runs as another user", "End the terminal instead") from error

    async def end_by(self, number: int, grace: float) -> None:
        """The signal to all that runs in it, and KILL to what does not obey."""
        await self.process.end_by(number, grace)

    async def to_end(self) -> Exit | None:
        """Waits for the leader's exit, its last bytes and what it left running; then all is released."""
        try:
            exit = await self.process.wait()
            self._hold_no_more()
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
            pass  # something in the background holds the terminal: what it writes is not waited for

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
            pass  # all is read
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

    def _hold_no_more(self) -> None:
        """The leader has ended: what is left is little, and would be lost if it were held for longer than `DRAIN`."""
        self._crowded = lambda: False
        if self._held_since is not None:
            self._held_since = None
            self._pause()
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
