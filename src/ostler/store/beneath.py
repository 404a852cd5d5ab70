"""Opens what an outsider named without leaving a folder. Imported where that is done: ctypes takes a while."""

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from ostler.errors import OstlerError, kind_of_os_error, quoted
from ostler.store.files import file_errors

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OPENAT2 = 437  # the same number on every Linux architecture
_NO_MAGICLINKS, _BENEATH = 0x02, 0x08
_TRIES = 100  # the kernel answers EAGAIN when a rename raced with the walk


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(root: str | Path, path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Opens a file (or folder) inside `root` and returns its descriptor; never leaves `root`, never blocks.

    Raises `denied` for what lies outside (by `..`, an absolute path, a symlink, a magic link) and for
    FIFOs, devices and sockets; `not_found` for what is missing; `too_many` or `store` when the machine has no
    descriptors or no room left. The caller closes the descriptor.
    """
    if "\0" in path or not path:
        raise OstlerError("bad_request", f"{quoted(path)} is not a path")
    with file_errors(Path(root)):
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


@contextmanager
def _refused(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise OstlerError("not_found", f"{path} does not exist") from None
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM):
            raise OstlerError("denied", f"{path} is outside the folder, or may not be opened") from error
        kind = kind_of_os_error(error, "bad_request")
        raise OstlerError(kind, f"{path} cannot be opened: {error.strerror}") from error
