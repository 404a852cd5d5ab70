"""A program that holds a terminal and runs one command after the other in it, as it is told.

Run as a file of its own (`python -IS job_host.py SECONDS JOB`), with nothing of ostler: it is what people watch, and
what runs behind the wall. A job is a private file of JSON (name, argv, stdin, env, nonce): `run PATH` on the terminal
names the next one. That it was read is told by an OSC sequence with its name; its command starts when whoever wrote the
file has removed it, for behind the wall nothing of ostler's can be. How a command ended is told by a sequence that has
the nonce, which the command does not know. Nobody says anything for so many seconds: it leaves.
"""

import json
import os
import select
import signal
import sys
import termios
import time
from typing import Any

OSC = 7773
PREFIX = b"run "
FORGET = b"\x15"  # Ctrl-U: what somebody has typed before, and not ended, is dropped
_PATIENCE = 10.0  # seconds until the file of a job has to be gone
_KILL_LIMIT = 5.0  # seconds: something in an uninterruptible sleep is left to the kernel
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: what a command leaves behind is ours


def main(idle: float, first: str) -> int:
    for each in (signal.SIGINT, signal.SIGQUIT, signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP):
        signal.signal(each, signal.SIG_IGN)
    _adopt_orphans()
    usual = termios.tcgetattr(0)
    if not run(first, usual):
        return 1
    place = _place(first)
    while True:
        _be_quiet(usual)
        line = _line(idle)
        if line is None:
            return 0
        path = os.fsdecode(line.removeprefix(PREFIX).strip())
        if line.startswith(PREFIX) and _place(path) == place:
            run(path, usual)


def _place(path: str) -> str:
    """The folder of the session: jobs from elsewhere are nobody's."""
    return os.path.dirname(os.path.dirname(os.path.realpath(path)))


def run(path: str, usual: list[Any]) -> bool:
    """Runs a job; False, and nothing happens, for what is none."""
    try:
        with open(path, "rb") as file:
            job = json.load(file)
    except (OSError, ValueError) as error:
        _write(f"ostler cannot read what to run: {error}\r\n")
        return False
    _write(f"\x1b]{OSC};{job['name']}\x07")
    if not _is_removed(path):
        return False
    termios.tcsetattr(0, termios.TCSADRAIN, usual)
    code = _wait(_start(job))
    os.tcsetpgrp(0, os.getpgrp())
    left = _end_children()
    report = json.dumps({"code": code, "left": left}, separators=(",", ":"))
    _write(f"\x1b]{OSC};{job['nonce']};{report}\x07")
    return True


def _is_removed(path: str) -> bool:
    """Whether it is gone in time: the command would find the nonce in it."""
    deadline = time.monotonic() + _PATIENCE
    while os.path.lexists(path):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _start(job: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        _own_group(pid)
        return pid
    try:
        _own_group(0)
        os.tcsetpgrp(0, os.getpgrp())
        for each in (signal.SIGINT, signal.SIGQUIT, signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP):
            signal.signal(each, signal.SIG_DFL)
        os.dup2(os.open(job["stdin"], os.O_RDONLY | os.O_CLOEXEC), 0)
        os.execvpe(job["argv"][0], job["argv"], {**os.environ, **job["env"]})
    except BaseException as error:
        _write(f"{job['argv'][0]}: {error}\r\n")
    finally:
        os._exit(127)


def _own_group(pid: int) -> None:
    try:
        os.setpgid(pid, pid)
    except OSError:  # the other side was quicker, or it has ended
        pass


def _wait(pid: int) -> int:
    """How it ended: a signal is negative."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _end_children() -> list[str]:
    """Kills what the command left behind; the names of that, and of what is not ours to kill (`sudo … &`)."""
    names: dict[int, str] = {}
    refused: set[int] = set()
    deadline = time.monotonic() + _KILL_LIMIT
    while (pids := set(_children()) - refused) and time.monotonic() < deadline:
        for pid in pids:
            names.setdefault(pid, _name(pid))
            if not _kill(pid):
                refused.add(pid)
        if not any(_is_reaped(pid) for pid in pids):
            time.sleep(0.005)
    return [name for name in names.values() if name][:20]


def _kill(pid: int) -> bool:
    """Whether the signal may be sent: another user's process goes on."""
    try:
        os.kill(pid, signal.SIGKILL)
    except PermissionError:
        return False
    except OSError:  # it has gone by itself
        pass
    return True


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except OSError:  # it has been reaped already
        return True


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # no such system
        return []


def _name(pid: int) -> str:
    """Of one that is running: those that only wait to be reaped left nothing behind."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
    except OSError:
        return ""
    return "" if rest.split()[:1] == ["Z"] else name


def _adopt_orphans() -> None:
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_SUBREAPER, 1, 0, 0, 0)


def _be_quiet(usual: list[Any]) -> None:
    """What is typed now is not shown, and interrupts nobody."""
    quiet = [*usual[:3], usual[3] & ~(termios.ECHO | termios.ISIG), *usual[4:]]
    termios.tcsetattr(0, termios.TCSADRAIN, quiet)


def _line(seconds: float) -> bytes | None:
    """The next line; None at the end."""
    if not select.select([0], [], [], seconds)[0]:
        return None
    try:
        return os.read(0, 8192) or None
    except OSError:  # the terminal is gone
        return None


def _write(text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2]))
