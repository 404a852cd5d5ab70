"""A command in a pane whose streams are files: read as they grow, as if they were pipes."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

from ostler import clock
from ostler.model import Exit
from ostler.process import tree
from ostler.process.pipes import Feed
from ostler.work.terminals.pty_terminal import PtyTerminal
from ostler.work.transports.stop import LeftInPane, Stop
from ostler.work.transports.tasks import cancel_all

_PIECE = 1 << 16
_AGAIN = 0.05  # seconds between looks at a file that does not grow


class TailedProcess:
    """As `process.Process`, as far as reading records needs that. `program` is None once the pane is gone."""

    def __init__(self, program: PtyTerminal | None, folder: Path, stop: Stop) -> None:
        self._program, self._folder, self._stop = program, folder, stop
        self._exit = None if program is not None else _exit_in(folder)
        self.stdout_fd, out = _pipe()
        self.stderr_fd, err = _pipe()
        self._tails = [
            asyncio.create_task(self._tail(folder / name, Feed(fd))) for name, fd in (("stdout", out), ("stderr", err))
        ]

    @property
    def exit(self) -> Exit | None:
        return self._exit

    async def wait(self) -> Exit:
        if self._exit is None:
            assert self._program is not None
            await self._program.wait()
            self._exit = self._program.exit or _exit_in(self._folder)
        return self._exit

    async def sweep(self) -> tuple[str, ...]:
        """The pane's own warden has ended what was left, and told what it was."""
        return self._program.leaked if self._program is not None else ()

    async def end(self) -> None:
        """INT to the command, TERM to all that it started, then its pane is closed; a step ends early."""
        self._unless_left()
        leader = tree.as_members(_leader(self._folder))
        if self._program is not None and not await self._gone_after(lambda: tree.send(leader, signal.SIGINT)):
            await self._program.end("TERM")
        await self.wait()

    async def end_by(self, number: signal.Signals) -> None:
        self._unless_left()
        if self._program is not None:
            await self._program.end(number.name.removeprefix("SIG"))  # type: ignore[arg-type]
        await self.wait()

    async def release(self) -> None:
        await cancel_all(self._tails)
        for fd in (self.stdout_fd, self.stderr_fd):
            os.close(fd)

    def _unless_left(self) -> None:
        if self._stop.left:
            raise LeftInPane

    async def _gone_after(self, send_signal: Callable[[], object], seconds: float = 2.0) -> bool:
        assert self._program is not None
        send_signal()
        await asyncio.wait([self._program.done], timeout=seconds)
        return self._program.done.done()

    async def _tail(self, path: Path, feed: Feed) -> None:
        """Hands on what is in the file and what is added to it, until the command has ended and all is read."""
        offset, last = 0, False
        try:
            while True:
                data = await asyncio.to_thread(_read, path, offset)
                offset += len(data)
                if data:
                    await feed.write(data)
                elif last:
                    return
                else:
                    last = await self._over()
        finally:
            feed.close()

    async def _over(self) -> bool:
        """Whether the command has ended, now or within a moment."""
        if self._program is None or self._program.ending:
            return True
        deadline = clock.monotonic() + _AGAIN
        await asyncio.wait([self._program.done], timeout=max(0.0, deadline - clock.monotonic()))
        return self._program.done.done()


def _pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    for fd in (reading, writing):
        os.set_blocking(fd, False)
    return reading, writing


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(_PIECE)
    except OSError:
        return b""  # not there yet


def _leader(folder: Path) -> list[int]:
    try:
        return [int((folder / "started").read_text())]
    except (OSError, ValueError):
        return []  # it has not been started


def _exit_in(folder: Path) -> Exit:
    """As the pane's warden wrote it down; KILL if it could not."""
    try:
        word, code = (folder / "exit").read_text().split()[:2]
        number = int(code) if word == "exit" else 127
    except (OSError, ValueError):
        number = -signal.SIGKILL
    return Exit(code=number) if number >= 0 else Exit(signal=-number)
