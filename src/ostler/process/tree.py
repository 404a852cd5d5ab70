"""Walks of /proc: who descends from whom, who carries a turn's mark, who is still the same process."""

import os
import signal
import time
from collections.abc import Collection, Iterable
from typing import NamedTuple

from msgspec import Struct

from ostler import clock
from ostler.process.warden import descendants, processes, read, stat

MARK = "OSTLER_TURN"
TICKS = os.sysconf("SC_CLK_TCK")
SURE = 3  # looks that find nothing: one alone can miss a daemon whose parent exits, or that executes, just then
GONE = b"ZXx"  # states of what only waits to be reaped
# Kernels without CONFIG_PROC_CHILDREN keep no lists of children: there every walk is a walk of all.
LISTS = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


class Member(NamedTuple):
    """A process: a pid alone may have become another's."""

    pid: int
    start: int  # field 22 of /proc/PID/stat, in clock ticks since boot


class Leader(Struct, frozen=True):
    """What is known of a spawned process when its tree is sought."""

    pid: int
    lives: bool  # else its pid may be another's
    mark: str
    warden: int  # pid of the subreaper that inherits its orphans
    others: frozenset[int]  # the other leaders that live under it
    alone: bool  # no other leader lives or is being started


# -- one process --------------------------------------------------------------------------------------


def boot_id() -> str:
    """Changes with every boot: pids and start times mean nothing across it."""
    return read("/proc/sys/kernel/random/boot_id", 64).decode().strip()


def now() -> int:
    """This moment as a start time."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS) - 1


def identity(pid: int) -> int | None:
    """Its start time; None if there is no such process or only its zombie."""
    found = stat(pid)
    return None if found is None or found[1] in GONE else found[3]


def age(pid: int) -> float:
    """Seconds since it was started; 0 if there is no such process."""
    start = identity(pid)
    return 0.0 if start is None else (now() - start) / TICKS


def gone(pid: int, start_time: int) -> bool:
    """True if that very process has ended, whoever has its pid now."""
    return identity(pid) != start_time


def mark_of(pid: int) -> str | None:
    """The mark in its environment; None if it has none or is not ours to read."""
    path = f"/proc/{pid}/environ"
    environ = read(path, 1 << 16)
    if len(environ) == 1 << 16:
        environ = read(path, 4 << 20)  # more than execve takes
    _, found, rest = (b"\0" + environ).partition(f"\0{MARK}=".encode())
    return rest.partition(b"\0")[0].decode(errors="replace") if found else None


def command(pid: int) -> str:
    """The command line for people, shortened; the bare name where there is none."""
    line = read(f"/proc/{pid}/cmdline", 300).replace(b"\0", b" ").strip()
    return (line or read(f"/proc/{pid}/comm", 64).strip()).decode(errors="replace")


def is_output(fd: int) -> bool:
    """Whether the other end of this pipe is the stdout or stderr of a process: then somebody writes to it.

    A pipe that was only left open (by ssh, a CI job, a server) is held by another descriptor.
    """
    pipe = os.fstat(fd)
    return any(_writes(pid, pipe) for pid in processes() if pid != os.getpid())


def _writes(pid: int, pipe: os.stat_result) -> bool:
    try:
        return any(os.path.samestat(pipe, os.stat(f"/proc/{pid}/fd/{number}")) for number in (1, 2))
    except PermissionError:  # another user's: `sudo … |` stands in the same pipeline
        return group(pid) == os.getpgrp()
    except OSError:
        return False


def group(pid: int) -> int:
    """Its process group; -1 if there is no such process."""
    try:
        return os.getpgid(pid)
    except OSError:
        return -1


def name(member: Member) -> str:
    return f"{member.pid} {command(member.pid)}"


def living(those: Iterable[Member]) -> set[Member]:
    return {member for member in those if not gone(*member)}


def send(those: Iterable[Member], number: int) -> None:
    """Signals each one that is still itself."""
    for member in those:
        try:
            if not gone(*member):
                os.kill(member.pid, number)
        except OSError:
            pass  # it has ended meanwhile


# -- the tree of a leader -----------------------------------------------------------------------------


def members(leader: Leader) -> set[Member]:
    """The live tree of a leader, itself excepted: its descendants, and its orphans with theirs.

    Costs what the tree is large, not the machine.
    """
    orphans = orphans_of(leader)
    return as_members([*orphans, *below([leader.pid, *orphans] if leader.lives else orphans)])


def detached(leader: Leader) -> set[Member]:
    """Of the live tree of a leader, what no longer descends from it: its orphans, with theirs."""
    orphans = orphans_of(leader)
    return as_members([*orphans, *below(orphans)])


def orphans_of(leader: Leader) -> list[int]:
    """What it started and its parents have left: the warden has adopted it."""
    return [pid for pid in children(leader.warden) if pid not in leader.others and is_orphan(pid, leader)]


def is_orphan(pid: int, leader: Leader) -> bool:
    """Whether an adopted process is of this leader: by session, by mark, or since it can be of no other."""
    found = stat(pid)
    if found is None or pid == leader.pid:
        return False
    # A child between clone and exec still shows the warden's own command and environment, so the
    # command is read before the mark.
    newborn = leader.alone and command(pid) == command(leader.warden)
    mark = mark_of(pid)
    return found[2] == leader.pid or mark == leader.mark or (mark is None and leader.alone and not newborn)


def below(roots: Iterable[int]) -> list[int]:
    """All that descend from `roots`."""
    if not LISTS:
        return descendants(processes(), list(roots))
    found: list[int] = []
    todo = list(roots)
    while todo:
        born = children(todo.pop())
        found += born
        todo += born
    return found


def children(pid: int) -> set[int]:
    """The children of all its threads. One reaped meanwhile may hide its neighbour: ask again to be sure."""
    if not LISTS:
        return {child for child, found in processes().items() if found[0] == pid}
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return {int(child) for thread in threads for child in read_all(f"/proc/{pid}/task/{thread}/children").split()}


def read_all(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def as_members(pids: Iterable[int]) -> set[Member]:
    return {Member(pid, start) for pid in pids if pid != os.getpid() and (start := identity(pid)) is not None}


# -- the marked, wherever they are --------------------------------------------------------------------


def marked(mark: str, since: int = 0) -> list[int]:
    """Processes with this mark in their environment, of those that started at `since` or later."""
    return [pid for pid, found in processes().items() if found[3] >= since and mark_of(pid) == mark]


def end_marked(
    marks: Collection[str], also: Collection[Member] = (), grace: float = 0.7, limit: float = 5.0
) -> tuple[str, ...]:
    """Ends all that carry one of the marks, and `also` these, with their descendants: TERM, `grace`, KILL.

    Returns their names. For turns whose warden or ostler is dead. Blocks for at most `grace` + `limit` seconds.
    """
    found, empty = trees_of(marks, also=also), 0
    names = tuple(name(member) for member in sorted(found))
    send(found, signal.SIGTERM)
    kill_at = clock.monotonic() + grace
    while empty < SURE and clock.monotonic() < kill_at + limit:
        if clock.monotonic() >= kill_at:
            send(found, signal.SIGKILL)
        time.sleep(0.01)
        found = living(found) or trees_of(marks, also=also)
        empty = 0 if found else empty + 1
    return names


def trees_of(marks: Collection[str], since: int = 0, also: Collection[Member] = ()) -> set[Member]:
    """All that carry one of the marks, and `also` these if they live, with their descendants; never ourselves."""
    table = processes()
    roots = [pid for pid, found in table.items() if found[3] >= since and mark_of(pid) in marks] if marks else []
    roots = [pid for pid in {*roots, *(member.pid for member in living(also))} if pid != os.getpid()]
    return as_members([*roots, *descendants(table, roots)])
