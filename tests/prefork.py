"""`ostler …` as a real process that starts at once.

An interpreter that imports ostler takes a third of a second, and the tests start hundreds. Here one process has
imported everything, and forks for each start. What it forks is a process like any other: a child of the test, with
its own pid, folder, environment, descriptors and session. Only `/proc/PID/cmdline` and `environ` are those of the
process that forked it. How ostler starts from nothing is tested in tests/cli/test_start.py.
"""

import asyncio
import atexit
import ctypes
import fcntl
import functools
import gc
import marshal
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

_CLONE_PARENT = 0x8000  # the new process is a child of our parent: the test waits for it as for any other
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}


def start_ostler(args: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """`subprocess.Popen(["ostler", *args], …)`, forked where that makes no difference."""
    return _popen(options)([sys.executable, "-m", "ostler", *args], **options)


async def start_ostler_here(args: Sequence[str], **options: Any) -> asyncio.subprocess.Process:
    """The same for the running event loop: `asyncio.create_subprocess_exec("ostler", *args, …)`."""
    forking = SimpleNamespace(Popen=_popen(options), PIPE=subprocess.PIPE)
    with mock.patch.object(
        asyncio.unix_events, "subprocess", forking
    ):  # it makes the process before it awaits anything
        return await asyncio.create_subprocess_exec(sys.executable, "-m", "ostler", *args, **options)


def _popen(options: dict[str, Any]) -> Any:
    by_interpreter = any(name.startswith("PYTHON") for name in options.get("env") or os.environ)
    return subprocess.Popen if by_interpreter else Forked  # an interpreter reads them before all else


class Forked(subprocess.Popen[Any]):
    """A process that `forker` makes instead of one that is executed."""

    def _execute_child(  # type: ignore[override]
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any,
        startupinfo: Any, creationflags: Any, shell: Any,
        p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int,
        restore_signals: Any, gid: Any, gids: Any, uid: Any, umask: Any, start_new_session: bool, process_group: Any,
    ) -> None:  # fmt: skip
        assert not pass_fds and preexec_fn is None, "nothing but the three streams is handed over"
        streams = [fd if fd != -1 else number for number, fd in enumerate((p2cread, c2pwrite, errwrite))]
        request = marshal.dumps((args[3:], os.fspath(cwd or os.getcwd()), dict(env or os.environ), start_new_session))
        self.pid = forker().fork(request, streams)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


class Forker:
    """The process that has imported ostler, seen from the test."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )

    def fork(self, request: bytes, descriptors: list[int]) -> int:
        with self._one_at_a_time:
            socket.send_fds(self._socket, [struct.pack("I", len(request))], descriptors)
            self._socket.sendall(request)
            return int(struct.unpack("i", _exactly(self._socket, 4))[0])

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def forker() -> Forker:
    forker = Forker()
    atexit.register(forker.close)
    return forker


# -- for a shell ----------------------------------------------------------------------------------------

COMMAND = """#!{python} -IS
import marshal, os, socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({path!r})
    request = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ), False))
    socket.send_fds(asked, [len(request).to_bytes(4, sys.byteorder)], [0, 1, 2])
    asked.sendall(request)
    os._exit(asked.recv(1)[0])
"""


@contextmanager
def ostler_on_path(folder: Path) -> Iterator[None]:
    """An `ostler` in a folder, for a shell that has the folder in PATH. A signal would not reach what it stands for."""
    folder.mkdir()
    command, path = folder / "ostler", str(folder / "socket")
    command.write_text(COMMAND.format(python=sys.executable, path=path))
    command.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        accepting = threading.Thread(target=_accept, args=[listening])
        accepting.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join()


def _accept(listening: socket.socket) -> None:
    answering = []
    while True:
        try:
            asked, _ = listening.accept()
        except OSError:
            break
        answering.append(threading.Thread(target=_answer, args=[asked]))
        answering[-1].start()
    for each in answering:
        each.join()


def _answer(asked: socket.socket) -> None:
    """Forks what is asked for, and answers with its exit code when it has ended."""
    with asked:
        head, descriptors, _, _ = socket.recv_fds(asked, 4, 3)
        pid = forker().fork(_exactly(asked, struct.unpack("I", head)[0]), list(descriptors))
        for each in descriptors:
            os.close(each)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(OSError):  # who asked may have been killed
            asked.sendall(bytes([code if code >= 0 else 128 - code]))


# -- the process that forks -----------------------------------------------------------------------------


def serve(fd: int) -> None:
    import_all()
    gc.freeze()  # a collection in what is forked leaves the pages that it shares alone
    clone = functools.partial(ctypes.CDLL(None, use_errno=True).syscall, _SYS_CLONE[platform.machine()])
    with socket.socket(fileno=fd) as asked:
        while True:
            head, descriptors, _, _ = socket.recv_fds(asked, 4, 3)
            if not head:
                return
            request = _exactly(asked, struct.unpack("I", head)[0])
            pid = clone(_CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
            if pid == 0:
                ctypes.pythonapi.PyOS_AfterFork_Child()
                asked.close()
                os._exit(run(marshal.loads(request), descriptors))
            for each in descriptors:
                os.close(each)
            asked.sendall(struct.pack("i", pid))


def import_all() -> None:
    import importlib
    import pkgutil

    import ostler

    for found in pkgutil.walk_packages(ostler.__path__, "ostler."):
        if not found.name.startswith(("ostler.testing", "ostler.__main__", "ostler.process.warden")):
            importlib.import_module(found.name)
    for name in ("uvicorn.protocols.http.h11_impl", "rich.live", "rich.markdown", "jsonschema"):
        importlib.import_module(name)


def run(request: tuple[list[str], str, dict[str, str], bool], descriptors: list[int]) -> int:
    """What the interpreter does around `python -m ostler ARGS`; the exit code."""
    args, folder, environ, new_session = request
    for number, each in enumerate(descriptors):
        os.dup2(each, number)
    os.closerange(3, max(descriptors) + 1)
    if new_session:
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C and changes of size reach it
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False, buffering=1 if os.isatty(1) else -1)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    sys.argv = ["ostler", *args]
    try:
        code = _main()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        code = 1
    return _closed(code)


def _main() -> int:
    from ostler.cli import main

    try:
        main()
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        print(left.code, file=sys.stderr)
        return 1
    return 0


def _closed(code: int) -> int:
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        return code or 120  # as the interpreter says it
    return code


def _exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            raise EOFError("the process that forks has ended")
        data += more
    return data


if __name__ == "__main__":
    serve(int(sys.argv[1]))
