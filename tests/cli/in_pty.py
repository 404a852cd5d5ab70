"""`ostler …` in a terminal, as a person has it: a real PTY whose other end is the test."""

import os
import select
import signal
import subprocess
import sys
import termios
import time
from typing import Any


class InPty:
    """A process on a PTY of its own. Everything it wrote is in `seen`; times are bounds, not expectations."""

    def __init__(self, args: list[str], *, cwd: Any, env: dict[str, str], cols: int = 80, rows: int = 24) -> None:
        self.master, self.slave = os.openpty()
        self.resize(cols, rows)
        self.modes = termios.tcgetattr(self.slave)
        self.seen = b""
        self.process = subprocess.Popen(
            # The first terminal that a new session opens is its own: Ctrl-C and changes of size reach it.
            ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(self.slave), sys.executable, "-m", "ostler", *args],
            cwd=cwd,
            env={"TERM": "xterm-256color", **env},
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

    def end(self, seconds: float = 60) -> int:
        """Reads on until the process has ended; its exit code."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            self._read(deadline, b"the end", 0.05)
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 65536)
        return self.process.returncode

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

    def _read(self, deadline: float, wanted: bytes, pause: float | None = None) -> None:
        left = deadline - time.monotonic()
        assert left > 0, f"{wanted!r} never came: {self.seen[-2000:]!r}"
        if select.select([self.master], [], [], pause if pause is not None else left)[0]:
            self.seen += os.read(self.master, 65536)
