"""What SQLite says when it fails, translated once into errors that say what to do."""

import sqlite3
from pathlib import Path

import msgspec

from ostler.errors import OstlerError

_ELSEWHERE = "Change its permissions, or set OSTLER_HOME to a folder that you can write"
_SAYS: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: ("cannot grow: the disk is full", "Free some space and try again"),
    sqlite3.SQLITE_BUSY: ("is locked by another process", "Try again, or end the process that holds it"),
    sqlite3.SQLITE_LOCKED: ("is locked by another process", "Try again, or end the process that holds it"),
    sqlite3.SQLITE_CORRUPT: ("is damaged", "Move it away: ostler then makes a new one"),
    sqlite3.SQLITE_NOTADB: ("is damaged or not a database", "Move it away: ostler then makes a new one"),
    sqlite3.SQLITE_READONLY: ("is not writable", _ELSEWHERE),
    sqlite3.SQLITE_PERM: ("is not writable", _ELSEWHERE),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "Look at the permissions of the state folder"),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", "The disk may be full, over its quota, or failing"),
    sqlite3.SQLITE_TOOBIG: ("cannot hold a value this large", ""),
    sqlite3.SQLITE_NOMEM: ("needs more memory than there is", ""),
}


def translate(error: Exception, path: Path) -> OstlerError:
    """The `store` error for what SQLite, the operating system or a decoder raised."""
    if isinstance(error, OstlerError):
        return error
    if isinstance(error, UnicodeEncodeError):
        return OstlerError("bad_request", f"{error.object!r:.200} is not valid Unicode", "Rename it, or leave it out")
    code = getattr(error, "sqlite_errorcode", None)
    says, hint = _SAYS.get((code or 0) & 0xFF, (f"failed: {error}", ""))
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        says, hint = "is closed", ""
    return OstlerError("store", f"{path} {says}", hint)


class sqlite_errors:  # for `with sqlite_errors(path):`; a generator would take longer than most of what it guards
    """Around every call into SQLite and every decoding of what it returned."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (sqlite3.Error, msgspec.MsgspecError, UnicodeError)):
            raise translate(error, self._path) from error
