"""Walls: the kernel keeps a child, and all that it starts, to some paths. By Landlock and a small seccomp filter.

No privileges and no dependency. A wall is per thread and a spawned process inherits it, so the warden confines a
thread that lives for one spawn and stays free itself. The warden imports this file when it builds its first wall; like
the warden it imports next to nothing, and nothing of ostler. It fails closed: an error means that nothing starts.
"""

import _thread
import ctypes
import errno
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    # Paths that may be changed, files that may be edited, paths that may be read (None: all), whether unix sockets are.
    WallRules = tuple[Sequence[bytes], Sequence[bytes], Sequence[bytes] | None, bool]

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # system calls, the same on every architecture
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE = 1 << 4 | 1 << 5  # folders, files
MAKE = 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12  # folders, files, sockets, fifos, links
DEVICES = 1 << 6 | 1 << 11  # granted nowhere: as root, a device file in the folder is the whole disk
REFER, TRUNCATE, IOCTL_DEV, RESOLVE_UNIX = 1 << 13, 1 << 14, 1 << 15, 1 << 16
EDIT = WRITE_FILE | TRUNCATE
CHANGE = EDIT | REFER | REMOVE | MAKE
READ = EXECUTE | READ_FILE | READ_DIR
HANDLED = CHANGE | DEVICES | IOCTL_DEV
ON_FILES = EDIT | IOCTL_DEV | EXECUTE | READ_FILE  # a rule on a file may hold only what files know
SCOPED = 3  # abstract sockets and signals stay within the wall, from ABI 6 on
DEVICE_FILES = tuple(
    b"/dev/" + name for name in (b"null", b"zero", b"full", b"random", b"urandom", b"tty", b"ptmx", b"pts")
)
LEAST_ABI = 3  # before, files outside can be truncated
SOCKET = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}  # AUDIT_ARCH, number of socket(2)
NO_NEW_PRIVS, SET_SECCOMP, FILTER = 38, 22, 2  # of prctl

libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """What the kernel's Landlock can do; 0 where there is none, or where it is switched off."""
    try:
        return _call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError:
        return 0


def start_behind(rules: "WallRules", start: "Callable[[], int]", version: int | None = None) -> int:
    """What `start`, a posix_spawn, returns in a thread that the wall confines. Raises OSError, and then nothing runs.

    `version` is that of an older kernel, for tests.
    """
    writable, editable, readable, sockets = rules
    version = abi() if version is None else min(version, abi())
    fd = _ruleset(writable, editable, readable, version)
    box: list[Any] = []
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            _enter(fd, sockets or version >= 9)
            box.append(start())
        except BaseException as error:
            box.append(error)
        finally:
            done.release()

    try:
        _thread.start_new_thread(work, ())
        done.acquire()
    except RuntimeError as error:  # no thread can be started
        raise OSError(errno.EAGAIN, "no thread for the wall") from error
    finally:
        os.close(fd)
    if isinstance(box[0], BaseException):
        raise box[0]
    return int(box[0])


def _ruleset(
    writable: "Sequence[bytes]", editable: "Sequence[bytes]", readable: "Sequence[bytes] | None", version: int
) -> int:
    """A descriptor of the rules; nothing is confined yet."""
    if version < LEAST_ABI:
        raise OSError(errno.EOPNOTSUPP, "this kernel cannot build walls")
    handled = HANDLED & ~(IOCTL_DEV if version < 5 else 0) | (RESOLVE_UNIX if version >= 9 else 0)
    handled |= READ if readable is not None else 0
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    attributes = struct.pack("QQQ", handled, 0, SCOPED if version >= 6 else 0)[:size]
    fd = _call(CREATE_RULESET, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    granted = ((writable, CHANGE | READ), (editable, EDIT | READ), (DEVICE_FILES, EDIT | IOCTL_DEV | READ))
    try:
        for paths, rights in (*granted, (readable or (), READ)):
            for path in paths:
                _allow(fd, path, rights & handled)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _allow(fd: int, path: bytes, rights: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)  # follows links: the rule is on what is there now
    except FileNotFoundError:
        return  # what is not there cannot be written
    try:
        if os.stat(target).st_mode & 0o170000 != 0o040000:  # not a folder
            rights &= ON_FILES
        if rights:
            rule = struct.pack("=Qi", rights, target)
            _call(ADD_RULE, ctypes.c_int(fd), ctypes.c_int(1), rule, ctypes.c_uint32(0))
    finally:
        os.close(target)


def _enter(fd: int, sockets: bool) -> None:
    """Confines the calling thread for good, and all that it starts."""
    if libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    _call(RESTRICT_SELF, ctypes.c_int(fd), ctypes.c_uint32(0))
    if not sockets:
        _refuse_unix_sockets()


def _refuse_unix_sockets() -> None:
    """Before ABI 9 Landlock does not hold back connect() to tmux, D-Bus, docker or ostler. socketpair() still works."""
    machine = os.uname().machine
    if machine not in SOCKET:
        raise OSError(errno.EOPNOTSUPP, f"no filter for {machine}")
    arch, number = SOCKET[machine]
    lines = (
        *((0x20, 0, 0, 4), (0x15, 1, 0, arch), (0x06, 0, 0, 0x50001)),  # calls of another architecture: EPERM
        *((0x20, 0, 0, 0), (0x35, 0, 1, 0x40000000), (0x06, 0, 0, 0x50026)),  # x32: ENOSYS
        *((0x15, 0, 3, number), (0x20, 0, 0, 16), (0x15, 0, 3, 1), (0x06, 0, 0, 0x5000D)),  # AF_UNIX: EACCES
        *((0x15, 0, 1, 425), (0x06, 0, 0, 0x50001)),  # io_uring_setup, which makes sockets past a filter: EPERM
        (0x06, 0, 0, 0x7FFF0000),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code))
    if libc.prctl(SET_SECCOMP, FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def _call(number: int, *arguments: "Any") -> int:
    value: int = libc.syscall(number, *arguments)
    if value < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return value
