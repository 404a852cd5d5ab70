"""`ostler …`, the warden, the screen process and the scripted agent, as real processes that start at once.

An interpreter that imports ostler takes a third of a second, and the tests start hundreds. Here one process has
imported everything, and forks for each start (`forker.py`). What it forks is a process like any other: a child of who
started it, with its own pid, folder, environment, descriptors and session, also for whoever looks at /proc. How each of
them starts from nothing is tested in tests/cli/test_start.py, tests/process, tests/terminal/screen and tests/testing.
"""

import asyncio
import atexit
import functools
import marshal
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest import mock

from forker import ROOM, exactly, known_answers
from forker import __file__ as FORKER


def start_ostler(args: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """`subprocess.Popen(["ostler", *args], …)`, forked where that makes no difference."""
    return _popen(options, args)([sys.executable, "-m", "ostler", *args], **options)


def run_ostler(args: Sequence[str], **options: Any) -> "subprocess.CompletedProcess[str]":
    """`subprocess.run(["ostler", *args], capture_output=True, text=True, …)`, forked likewise."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start_ostler(args, **pipes, text=True, **options) as process:
        out, err = process.communicate()
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def start_python(code: str, *args: str, **options: Any) -> "subprocess.Popen[Any]":
    """`subprocess.Popen(["python", "-c", code, *args], …)` for code that imports ostler, forked likewise."""
    return _popen(options)([sys.executable, "-c", code, *args], **options)


async def start_ostler_here(args: Sequence[str], **options: Any) -> asyncio.subprocess.Process:
    """The same for the running event loop: `asyncio.create_subprocess_exec("ostler", *args, …)`."""
    forking = SimpleNamespace(Popen=_popen(options, args), PIPE=subprocess.PIPE)
    with mock.patch.object(
        asyncio.unix_events, "subprocess", forking
    ):  # it makes the process before it awaits anything
        return await asyncio.create_subprocess_exec(sys.executable, "-m", "ostler", *args, **options)


def _popen(options: dict[str, Any], command: Sequence[str] = ()) -> Any:
    if any(name.startswith("PYTHON") for name in options.get("env") or os.environ):
        return subprocess.Popen  # an interpreter reads them before all else
    return Forked if command[:1] and command[0] not in ("pipeline", "mcp") else ForkedOfEverything


@contextmanager
def quick_starts() -> Iterator[None]:
    """Wardens and screen processes of this process are forked, and so are the scripted agents of those wardens."""
    from ostler.process import link as warden_link
    from ostler.terminal.screen import link as screen_link
    from ostler.work import probe

    forking = SimpleNamespace(Popen=ForkedPart, DEVNULL=subprocess.DEVNULL)
    with (
        mock.patch.object(warden_link, "subprocess", forking),
        mock.patch.object(screen_link, "subprocess", forking),
        mock.patch.object(probe, "run", known_answers(probe.run)),
    ):
        yield


class Forked(subprocess.Popen[Any]):
    """`python -m ostler ARGS`, but a forker makes the process."""

    kind: ClassVar[str] = "ostler"

    def _execute_child(  # type: ignore[override]
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any,
        startupinfo: Any, creationflags: Any, shell: Any,
        p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int,
        restore_signals: Any, gid: Any, gids: Any, uid: Any, umask: Any, start_new_session: bool, process_group: Any,
    ) -> None:  # fmt: skip
        assert preexec_fn is None, "a forker runs no functions of the test"
        streams = [fd if fd != -1 else number for number, fd in enumerate((p2cread, c2pwrite, errwrite))]
        about = (os.fspath(cwd or os.getcwd()), dict(os.environ if env is None else env), start_new_session)
        request = marshal.dumps((args, *about, [0, 1, 2, *pass_fds]))
        self.pid = forker(self.kind).fork(request, [*streams, *pass_fds])
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


class ForkedOfEverything(Forked):
    """The same for what may load any module of ostler."""

    kind: ClassVar[str] = "everything"


class ForkedPart(Forked):
    """`python -c CODE ARGS` of a warden or a screen process."""

    kind: ClassVar[str] = "parts"


class Forker:
    """The process that has imported what is started, seen from the test."""

    def __init__(self, kind: str) -> None:
        self._one_at_a_time = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, FORKER, kind, str(theirs.fileno()), ROOM],
                env={**os.environ, "OSTLER_TEST_ROOM": ROOM},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def fork(self, request: bytes, descriptors: list[int]) -> int:
        with self._one_at_a_time:
            socket.send_fds(self._socket, [struct.pack("I", len(request))], descriptors)
            self._socket.sendall(request)
            return int(struct.unpack("i", exactly(self._socket, 4))[0])

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def forker(kind: str) -> Forker:
    forker = Forker(kind)
    atexit.register(forker.close)
    return forker


# -- for a shell ----------------------------------------------------------------------------------------

COMMAND = """#!{python} -IS
import marshal, os, socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({path!r})
    line = [sys.executable, "-m", "ostler", *sys.argv[1:]]
    request = marshal.dumps((line, os.getcwd(), dict(os.environ), False, [0, 1, 2]))
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
        pid = forker("ostler").fork(exactly(asked, struct.unpack("I", head)[0]), list(descriptors))
        for each in descriptors:
            os.close(each)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(OSError):  # who asked may have been killed
            asked.sendall(bytes([code if code >= 0 else 128 - code]))
