"""`ostler …` in a terminal, as a person has it: a real PTY whose other end is the test."""

import os
import select
import signal
import termios
import time
from typing import Any

from ostler.terminal.emulator import Emulator
from prefork import start_ostler


class InPty:
    """A process on a PTY of its own. Everything it wrote is in `seen`; times are bounds, not expectations."""

    def __init__(self, args: list[str], *, cwd: Any, env: dict[str, str], cols: int = 80, rows: int = 24) -> None:
        self.master, self.slave = os.openpty()
        self.size = (cols, rows)
        self.resize(cols, rows)
        self.modes = termios.tcgetattr(self.slave)
        self.seen = b""
        self.all = b""
        self._emulator: Emulator | None = None
        self._shown = 0
        self.process = start_ostler(
            args,
            cwd=cwd,
            env={"TERM": "xterm-256color", **env},
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
        )

    def type(self, data: bytes) -> None:
        os.write(self.master, data)

    def resize(self, cols: int, rows: int) -> None:
        termios.tcsetwinsize(self.slave, (rows, cols))

    def until(self, wanted: bytes, seconds: float = 60) -> bytes:
        """Reads until that has come after what `until` found before; what came up to it."""
        deadline = time.monotonic() + seconds
        while wanted not in self.seen:
            self._read(deadline, wanted)
        before, found, self.seen = self.seen.partition(wanted)
        return before + found

    def until_last_row(self, wanted: str, seconds: float = 60) -> None:
        """Reads until the last row that is not empty begins with that."""
        deadline = time.monotonic() + seconds
        while not self.screen()[-1].startswith(wanted):
            self._read(deadline, self.screen())

    def end(self, seconds: float = 60) -> int:
        """Reads on until the process has ended; its exit code."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            self._read(deadline, b"the end", 0.05)
        while select.select([self.master], [], [], 0)[0]:
            self._take()
        return self.process.returncode

    def screen(self) -> list[str]:
        """The rows that a person sees, after all that has been read."""
        if self._emulator is None:
            self._emulator = Emulator(*self.size)
        self._emulator.feed(self.all[self._shown :])
        self._shown = len(self.all)
        return "\n".join(self._emulator.snapshot(0).text).rstrip("\n").split("\n")

    def in_order(self) -> bool:
        """Whether the terminal is as it was before the process had it."""
        return termios.tcgetattr(self.slave) == self.modes

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)
        if self._emulator is not None:
            self._emulator.close()
            self._emulator = None

    def _read(self, deadline: float, wanted: Any, pause: float | None = None) -> None:
        left = deadline - time.monotonic()
        assert left > 0, f"{wanted!r} never came: {self.seen[-2000:]!r}"
        if select.select([self.master], [], [], pause if pause is not None else left)[0]:
            self._take()

    def _take(self) -> None:
        data = os.read(self.master, 65536)
        self.seen += data
        self.all += data
