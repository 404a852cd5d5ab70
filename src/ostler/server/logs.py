"""The server's log, which nobody can fill from outside: records of one kind are bounded, and so is each of them."""

import logging
import os
import sys

from ostler import clock
from ostler.logs import LogFile, LogOptions, LogStream, write_log

BURST = 10  # records that one place in the code may write,
EVERY = 60.0  # and then one in so many seconds, which tells how many were left out


def start_server_log(options: LogOptions, secrets: tuple[str, ...], *, detached: str = "") -> None:
    """To stderr, or to a rotated file: `detached` names that of a server in the background.

    Without a level that is only what somebody should look at: a refused connection is an answer, no fault of ours.
    """
    handler = _handler(options.file, detached)
    handler.addFilter(EachPlaceSeldom())
    write_log(handler, options.level or "warning", secrets)
    logging.getLogger().addHandler(handler)
    logging.getLogger("ostler").propagate = False  # it has the same handler
    for name in ("uvicorn.error", "websockets", "asyncio"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _handler(file: str, detached: str) -> logging.Handler:
    if file:
        return LogFile(file)
    return ServerLogFile(detached) if detached else LogStream()


class ServerLogFile(LogFile):
    """The log of a server in the background, whose stdout and stderr are the same file, also after it was rotated."""

    def doRollover(self) -> None:
        super().doRollover()
        assert self.stream is not None
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(self.stream.fileno(), stream.fileno())


class EachPlaceSeldom(logging.Filter):
    """Bounds the records of one place in the code. Those below warnings are only there when somebody asked for them."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[tuple[str, int], _Place] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        place = self._places.setdefault((record.pathname, record.lineno), _Place())
        if not place.lets_pass(clock.monotonic()):
            return False
        record.left_out = place.left_out()
        return True


class _Place:
    """A line of code that logs."""

    def __init__(self) -> None:
        self._written = 0
        self._left_out = 0
        self._due = 0.0

    def lets_pass(self, now: float) -> bool:
        if self._written >= BURST and now < self._due:
            self._left_out += 1
            return False
        self._written += 1
        if self._written >= BURST:
            self._due = now + EVERY
        return True

    def left_out(self) -> int:
        """How many were left out since the last one that passed."""
        left_out, self._left_out = self._left_out, 0
        return left_out
