"""Who serves a state folder: one server at a time, known by a locked file that its death unlocks."""

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from ostler import clock
from ostler.errors import OstlerError
from ostler.store.files import file_errors, private_folder

_NAME = "server.lock"
_PATIENCE = 0.5  # seconds: somebody who only looks holds the lock for a moment


class Serves(Struct, frozen=True, kw_only=True):
    """A server: the file keeps the last one, so that the next takes its port again."""

    pid: int
    port: int = 0
    url: str = ""  # "" while it starts
    fingerprint: str = ""  # of its certificate, where the url is https: whoever asks it from here knows it by this
    started_at: float = 0.0


class ServerLock:
    """Held as long as this object is not released, or its process lives."""

    def __init__(self, state_folder: str | Path) -> None:
        """Raises `bad_request` (exit code 2) if another server has the folder."""
        folder = private_folder(Path(state_folder).absolute(), known="ostler.db")
        self._path = folder / _NAME
        with file_errors(self._path):
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            os.fchmod(self._fd, 0o600)
        if not _soon(lambda: _locks(self._fd, fcntl.LOCK_EX)):
            os.close(self._fd)
            raise _taken(folder, who_serves(folder))
        self.last = _read(self._fd)  # who served before us

    def write(self, serves: Serves) -> None:
        data = msgspec.json.encode(serves)
        with file_errors(self._path):
            os.pwrite(self._fd, data, 0)
            os.ftruncate(self._fd, len(data))

    def release(self) -> None:
        os.close(self._fd)


def who_serves(state_folder: str | Path) -> Serves | None:
    """The server that runs on this folder now."""
    try:
        fd = os.open(Path(state_folder) / _NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        found: list[Serves] = []

        def found_or_free() -> bool:
            if _locks(fd, fcntl.LOCK_SH):
                return True  # nobody holds it
            serves = _read(fd)
            if serves is not None and os.path.exists(f"/proc/{serves.pid}"):
                found.append(serves)
            return bool(found)

        _soon(found_or_free)
        return found[0] if found else None
    finally:
        os.close(fd)


def check_free(state_folder: str | Path) -> None:
    """Raises what `ServerLock` would, if a server runs on this folder now."""
    if (serves := who_serves(state_folder)) is not None:
        raise _taken(Path(state_folder), serves)


def _taken(folder: Path, serves: Serves | None) -> OstlerError:
    who = f"process {serves.pid}" if serves else "another process"
    where = f" at {serves.url}" if serves and serves.url else ""
    return OstlerError(
        "bad_request",
        f"a server is already running on {folder}: {who}{where}",
        "Log in with `ostler link`, or stop it with `ostler down`",
    )


def _locks(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(fd: int) -> Serves | None:
    with suppress(msgspec.DecodeError, OSError):  # empty, or of another version: then nobody is known to serve
        return msgspec.json.decode(os.pread(fd, 4096, 0), type=Serves)
    return None


def _soon(condition: Callable[[], bool]) -> bool:
    deadline = clock.monotonic() + _PATIENCE
    while not condition():
        if clock.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
