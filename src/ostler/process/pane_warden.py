"""The warden of one tmux pane: starts the program in it, and ends all that the program started.

Like `warden.py`, which stands beside it and which it uses, it runs under `python -I -S` and imports nothing of ostler.
It has no control socket: its life is the pane's. When its pane or the tmux server is killed it hears HUP, and ends its
tree. What it has to say stands in files of the pane's folder: `started` (the program's pid), `exit`, and `left` (what
the program left running, a line each).

What it is to do is a marshalled tuple in a file, which it removes at once, since it has the environment:
  argv cwd env wall remove folder soft_limit streams viewer
`streams` are paths for standard input, output and error, or None for the pane itself; `viewer` is the command that
shows the output in the pane then.
"""

import _signal as signal  # type: ignore[import-not-found]
import errno
import marshal
import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ostler.process import warden
else:
    try:
        import warden  # beside this file, when it runs as a program of its own
    except ImportError:
        from ostler.process import warden

GRACE = 0.5  # seconds in which what the program left running may go by itself
VIEWER = 5.0  # seconds in which the rest of the output is shown
TERM_GRACE = 0.7
KILL_LIMIT = 5.0
LEFT_ALONE = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
ENDS = (signal.SIGHUP, signal.SIGTERM)


def main(request: str) -> None:
    argv, cwd, env, wall, remove, folder, soft_limit, streams, viewer = taken(request)
    warden.lower_fd_limit(soft_limit)
    warden.become_subreaper()
    pane = GuardedPane(folder)
    try:
        if pane.spawn(argv, cwd, env, wall, streams):
            if viewer:
                pane.show(viewer, env)
            pane.run()
    finally:
        pane.end()
        for path in remove:
            warden.remove(path, None)
    os._exit(0)


class GuardedPane:
    """The program in the pane, and the folder where it is told of."""

    def __init__(self, folder: bytes) -> None:
        self.folder = folder
        self.leader = self.viewer = 0
        self.hung_up = False
        self.wake = warden.wake_on_child()
        for number in LEFT_ALONE:
            signal.signal(number, signal.SIG_IGN)
        for number in ENDS:
            signal.signal(number, lambda *_: None)  # which signal it was stands in the pipe
        self.poll = select.poll()
        self.poll.register(self.wake, select.POLLIN)

    def spawn(self, argv: list[bytes], cwd: bytes, env: dict[bytes, bytes], wall: "Any", streams: "Any") -> bool:
        """Starts it in the pane's own process group: it is in the foreground, and hears Ctrl-C."""
        stage, opened = "fds", []
        try:
            opened = open_streams(streams) if streams else []
            actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(opened)]
            stage = "cwd"
            os.chdir(cwd)
            stage = "exec"
            program = warden.find(argv[0], env.get(b"PATH", os.fsencode(os.defpath)))

            def start() -> int:
                return os.posix_spawn(
                    program, argv, env, file_actions=actions, setsigmask=(), setsigdef=warden.DEFAULTS
                )

            self.leader = start() if wall is None else warden.start_behind(wall, start)
        except warden.NoWall as error:
            self.write_file(b"exit", f"failed wall {error.errno or errno.EINVAL}")
        except (OSError, ValueError) as error:
            self.write_file(b"exit", f"failed {stage} {getattr(error, 'errno', None) or errno.EINVAL}")
        else:
            self.write_file(b"started", str(self.leader))
        for fd in opened:
            os.close(fd)
        os.chdir("/")
        return bool(self.leader)

    def show(self, argv: list[bytes], env: dict[bytes, bytes]) -> None:
        """Without it the pane stays empty, and the turn goes on."""
        try:
            self.viewer = os.posix_spawn(argv[0], argv, env, setsigmask=(), setsigdef=warden.DEFAULTS)
        except OSError as error:
            os.write(1, f"The output cannot be shown here: {os.strerror(error.errno or 0)}\r\n".encode())

    def run(self) -> None:
        """Until the program has ended, or the pane is closed."""
        while self.leader and not self.hung_up:
            self.wait(None)
        if not self.hung_up:
            self.rest(VIEWER if self.viewer else GRACE)
        if not self.hung_up and self.reap():
            self.write_left()

    def rest(self, seconds: float) -> None:
        """Gives what is left a moment."""
        until = time.monotonic() + seconds
        while not self.hung_up and self.reap() and (left := until - time.monotonic()) > 0:
            if not self.viewer:
                until = min(until, time.monotonic() + GRACE)
            self.wait(left)

    def wait(self, seconds: float | None) -> None:
        self.poll.poll(None if seconds is None else max(1, seconds * 1000))
        try:
            signals = os.read(self.wake, 4096)
        except BlockingIOError:
            signals = b""
        self.hung_up = self.hung_up or any(number in signals for number in ENDS)
        self.reap()

    def reap(self) -> bool:
        """Takes every child that ended; False when none is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self.viewer:
                self.viewer = 0
            if pid == self.leader:
                self.leader = 0
                self.write_file(b"exit", f"exit {os.waitstatus_to_exitcode(status)}")

    def write_left(self) -> None:
        """What the program left running, by pid and command."""
        found = warden.descendants(warden.processes(), [os.getpid()])
        commands = {pid: warden.read(f"/proc/{pid}/cmdline", 300).replace(b"\0", b" ").strip() for pid in found}
        left = [f"{pid} {command.decode(errors='replace')}" for pid, command in commands.items() if pid != self.viewer]
        self.write_file(b"left", "\n".join(" ".join(name.split()) for name in left))

    def end(self) -> None:
        """TERM to all that is left, 700 ms, KILL."""
        kill_at = time.monotonic() + TERM_GRACE
        give_up_at = kill_at + KILL_LIMIT
        if self.reap():
            warden.signal_all(signal.SIGTERM)
            warden.signal_all(signal.SIGCONT)
        while self.reap() and time.monotonic() < give_up_at:
            late = time.monotonic() >= kill_at
            if late:
                warden.signal_all(signal.SIGKILL)
            self.wait(0.01 if late else kill_at - time.monotonic())

    def write_file(self, name: bytes, text: str) -> None:
        """A file that is there whole, or not at all."""
        path = os.path.join(self.folder, name)
        try:
            fd = os.open(path + b".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)
            os.replace(path + b".new", path)
        except OSError:
            pass  # the disk is full or the folder gone: nobody learns how it ended, only that it did


def taken(path: str) -> "Any":
    with open(path, "rb") as file:
        request = marshal.load(file)
    os.unlink(path)
    return request


def open_streams(streams: "Any") -> list[int]:
    """Standard input from a file, output and error appended to files: opened by us, for a wall would forbid that."""
    source, out, err = streams
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return [os.open(source, os.O_RDONLY), os.open(out, append, 0o600), os.open(err, append, 0o600)]
