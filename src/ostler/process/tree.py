"""Walks of /proc: who descends from whom, who carries a turn's mark, who is still the same process."""

import os
import signal
import time
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ostler.process.warden import Table, descendants, processes, read, stat

MARK = "OSTLER_TURN"
TICKS = os.sysconf("SC_CLK_TCK")
ENVIRON = 4 << 20  # more than execve takes
GONE = b"ZXx"  # states of what only waits to be reaped


class Member(NamedTuple):
    """A process: a pid alone may have become another's."""

    pid: int
    start: int  # field 22 of /proc/PID/stat, in clock ticks since boot


class Leader(NamedTuple):
    """What is known of a spawned process when its tree is sought."""

    pid: int
    lives: bool  # else its pid may be another's
    mark: str
    born: int  # no process of its tree started before
    warden: int  # pid of the subreaper that inherits its orphans
    alone: bool  # no other leader lives or is being started under that warden


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


def gone(pid: int, start_time: int) -> bool:
    """True if that very process has ended, whoever has its pid now."""
    return identity(pid) != start_time


def marked(mark: str, since: int = 0) -> list[int]:
    """Processes with this mark in their environment, of those that started at `since` or later."""
    return [pid for pid, found in processes().items() if found[3] >= since and carries(pid, mark)]


def carries(pid: int, mark: str) -> bool:
    """Whether its environment holds this mark."""
    return f"\0{MARK}={mark}\0".encode() in environ(pid)


def unmarked(pid: int) -> bool:
    """Whether it lost every mark, or its environment is not ours to read."""
    return f"\0{MARK}=".encode() not in environ(pid)


def environ(pid: int) -> bytes:
    return b"\0" + read(f"/proc/{pid}/environ", ENVIRON)


def members(leader: Leader) -> set[Member]:
    """The live tree of a leader, itself excepted: its descendants, the marked, the orphans of its session."""
    table = processes()
    young = [pid for pid, found in table.items() if found[3] >= leader.born and found[1] not in GONE]
    roots = {pid for pid in young if carries(pid, leader.mark) or is_orphan(pid, leader, table)}
    above = [leader.pid, *roots] if leader.lives else list(roots)
    tree = roots.union(descendants(table, above)) - {leader.pid, leader.warden, os.getpid()}
    return {Member(pid, table[pid][3]) for pid in tree if table[pid][1] not in GONE}


def is_orphan(pid: int, leader: Leader, table: Table) -> bool:
    """Whether an adopted process that lost its mark (`env -i`) can only be of this leader."""
    parent, _, session, _ = table[pid]
    if parent != leader.warden or pid == leader.pid:
        return False
    if session == leader.pid:
        return True
    # A child between clone and exec still shows the warden's own command and environment: look at
    # the command first.
    return leader.alone and command(pid) != command(leader.warden) and unmarked(pid)


def children(pid: int) -> set[int] | None:
    """Children of a single-threaded process without a walk; None where the kernel does not tell."""
    path = f"/proc/{pid}/task/{pid}/children"
    before = None
    for _ in range(4):  # a child reaped during the read hides its neighbour: believe what is read twice
        try:
            with open(path, "rb") as file:
                found = {int(child) for child in file.read().split()}
        except OSError:
            return None
        if found == before:
            return found
        before = found
    return None


def command(pid: int) -> str:
    """The command line for people, shortened; the bare name where there is none."""
    line = read(f"/proc/{pid}/cmdline", 300).replace(b"\0", b" ").strip()
    return (line or read(f"/proc/{pid}/comm", 64).strip()).decode(errors="replace")


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
            pass


def end_marked(marks: Collection[str], grace: float = 0.7, limit: float = 5.0) -> tuple[str, ...]:
    """Ends all that carry one of the marks, and their descendants: TERM, `grace`, KILL. Returns their names.

    For turns whose warden or ostler is dead. Blocks for at most `grace` + `limit` seconds.
    """
    found = _marked_trees(marks)
    names = tuple(sorted(name(member) for member in found))
    send(found, signal.SIGTERM)
    kill_at = time.monotonic() + grace
    while found and time.monotonic() < kill_at + limit:
        if time.monotonic() >= kill_at:
            send(found, signal.SIGKILL)
        time.sleep(0.01)
        found = living(found) or _marked_trees(marks)
    return names


def _marked_trees(marks: Collection[str]) -> set[Member]:
    table = processes()
    wanted = [f"\0{MARK}={mark}\0".encode() for mark in marks]
    roots = {pid for pid in table if pid != os.getpid() and any(entry in environ(pid) for entry in wanted)}
    tree = roots.union(descendants(table, list(roots))) - {os.getpid()}
    return {Member(pid, table[pid][3]) for pid in tree if table[pid][1] not in GONE}
