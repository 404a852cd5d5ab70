"""The output of `ostler exec`: both streams as they come, each where it belongs."""

import os
import sys

from ostler.cli.live import print_lines
from ostler.cli.views import already_shown, complain_of
from ostler.model import AnyEvent, Envelope, Notice
from ostler.render.lines import ending
from ostler.terminal.output_filter import OutputFilter
from ostler.terminal.safe import one_line
from ostler.work.turns.artifacts import diff_of


class OutputView:
    """A `TurnDisplay` of a command. What it writes reaches a terminal as it is, but for what could act there."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._streams = {"stdout": _Stream(sys.stdout.fileno()), "stderr": _Stream(sys.stderr.fileno())}

    def output(self, stream: str, data: bytes) -> None:
        """Never raises: that the reader has gone is told by the next `show`."""
        self._streams[stream].write(data)

    def begin(self, agent: str) -> None:
        sys.stdout.flush()

    def show(self, event: AnyEvent) -> None:
        self._check()
        if isinstance(event, Notice) and not already_shown(event):
            print(f"note: {one_line(event.text, 400)}", file=sys.stderr, flush=True)

    def end(self, envelope: Envelope) -> None:
        self._check()
        for stream in self._streams.values():
            stream.finish()
        if not self._quiet:
            print_lines([[], *ending(envelope, diff_of(envelope))])
            sys.stdout.flush()
        elif envelope.error is not None:
            complain_of(envelope.error)

    def stop(self) -> None:
        pass

    def _check(self) -> None:
        if self._streams["stdout"].gone:
            raise BrokenPipeError(32, "nobody reads the output")


class _Stream:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._filter = OutputFilter() if os.isatty(fd) else None
        self._open_line = False  # in a terminal, the cursor stands behind something
        self.gone = False

    def write(self, data: bytes) -> None:
        if self._filter is not None:
            data = self._filter.feed(data)
            self._open_line = not data.endswith(b"\n") if data else self._open_line
        rest = memoryview(data)
        try:
            while rest and not self.gone:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            self.gone = True

    def finish(self) -> None:
        """What follows begins in a line of its own, in its own colour."""
        if self._filter is not None:
            self.write(b"\x1b[0m" + b"\n" * self._open_line)
