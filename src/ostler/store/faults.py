"""What SQLite says when it fails, translated once into errors that say what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ostler.errors import OstlerError

_SAYS: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: ("cannot grow: the disk is full", "Free some space and try again"),
    sqlite3.SQLITE_BUSY: ("is locked by another process", "Try again, or end the process that holds it"),
    sqlite3.SQLITE_LOCKED: ("is locked by another process", "Try again, or end the process that holds it"),
    sqlite3.SQLITE_CORRUPT: ("is damaged", "Move it away: ostler then makes a new one"),
    sqlite3.SQLITE_NOTADB: ("is damaged or not a database", "Move it away: ostler then makes a new one"),
    sqlite3.SQLITE_READONLY: ("is not writable", "Change its permissions, or choose another state folder"),
    sqlite3.SQLITE_PERM: ("is not writable", "Change its permissions, or choose another state folder"),
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


@contextmanager
def edge(path: Path) -> Iterator[None]:
    """Around every call into SQLite and every decoding of what it returned."""
    try:
        yield
    except (sqlite3.Error, msgspec.MsgspecError, UnicodeError) as error:
        raise translate(error, path) from error
