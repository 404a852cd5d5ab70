"""Where ostler's log is written, and in which form.

A module logs through `logging.getLogger(__name__)` and decides nothing else. The command line and the server decide
here what is written and where. Each record goes through `LineFormatter`, which takes out secrets: there is no other
way into a log of ours.
"""

import io
import logging
import os
from logging.handlers import RotatingFileHandler
from typing import Any, TextIO

from msgspec import Struct

from ostler import __version__
from ostler.errors import OstlerError
from ostler.store.files import open_private_append
from ostler.store.redact import KnownSecrets, known_to_any
from ostler.terminal.safe import safe

LEVELS = ("debug", "info", "warning", "error")
FORMAT = "%(asctime)s.%(msecs)03d %(process)d %(levelname)-7s %(name)s: %(message)s"
LONGEST = 8_000  # characters of a record; a traceback has its cause at the end
FILE_BYTES = 4 << 20  # of a log file; then it becomes FILE.1, and FILE.1 becomes FILE.2
OLD_FILES = 2

_log = logging.getLogger(__name__)
_of_this_process: list[KnownSecrets] = []  # kept for as long as we log


class LogOptions(Struct, frozen=True):
    """What was asked for by `--log-level`, `--log-file` and `OSTLER_LOG`. An empty level: nothing was."""

    level: str = ""
    file: str = ""


def log_options(variable: str, level: str | None, file: str | None) -> LogOptions:
    """Flags win over the variable, which is `LEVEL` or `LEVEL:FILE`. Raises bad_request."""
    named, _, beside = variable.partition(":")
    if named and named.lower() not in LEVELS:
        message = f"OSTLER_LOG={variable} is not a valid log level"
        raise OstlerError("bad_request", message, f"Use one of {', '.join(LEVELS)}, or LEVEL:FILE")
    file = os.path.abspath(file or beside) if file or beside else ""
    return LogOptions(level or named.lower() or ("info" if file else ""), file)


def write_log(handler: logging.Handler, level: str, secrets: tuple[str, ...]) -> None:
    """From now on ostler's records of that level or above go to `handler`, without these or other known secrets."""
    _of_this_process.append(KnownSecrets(secrets))
    handler.setFormatter(LineFormatter())
    top = logging.getLogger("ostler")
    top.addHandler(handler)
    top.setLevel(level.upper())
    _log.info("ostler %s logs at level %s", __version__, level)


class LineFormatter(logging.Formatter):
    """One line for each record (a traceback follows it), bounded, without secrets and without control characters."""

    def __init__(self, format: str = FORMAT) -> None:
        super().__init__(format, "%Y-%m-%d %H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = record.message.replace("\n", "\\n")  # what a stranger named must not look like a record
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        text = safe(known_to_any().text(super().format(record)))
        if len(text) > LONGEST:
            text = f"{text[: LONGEST // 4]}\n…\n{text[-LONGEST * 3 // 4 :]}"
        left_out = getattr(record, "left_out", 0)
        return f"{text}\n({left_out} more like this were left out)" if left_out else text


class LogStream(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:
        """Silent: whoever read our stderr has gone, and the work goes on."""


class LogFile(RotatingFileHandler):
    """A private file (0600) that is rotated: FILE, FILE.1, FILE.2."""

    def __init__(self, path: str) -> None:
        super().__init__(path, maxBytes=FILE_BYTES, backupCount=OLD_FILES)

    def _open(self) -> Any:
        return io.TextIOWrapper(open_private_append(self.baseFilename), "utf-8", errors="backslashreplace")

    def handleError(self, record: logging.LogRecord) -> None:
        """Silent: a disk that is full takes no log either, and the work goes on."""
