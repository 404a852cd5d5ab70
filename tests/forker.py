"""The process that forks for `prefork.py`: it has imported what is to be started.

A warden that is forked has imported the scripted agent already, and forks it instead of executing it. An `ostler` that
is forked forks its warden and its screen processes itself.
"""

import atexit
import ctypes
import fcntl
import functools
import gc
import importlib
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from ostler.testing import agent

_CLONE_PARENT = 0x8000  # the new process is a child of our parent: the test waits for it as for any other
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
ROOM = " " * 16_000  # in the command line and the environment of a forker, for those of the agents
AGENT = (sys.executable, "-IS", agent.__file__)


def main(kind: str, fd: int) -> None:
    import_parts()
    if kind != "parts":
        import_ostler(everything=kind == "everything")
    os.posix_spawn = functools.partial(spawn, os.posix_spawn)
    gc.freeze()  # a collection in what is forked leaves the pages that it shares alone
    with socket.socket(fileno=fd) as asked:
        serve(asked)


def import_parts() -> None:
    import ostler.process

    sys.path.append(os.path.dirname(ostler.process.__file__))
    importlib.import_module("warden")  # which imports nothing of ostler, and is not imported as a part of it
    importlib.import_module("ostler.terminal.screen.process")
    for name in ("acp_agent", "cassettes", "mischief", "play_turn", "shapes", "show", "talk", "tui", "tui_hooks"):
        importlib.import_module(f"ostler.testing.{name}")
    for name in ("hashlib", "resource", "subprocess", "tomllib", "unicodedata", "urllib.request"):
        importlib.import_module(name)


def import_ostler(everything: bool) -> None:
    """Without `everything` it leaves out what most commands do not load: three times the modules, and each fork has to
    copy twice the pages.
    """
    import pkgutil

    import ostler

    left_out = ("ostler.testing", "ostler.__main__", "ostler.process.warden")
    large = () if everything else ("ostler.pipelines", "ostler.mcp")  # which load DBOS and pydantic
    for found in pkgutil.walk_packages(ostler.__path__, "ostler."):
        if not found.name.startswith((*left_out, *large)):
            importlib.import_module(found.name)
    for name in ("uvicorn.protocols.http.h11_impl", "rich.live", "rich.markdown", "jsonschema"):
        importlib.import_module(name)
    start_parts_here()


def serve(asked: socket.socket) -> None:
    clone = functools.partial(ctypes.CDLL(None, use_errno=True).syscall, _SYS_CLONE[platform.machine()])
    while True:
        head, descriptors, _, _ = socket.recv_fds(asked, 4, 8)
        if not head:
            return
        request = exactly(asked, struct.unpack("I", head)[0])
        pid = clone(_CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            with ending():
                ctypes.pythonapi.PyOS_AfterFork_Child()
                begin(descriptors, *marshal.loads(request))
        for each in descriptors:
            os.close(each)
        asked.sendall(struct.pack("i", pid))


def exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            raise EOFError("the process that forks has ended")
        data += more
    return data


# -- in what is forked ----------------------------------------------------------------------------------


@contextmanager
def ending() -> Iterator[None]:
    """Whatever happens, what was forked does not go on as a copy of who forked it."""
    try:
        yield
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def begin(
    descriptors: Sequence[int],
    argv: Sequence[str],
    folder: str,
    environ: Mapping[str, str],
    new_session: bool,
    numbers: Sequence[int],
) -> None:
    """Becomes the process that this command line starts, and ends with it."""
    place(descriptors, numbers)
    if new_session:
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C and changes of size reach it
    os.chdir(folder)
    os._exit(exit_code(argv, environ))


def place(descriptors: Sequence[int], numbers: Sequence[int]) -> None:
    """Gives the descriptors these numbers, and closes all others."""
    sources = list(descriptors)
    for at, number in enumerate(numbers):
        if number in sources[at + 1 :]:
            sources[sources.index(number, at + 1)] = os.dup(number)  # a later one stands there
        if sources[at] != number:
            os.dup2(sources[at], number)
    free = 3
    for number in sorted(each for each in numbers if each >= 3):
        if free < number:
            os.closerange(free, number)
        free = number + 1
    os.closerange(free, 1 << 16)


def exit_code(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Of an interpreter that runs this command line."""
    os.environ.clear()  # which lay where `show` writes
    show(argv, environ)
    os.environ.update(environ)
    time.tzset()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False, buffering=1 if os.isatty(1) else -1)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    code = 1
    try:
        code = _left(argv)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    return _closed(code)


def show(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """Puts a command line and an environment where /proc shows them: over those that the forker was started with."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    first, end, next_first, next_end = map(int, fields[45:49])
    words, variables = "\0".join([*argv, ""]), "".join(f"{name}={value}\0" for name, value in environ.items())
    for at, room, text in ((first, end - first, words), (next_first, next_end - next_first, variables)):
        ctypes.memmove(at, os.fsencode(text)[: room - 1].ljust(room, b"\0"), room)
    ctypes.CDLL(None).prctl(15, os.fsencode(os.path.basename(argv[0])), 0, 0, 0)  # PR_SET_NAME


def _left(argv: Sequence[str]) -> int:
    try:
        _run(argv)
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        print(left.code, file=sys.stderr)
        return 1
    return 0


def _run(argv: Sequence[str]) -> None:
    if "-c" in argv[:4]:
        _, code, *args = argv[argv.index("-c") :]
        sys.argv = ["-c", *args]
        exec(code, {"__name__": "__main__"})
        return
    if "-m" in argv[:4]:
        sys.argv = ["ostler", *argv[argv.index("ostler") + 1 :]]
        importlib.import_module("ostler.cli").main()
    else:
        sys.argv = list(argv[2:])
        agent.main()


def _closed(code: int) -> int:
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        return code or 120  # as the interpreter says it
    return code


# -- parts of an ostler ---------------------------------------------------------------------------------


def start_parts_here() -> None:
    """For an `ostler` that was forked: it forks its warden and its screen processes itself."""
    from ostler.process import link as warden_link
    from ostler.terminal.screen import link as screen_link
    from ostler.work import probe

    forking: Any = SimpleNamespace(Popen=ForkedHere, DEVNULL=subprocess.DEVNULL)
    warden_link.subprocess = screen_link.subprocess = forking
    probe.run = known_answers(probe.run)


class ForkedHere(subprocess.Popen[Any]):
    """`python -c CODE ARGS` as a fork of this process."""

    def _execute_child(  # type: ignore[override]
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any,
        startupinfo: Any, creationflags: Any, shell: Any,
        p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int,
        restore_signals: Any, gid: Any, gids: Any, uid: Any, umask: Any, start_new_session: bool, process_group: Any,
    ) -> None:  # fmt: skip
        streams = [fd if fd != -1 else number for number, fd in enumerate((p2cread, c2pwrite, errwrite))]
        environ = dict(os.environ if env is None else env)
        self.pid = os.fork()
        if not self.pid:
            with ending():
                atexit._clear()
                reset_signals()
                numbers = [0, 1, 2, *pass_fds]
                begin([*streams, *pass_fds], args, cwd or os.getcwd(), environ, start_new_session, numbers)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def known_answers(run: Any) -> Any:
    """`probe.run`, which need not ask the scripted agent for its version and help."""

    async def known(argv: Sequence[str], *rest: Any, **options: Any) -> Any:
        said = {"--version": f"ostler-script-agent {agent.VERSION}\n", "--help": agent.HELP}
        if tuple(argv[:-1]) == AGENT and argv[-1] in said:
            return 0, said[argv[-1]]
        return await run(argv, *rest, **options)

    return known


# -- the scripted agent of a warden ---------------------------------------------------------------------


def spawn(spawned: Any, program: Any, argv: Any, env: Any, **how: Any) -> int:
    """`os.posix_spawn`: forks for the scripted agent."""
    line = list(map(os.fsdecode, argv))
    long = max(sum(map(len, argv)), sum(map(len, (*env, *env.values())))) > len(ROOM) // 2
    if tuple(line[:3]) != AGENT or long or any(name.startswith(b"PYTHON") for name in env):
        return int(spawned(program, argv, env, **how))
    if pid := os.fork():
        return pid
    with ending():
        os.setsid()
        reset_signals()
        for action, *values in how["file_actions"]:
            if action == os.POSIX_SPAWN_OPEN:
                number, *opening = values
                os.dup2(os.open(*opening), number)
            else:
                os.dup2(*values)
        os.closerange(3, 1 << 16)
        os._exit(exit_code(line, {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}))


def reset_signals() -> None:
    """As they are when an interpreter has begun."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
