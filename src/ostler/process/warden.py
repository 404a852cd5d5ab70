"""The warden: one small single-threaded process that spawns and ends all others for its ostler.

It runs under `python -I -S`, imports next to nothing and nothing of ostler, carries no data and never
waits but in its poll loop. As a subreaper it inherits every daemon its children leave behind, so
"everything it started" is its subtree. Its life is that of the control socket: when that closes, it
ends all with TERM, 700 ms, KILL, removes the files it was told of, and goes.

Packets are marshalled tuples over a SEQPACKET socket (one over 60 KB travels in a memfd):
  spawn  id argv cwd env tty wall remove   + the child's ends: (stdin, stdout, stderr) or (terminal,)
  signal id number group              to the leader, or to its process group
  forget id                           its files need no removal any more
  memfd  id                           + a memfd with the packet, then the fds of that packet
and back:
  spawned id pid  |  failed id stage errno  |  exit id code (negative: the signal)
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` and `socket` import enum: 10 ms of start
import _socket
import errno
import marshal
import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TERM_GRACE = 0.7
KILL_LIMIT = 5.0  # something in an uninterruptible sleep is left to init
PACKET = 1 << 16
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)
DEFAULTS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})

Identity = tuple[int, int]
Stat = tuple[int, bytes, int, int]  # parent, state, session, start time
Table = dict[int, Stat]


def main(control: int, parent: int, soft_limit: int, group: str) -> None:
    """Lives until the control socket closes or `parent` dies; an error of our own ends the children too."""
    lower_fd_limit(soft_limit)
    if group:
        join(group)
    become_subreaper()
    warden = WardenProcess(control, parent)
    try:
        warden.run()
    finally:
        warden.end()
    os._exit(0)  # an orderly exit of the interpreter would only take time


class WardenProcess:
    """The children that live, and the socket to the ostler that asked for them."""

    def __init__(self, control: int, parent: int) -> None:
        os.set_inheritable(control, False)
        os.chdir("/")
        self.sock = _socket.socket(fileno=control)
        self.pids: dict[int, int] = {}  # id → pid of each leader that lives
        self.ids: dict[int, int] = {}
        self.files: dict[int, list[tuple[bytes, Identity | None]]] = {}
        self.unsent: list[bytes] = []
        self.wake = wake_on_child()
        self.parent = watch(parent)
        self.poll = select.poll()
        for fd in (control, self.wake, self.parent):
            if fd >= 0:
                self.poll.register(fd, select.POLLIN)

    def run(self) -> None:
        """The loop: requests in, exits out, until the ostler is gone."""
        while True:
            self.flush()
            ready = dict(self.poll.poll())
            if self.wake in ready:
                drain(self.wake)
                self.reap()
            if self.parent in ready:
                return
            if ready.get(self.sock.fileno(), 0) & ~select.POLLOUT and not self.request():
                return

    def request(self) -> bool:
        """Obeys one packet; False at the end of the control socket."""
        try:
            data, ancillary, _, _ = self.sock.recvmsg(
                PACKET, _socket.CMSG_SPACE(4 * 4), _socket.MSG_CMSG_CLOEXEC | _socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        fds = [fd for _, _, raw in ancillary for fd in memoryview(raw[: len(raw) // 4 * 4]).cast("i")]
        try:
            if data:
                self.obey(marshal.loads(data), fds)
        finally:
            for fd in fds:
                os.close(fd)
        return bool(data)

    def obey(self, packet: "tuple[Any, ...]", fds: list[int]) -> None:
        match packet:
            case ("memfd", id) if not fds:
                self.send("failed", id, "fds", errno.EMFILE)
            case ("memfd", _):
                self.obey(marshal.loads(read_whole(fds[0])), fds[1:])
            case ("spawn", id, argv, cwd, env, tty, wall, remove):
                if remove:
                    self.files[id] = [(path, identity(path)) for path in remove]
                self.spawn(id, argv, cwd, env, tty, wall, fds)
            case ("signal", id, number, group):
                self.signal(id, number, group)
            case ("forget", id):
                self.files.pop(id, None)

    def spawn(
        self,
        id: int,
        argv: list[bytes],
        cwd: bytes,
        env: dict[bytes, bytes],
        tty: bool,
        wall: "Any",
        fds: list[int],
    ) -> None:
        """Starts a child in its own session on the given descriptors, behind a wall if there is one; tells of it."""
        stage = "fds"
        try:
            actions = ends(fds, tty)
            stage = "cwd"
            os.chdir(cwd)  # one thread: our own folder is free to use
            stage = "exec"
            program = find(argv[0], env.get(b"PATH", os.fsencode(os.defpath)))

            def start() -> int:
                return os.posix_spawn(
                    program, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=DEFAULTS
                )

            pid = start() if wall is None else start_behind(wall, start)
        except NoWall as error:
            self.files.pop(id, None)
            self.send("failed", id, "wall", error.errno or errno.EINVAL)
        except (OSError, ValueError) as error:
            self.files.pop(id, None)
            self.send("failed", id, stage, getattr(error, "errno", None) or errno.EINVAL)
        else:
            self.pids[id], self.ids[pid] = pid, id
            self.send("spawned", id, pid)
        finally:
            os.chdir("/")

    def signal(self, id: int, number: int, group: bool) -> None:
        """Only we reap, so a pid that stands in our table cannot have become another's."""
        pid = self.pids.get(id)
        if pid is None:
            return
        try:
            (os.killpg if group else os.kill)(pid, number)
        except OSError:
            pass  # it has ended meanwhile

    def reap(self) -> bool:
        """Takes every child that ended, adopted ones too; False when no child is left at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            id = self.ids.pop(pid, None)
            if id is not None:
                del self.pids[id]
                self.send("exit", id, os.waitstatus_to_exitcode(status))

    def send(self, *packet: "Any") -> None:
        self.unsent.append(marshal.dumps(packet))

    def flush(self) -> None:
        """Sends what the socket takes now: about 278 unread packets fit, then it would block."""
        while self.unsent:
            try:
                self.sock.send(self.unsent[0], _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
            except BlockingIOError:
                break
            except OSError:
                self.unsent.clear()  # nobody listens; the end of the socket follows
                break
            del self.unsent[0]
        self.poll.modify(self.sock.fileno(), select.POLLIN | (select.POLLOUT if self.unsent else 0))

    def end(self) -> None:
        """TERM to all, 700 ms, KILL until none is left; then removes the files."""
        kill_at = time.monotonic() + TERM_GRACE
        give_up_at = kill_at + KILL_LIMIT
        signal_all(signal.SIGTERM)
        waiter = select.poll()
        waiter.register(self.wake, select.POLLIN)
        while self.reap() and time.monotonic() < give_up_at:
            self.flush()
            late = time.monotonic() >= kill_at
            if late:
                signal_all(signal.SIGKILL)  # again and again: a fork may race the walk
            if waiter.poll(10 if late else max(1, (kill_at - time.monotonic()) * 1000)):
                drain(self.wake)
        self.flush()
        for files in self.files.values():
            for path, was in files:
                remove(path, was)


class NoWall(OSError):
    """The wall could not be built: nothing was started."""


def start_behind(wall: "Any", start: "Callable[[], int]") -> int:
    """Starts a child behind a wall. An error of the wall itself is `NoWall`, one of the exec stays what it is."""
    reached: list[bool] = []

    def begin() -> int:
        reached.append(True)
        return start()

    try:
        import landlock  # type: ignore[import-not-found]  # beside this file; only who builds walls pays for it

        pid: int = landlock.start_behind(wall, begin)
    except (ImportError, OSError) as error:
        if reached:
            raise
        raise NoWall(getattr(error, "errno", None) or errno.EOPNOTSUPP, "no wall") from error
    return pid


# -- starting -----------------------------------------------------------------------------------------


def lower_fd_limit(soft_limit: int) -> None:
    """Children get the limit the user had: ostler raised its own, and a high one slows old programs."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft_limit if hard < 0 else min(soft_limit, hard), hard))


def join(group: str) -> None:
    """Into a cgroup, with all children to come. Here, since the kernel may take some 20 ms for it."""
    try:
        fd = os.open(f"{group}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(fd, b"0")
    except OSError:
        pass  # the kernel does not let us: the tree and the mark still lead to all children
    finally:
        os.close(fd)


def become_subreaper() -> None:
    import ctypes

    libc = ctypes.CDLL(None)
    libc.prctl(15, b"ostler-warden", 0, 0, 0)  # PR_SET_NAME
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def wake_on_child() -> int:
    """A descriptor that becomes readable when a child ends; signals meant for ostler's terminal are ignored."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def watch(parent: int) -> int:
    """A pidfd of ostler: a copy of the socket in a fork of it must not keep us. -1 where there are none."""
    try:
        fd = os.pidfd_open(parent)
    except OSError:
        fd = -1
    if os.getppid() != parent:
        raise SystemExit
    return fd


def drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass  # it is empty


def read_whole(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)


def ends(fds: list[int], tty: bool) -> list[tuple[int, ...]]:
    """What a child does to its descriptors. A terminal opened after setsid becomes the controlling one."""
    if len(fds) != (1 if tty else 3):
        raise OSError(errno.EMFILE, "descriptors were lost on the way")
    if not tty:
        return [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(fds)]
    opened = (os.POSIX_SPAWN_OPEN, 0, os.ttyname(fds[0]), os.O_RDWR, 0)
    return [opened, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]  # type: ignore[list-item]


def find(program: bytes, path: bytes) -> bytes:
    """Where execvp would find it, by the child's own PATH."""
    if b"/" in program:
        return program
    for folder in path.split(b":"):
        candidate = os.path.join(folder or b".", program)
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    raise FileNotFoundError(errno.ENOENT, "not on PATH")


# -- ending -------------------------------------------------------------------------------------------


def identity(path: bytes) -> Identity | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def remove(path: bytes, was: Identity | None) -> None:
    """Deletes a file or folder, unless something else has taken the place of what we were told of."""
    if was is not None and identity(path) != was:
        return
    try:
        os.unlink(path)
    except IsADirectoryError:
        import shutil

        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass  # it is gone already


def signal_all(number: int) -> None:
    for pid in descendants(processes(), [os.getpid()]):
        try:
            os.kill(pid, number)
        except OSError:
            pass  # it has ended meanwhile


# -- reading /proc ------------------------------------------------------------------------------------


def processes() -> Table:
    """Every process there is: pid → (parent, state, session, start time)."""
    table: Table = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := stat(int(name))):
            table[int(name)] = found
    return table


def stat(pid: int) -> Stat | None:
    """One line of /proc, None if there is no such process."""
    raw = read(f"/proc/{pid}/stat", 1024)
    if not raw:
        return None
    fields = raw[raw.rindex(b")") + 2 :].split(None, 20)  # the name before may hold anything
    return int(fields[1]), fields[0], int(fields[3]), int(fields[19])


def read(path: str, size: int) -> bytes:
    """The first `size` bytes of a /proc file; empty if the process is gone or another's."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
    try:
        return os.read(fd, size)
    except (ProcessLookupError, PermissionError):
        return b""
    finally:
        os.close(fd)


def descendants(table: Table, roots: list[int]) -> list[int]:
    """All that come from `roots`, the roots themselves excepted."""
    children: dict[int, list[int]] = {}
    for pid, (parent, *_) in table.items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    todo = list(roots)
    while todo:
        born = children.pop(todo.pop(), [])
        found += born
        todo += born
    return found
