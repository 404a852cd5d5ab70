"""Private folders and files."""

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from ostler.errors import OstlerError, quoted

_CREATE = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_WRONLY
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


# -- private folders --------------------------------------------------------------------------------


def private_folder(path: str | Path, *, known: str | None = None) -> Path:
    """The folder, ours alone (0700 whatever the umask), created with its parents if it is missing.

    A wider one is tightened only if it is empty or holds the file `known`: nobody's home or /tmp is
    closed by a wrong setting. Raises `store` for a symlink, a foreign owner, or what is no folder.
    """
    path = path if isinstance(path, Path) else Path(path)
    with file_errors(path):
        if _is_private(path):
            return path
        if not os.path.lexists(path):
            _make(path)
            if _is_private(path):
                return path
        fd = os.open(path, _FOLDER | os.O_NOFOLLOW)
        try:
            _tighten(fd, path, known)
        finally:
            os.close(fd)
    return path


def _is_private(path: str | Path) -> bool:
    """Quick: a folder of ours that nobody else may enter."""
    try:
        found = os.lstat(path)
    except OSError:
        return False  # judged, or made, with the reason
    return stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077 and found.st_uid == os.geteuid()


def turn_folder(store_folder: str | Path, session: str, turn: str) -> Path:
    """The private folder of a turn's artifacts, created if it is missing."""
    return Path(turn_path(store_folder, session, turn))


def turn_path(store_folder: str | Path, session: str, turn: str) -> str:
    """As `turn_folder`; a Path would cost more than what is done here."""
    top = session_folder(store_folder, session)
    if not _is_private(top):
        private_folder(private_folder(top.parent) / session)
    path = f"{top}/{plain(turn)}"
    with file_errors(path), suppress(FileExistsError):  # then it is judged
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)  # a umask may have taken bits of our own
        return path
    return str(private_folder(path))


@lru_cache(maxsize=256)  # a path costs more than most of what is done with it
def session_folder(store_folder: str | Path, session: str) -> Path:
    """Where the turn folders of a session lie; it need not exist."""
    return Path(store_folder) / "sessions" / plain(session)


def plain(name: str) -> str:
    """The name, if it is one single component of a path; else `bad_request`."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise OstlerError("bad_request", f"{quoted(name)} is not a plain name")
    return name


def _make(path: str | Path) -> None:
    try:
        try:
            os.mkdir(path, 0o700)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            os.mkdir(path, 0o700)
    except FileExistsError:
        return  # another process was quicker: judged below like any other
    os.chmod(path, 0o700)  # a umask may have taken bits of our own


def _tighten(fd: int, path: Path, known: str | None) -> None:
    found = os.fstat(fd)
    if found.st_uid != os.geteuid():
        raise OstlerError("store", f"{path} belongs to another user", "Choose another state folder")
    if not found.st_mode & 0o077:
        return
    names = os.listdir(fd)
    if names and known not in names:
        raise OstlerError("store", f"{path} is open to other users", f"Run chmod 700 {path}, or choose another folder")
    os.fchmod(fd, 0o700)


# -- private files ----------------------------------------------------------------------------------


def write_private(path: str | Path, data: bytes | Iterable[bytes]) -> None:
    """Writes the file with mode 0600; what stood there before (a planted symlink too) is replaced atomically.

    What is large comes in parts, one after the other.
    """
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.urandom(6).hex()}")
    with file_errors(path):
        _write_new(draft, (data,) if isinstance(data, bytes) else data)
        try:
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise


def write_new_private(path: str | Path, data: bytes | Iterable[bytes]) -> None:
    """As `write_private`; where nothing stands there yet, as in a new folder of ours, without a draft."""
    with file_errors(path), suppress(FileExistsError):  # then it is replaced
        _write_new(path, (data,) if isinstance(data, bytes) else data)
        return
    write_private(path, data)


def open_private_append(path: str | Path) -> BinaryIO:
    """A file to add to, 0600, created if it is missing. Refuses symlinks, hard links and what is no file."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with file_errors(path):
        fd = os.open(path, flags, 0o600)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
                raise OstlerError("store", f"{path} is not a plain file of ours", "Remove it and try again")
            os.fchmod(fd, 0o600)
            return os.fdopen(fd, "ab")
        except BaseException:
            os.close(fd)
            raise


def open_exclusive(path: str | Path) -> int:
    """A descriptor to write a new file (0600), which must not exist yet: raises `exists`. The caller closes it."""
    with file_errors(path):
        try:
            fd = os.open(path, _CREATE | os.O_APPEND, 0o600)
        except FileExistsError:
            raise OstlerError("exists", f"{path} already exists") from None
        os.fchmod(fd, 0o600)
        return fd


def write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def create_exclusive(folder: str | Path, name: str, content: str | bytes) -> Path:
    """Creates a file (0600) that must not exist yet: raises `exists` for a file or symlink of that name."""
    data = content.encode() if isinstance(content, str) else content
    path = Path(folder) / plain(name)
    with file_errors(path):
        try:
            _write_new(path, (data,))
        except FileExistsError:
            raise OstlerError("exists", f"{path} already exists") from None
    return path


def _write_new(path: str | Path, parts: Iterable[bytes]) -> None:
    fd = os.open(path, _CREATE, 0o600)
    try:
        os.fchmod(fd, 0o600)
        for part in parts:
            write_all(fd, part)
    except BaseException:
        with suppress(FileNotFoundError):  # somebody was quicker
            os.unlink(path)
        raise
    finally:
        os.close(fd)


# -- errors -----------------------------------------------------------------------------------------


class file_errors:  # for `with file_errors(path):`; each of a turn's files is within one, and a generator takes longer
    """Turns an OSError on `path` into a `store` error that says what to do."""

    __slots__ = ("_path",)

    def __init__(self, path: str | Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise OstlerError("store", f"{self._path}: {error.strerror or error}", _hint(error.errno)) from error


def _hint(number: int | None) -> str:
    match number:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return "The disk is full: free some space and try again"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "Change its permissions, or set OSTLER_HOME to a folder that you can write"
        case errno.ELOOP | errno.ENOTDIR | errno.EEXIST:
            return "It is a symlink or not a folder: remove it or choose another state folder"
        case errno.EMFILE | errno.ENFILE:
            return "Too many files are open: raise the limit (ulimit -n)"
        case _:
            return ""
