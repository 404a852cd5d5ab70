"""Private folders and files, and opening what an outsider named without leaving a folder."""

import ctypes
import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

from ostler.errors import OstlerError

_CREATE = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_WRONLY
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


# -- private folders --------------------------------------------------------------------------------


def private_folder(path: str | Path, *, known: str | None = None) -> Path:
    """The folder, ours alone (0700 whatever the umask), created with its parents if it is missing.

    A wider one is tightened only if it is empty or holds the file `known`: nobody's home or /tmp is
    closed by a wrong setting. Raises `store` for a symlink, a foreign owner, or what is no folder.
    """
    path = Path(path)
    with typed(path):
        if not os.path.lexists(path):
            os.makedirs(path.parent, mode=0o700, exist_ok=True)
            _make(path)
        fd = os.open(path, _FOLDER | os.O_NOFOLLOW)
        try:
            _tighten(fd, path, known)
        finally:
            os.close(fd)
    return path


def turn_folder(store_folder: str | Path, session: str, turn: str) -> Path:
    """The private folder of a turn's artifacts, created if it is missing."""
    top = private_folder(Path(store_folder) / "sessions")
    return private_folder(private_folder(top / plain(session)) / plain(turn))


def session_folder(store_folder: str | Path, session: str) -> Path:
    """Where the turn folders of a session lie; it need not exist."""
    return Path(store_folder) / "sessions" / plain(session)


def plain(name: str) -> str:
    """The name, if it is one single component of a path; else `bad_request`."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise OstlerError("bad_request", f"{name!r} is not a plain name")
    return name


def free_bytes(path: str | Path) -> int:
    """What an ordinary user may still write where `path` is, or would be."""
    path = Path(path)
    while not path.exists() and path != path.parent:
        path = path.parent
    with typed(path):
        found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _make(path: Path) -> None:
    try:
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
    path = Path(path)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    with typed(path):
        try:
            _write_new(draft, (data,) if isinstance(data, bytes) else data)
            os.replace(draft, path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def open_private_append(path: str | Path) -> BinaryIO:
    """A file to add to, 0600, created if it is missing. Refuses symlinks, hard links and what is no file."""
    path = Path(path)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with typed(path):
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


def create_exclusive(folder: str | Path, name: str, content: str | bytes) -> Path:
    """Creates a file (0600) that must not exist yet: raises `exists` for a file or symlink of that name."""
    data = content.encode() if isinstance(content, str) else content
    path = Path(folder) / plain(name)
    with typed(path):
        try:
            _write_new(path, (data,))
        except FileExistsError:
            raise OstlerError("exists", f"{path} exists already") from None
    return path


def _write_new(path: Path, parts: Iterable[bytes]) -> None:
    fd = os.open(path, _CREATE, 0o600)
    try:
        os.fchmod(fd, 0o600)
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[os.write(fd, view) :]
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


# -- paths from outside -----------------------------------------------------------------------------

_OPENAT2 = 437  # the same number on every Linux architecture
_NO_MAGICLINKS, _BENEATH = 0x02, 0x08
_TRIES = 100  # the kernel answers EAGAIN when a rename raced with the walk


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(root: str | Path, path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Opens a file (or folder) inside `root` and returns its descriptor; never leaves `root`, never blocks.

    Raises `denied` for what lies outside (by `..`, an absolute path, a symlink, a magic link) and for
    FIFOs, devices and sockets; `not_found` for what is missing. The caller closes the descriptor.
    """
    if "\0" in path or not path:
        raise OstlerError("bad_request", f"{path!r} is not a path")
    with typed(Path(root)):
        base = os.open(root, _FOLDER)
    try:
        with _refused(path):
            return _regular(_open(base, path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode), path)
    finally:
        os.close(base)


def _open(base: int, path: str, flags: int, mode: int) -> int:
    return _openat2(base, path, flags, mode) if _has_openat2() else _walk(base, path, flags, mode)


def _openat2(base: int, path: str, flags: int, mode: int) -> int:
    how = _How(flags, mode if flags & os.O_CREAT else 0, _BENEATH | _NO_MAGICLINKS)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    call, at, name = ctypes.c_long(_OPENAT2), ctypes.c_long(base), os.fsencode(path)
    for _ in range(_TRIES):
        fd: int = _libc().syscall(call, at, name, ctypes.byref(how), size)
        if fd >= 0:
            return fd
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _walk(base: int, path: str, flags: int, mode: int) -> int:
    """Stricter than openat2, for systems without it: no symlink and no `..` at all."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    *above, last = parts or ["."]
    at = os.dup(base)
    try:
        for part in above:
            deeper = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = deeper
        return os.open(last, flags | os.O_NOFOLLOW, mode, dir_fd=at)
    finally:
        os.close(at)


def _regular(fd: int, path: str) -> int:
    kind = os.fstat(fd).st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
        return fd
    os.close(fd)
    raise OstlerError("denied", f"{path} is neither a file nor a folder")


_found_openat2: bool | None = None


def _has_openat2() -> bool:
    """Asked once; a sandbox may refuse the call (EPERM, ENOSYS) where the kernel has it."""
    global _found_openat2
    if _found_openat2 is None and not sys.platform.startswith("linux"):
        _found_openat2 = False  # the number would mean another call
    if _found_openat2 is None:
        base = os.open("/", _FOLDER)
        try:
            os.close(_openat2(base, ".", _FOLDER, 0))
            _found_openat2 = True
        except (OSError, AttributeError):
            _found_openat2 = False
        finally:
            os.close(base)
    return _found_openat2


# -- errors -----------------------------------------------------------------------------------------


@contextmanager
def _refused(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise OstlerError("not_found", f"{path} does not exist") from None
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ELOOP, errno.EAGAIN, errno.ENXIO, errno.EACCES, errno.EPERM):
            raise OstlerError("denied", f"{path} is outside of the folder, or may not be opened") from error
        raise OstlerError("bad_request", f"{path} cannot be opened: {error.strerror}") from error


@contextmanager
def typed(path: Path) -> Iterator[None]:
    """Turns an OSError on `path` into a `store` error that says what to do."""
    try:
        yield
    except OSError as error:
        raise OstlerError("store", f"{path}: {error.strerror or error}", _hint(error.errno)) from error


def _hint(number: int | None) -> str:
    match number:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return "The disk is full: free some space and try again"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "It is not writable: change its permissions or choose another state folder"
        case errno.ELOOP | errno.ENOTDIR | errno.EEXIST:
            return "It is a symlink or no folder: remove it or choose another state folder"
        case errno.EMFILE | errno.ENFILE:
            return "Too many files are open: raise the limit (ulimit -n)"
        case _:
            return ""
