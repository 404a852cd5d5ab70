"""Processes through the warden: the asyncio side of warden.py."""

import asyncio
import errno
import itertools
import logging
import os
from collections.abc import Mapping, Sequence

from ostler.errors import ErrorKind, OstlerError, quoted
from ostler.model import Wall
from ostler.process import cgroup, tree
from ostler.process.child import Process, SpawnFailed, in_thread
from ostler.process.link import Packet, WardenLink
from ostler.process.pipes import Ends, Size, open_ends
from ostler.supervise import Loop

LOOK = 0.5  # seconds between looks at the daemons that the warden has inherited
CLOSE_LIMIT = 8.0  # the warden's own ladder takes at most 5.7 s

_log = logging.getLogger(__name__)

KINDS: dict[int, ErrorKind] = {
    errno.ENOENT: "missing",
    errno.EACCES: "missing",
    errno.EPERM: "missing",
    errno.ENOEXEC: "missing",
    errno.ENOTDIR: "missing",
    errno.EISDIR: "missing",
    errno.ELOOP: "missing",
    errno.ETXTBSY: "missing",
    errno.E2BIG: "bad_request",
    errno.EINVAL: "bad_request",
    errno.ENAMETOOLONG: "bad_request",
    errno.EMFILE: "too_many",
    errno.ENFILE: "too_many",
    errno.EAGAIN: "too_many",
    errno.ENOMEM: "too_many",
    errno.ETOOMANYREFS: "too_many",
    errno.ENOSPC: "too_many",  # no more pseudo terminals
}


class Warden:
    """Spawns all processes of this ostler and ends them with it. Bound to the loop it was started in."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._link: WardenLink | None = None
        self._processes: dict[int, Process] = {}  # those that start or live
        self._burials: set[asyncio.Task[None]] = set()
        self._closed = False
        self.cgroup = cgroup.make()  # "" where there may be none
        self.adopted: set[tree.Member] = set()  # daemons that the warden has inherited, as of the last look
        self._looking = Loop("looking for daemons", self._look_for_daemons)

    @classmethod
    async def start(cls) -> "Warden":
        """Launches the warden process. Raises `too_many` when the machine has no room for it."""
        warden = cls()
        try:
            warden._open()
        except BaseException:
            cgroup.remove(warden.cgroup)
            raise
        return warden

    @property
    def pid(self) -> int | None:
        """The warden process; None after its death, until the next spawn."""
        return self._link.pid if self._link else None

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        mark: str,
        stdin: bytes | int | None = b"",
        tty: Size | None = None,
        keep_stdin: bool = False,
        wall: Wall | None = None,
        remove: Sequence[str] = (),
    ) -> Process:
        """Starts `argv` in a session of its own with `env` and the mark; `stdin` is written, then closed.

        A stdin that is an int is a descriptor that the process reads itself, None is /dev/null. `remove`: paths to
        delete if ostler ends before `release()`. `wall`: what the process and all that it starts is kept to. Raises
        `missing`, `not_found` or `denied` (cwd, wall), `bad_request`, `too_many`, `crashed` (the warden died). A
        cancelled spawn leaves no process.
        """
        request = pack_request(argv, cwd, env, mark, tty is not None, remove, wall)
        link = self._open()
        try:
            own = isinstance(stdin, bytes) or keep_stdin
            ends = open_ends(tty, own, stdin if isinstance(stdin, int) else None)
        except OSError as error:
            raise refusal("fds", error.errno or 0, argv, cwd) from error
        process = Process(link, next(self._ids), mark, ends, self._processes)
        try:
            await self._begin(process, request, ends)
        except SpawnFailed as failed:
            process.release()
            refused = refusal(failed.stage, failed.errno, argv, cwd)
            _log.debug("not started: %s", refused)
            raise refused from None
        except BaseException:
            process.release()
            raise
        # Its arguments may hold a prompt or a secret: who asked for it logs them, masked.
        _log.debug("started %s (pid %d) in %s%s", argv[0], process.pid, cwd, " in a terminal" if tty else "")
        process.feed(stdin if isinstance(stdin, bytes) else b"", keep_stdin)
        return process

    async def close(self) -> None:
        """Ends everything that still runs (TERM, 700 ms, KILL) and the warden itself; idempotent."""
        self._closed = True
        await self._looking.stop()
        link = self._link
        if link is not None:
            link.finish()
            await link.gone(CLOSE_LIMIT)
            link.drop()
        while self._burials:
            await asyncio.wait(self._burials)
        if self.cgroup:
            cgroup.remove(self.cgroup)

    def _open(self) -> WardenLink:
        if self._closed:
            raise OstlerError("bad_request", "the warden is closed, no more processes can be started")
        if self._link and self._link.dead():
            self._link.drop()
        if self._link is None:
            self._link = WardenLink(self._handle_packet, self._lost, self.cgroup)
            _log.debug("the warden is started (pid %d)%s", self._link.pid, ", with a cgroup" if self.cgroup else "")
            self._looking.start()
        return self._link

    async def _look_for_daemons(self) -> None:
        """Once the warden is dead nothing leads to those that have left their tree, and their environment too."""
        if self._link is not None and self._link.alive:
            leaders = {process.pid for process in self._processes.values()}
            self.adopted = tree.as_members(tree.children(self._link.pid) - leaders)
        await asyncio.sleep(LOOK)

    async def _begin(self, process: Process, request: Packet, ends: Ends) -> None:
        self._processes[process.id] = process
        try:
            process.link.send(("spawn", process.id, *request), ends.theirs)
        except OSError as error:
            del self._processes[process.id]
            raise SpawnFailed("fds", error.errno or 0) from error
        await process.started

    def _handle_packet(self, packet: Packet) -> None:
        match packet:
            case ("spawned", id, pid):
                self._processes[id].is_started(pid)
            case ("failed", id, stage, number):
                self._processes.pop(id).is_refused(SpawnFailed(stage, number))
            case ("exit", id, code):
                self._processes.pop(id).is_ended(code)

    def _lost(self, link: WardenLink) -> None:
        """The warden is gone. What it did not report is ended by its mark; a new one comes with the next spawn."""
        self._link = None
        orphans = [process for process in self._processes.values() if process.link is link]
        if not self._closed:
            _log.warning("the warden (pid %d) is gone: its %d processes are ended", link.pid, len(orphans))
        for process in orphans:
            del self._processes[process.id]
        adopted, self.adopted = self.adopted, set()
        burial = asyncio.get_running_loop().create_task(bury(link, orphans, adopted))
        self._burials.add(burial)
        burial.add_done_callback(self._burials.discard)


async def bury(link: WardenLink, orphans: Sequence[Process], adopted: set[tree.Member]) -> None:
    """Ends the processes of a dead warden and tells those who wait for them."""
    try:
        await link.gone(1.0)
        left = adopted | tree.as_members(cgroup.pids(link.cgroup) if link.cgroup else ())
        if orphans or left:
            await in_thread(tree.end_marked, {process.mark for process in orphans}, left)
        if link.cgroup:
            cgroup.remove(link.cgroup)
    finally:
        for process in orphans:
            process.is_refused(SpawnFailed("warden", 0))
            process.is_ended(-9)


def pack_request(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    mark: str,
    tty: bool,
    remove: Sequence[str],
    wall: Wall | None = None,
) -> Packet:
    """What the warden needs, as bytes. Raises `bad_request` on what no exec can take."""
    variables = {tree.MARK: mark, **env, tree.MARK: mark}  # first, and not to be overridden
    if not argv or not argv[0]:
        raise OstlerError("bad_request", "there is no command to start")
    for name in variables:
        if not name or "=" in name:
            raise OstlerError("bad_request", f"{quoted(name)} is not a valid name for an environment variable")
    paths = [os.path.abspath(path) for path in (cwd, *remove)]
    try:
        values = [encode(value) for value in (*argv, *paths)]
        pairs = {encode(name): encode(value) for name, value in variables.items()}
        rules = None if wall is None else _rules(wall)
    except ValueError as error:
        raise OstlerError("bad_request", f"cannot start {quoted(argv[0])}: {error}") from None
    folder, *files = values[len(argv) :]
    return values[: len(argv)], folder, pairs, tty, rules, files


def _rules(wall: Wall) -> Packet:
    """The wall as landlock.py takes it."""
    readable = None if wall.readable is None else [encode(path) for path in wall.readable]
    return [encode(path) for path in wall.writable], [encode(path) for path in wall.editable], readable, wall.sockets


def encode(text: str) -> bytes:
    data = os.fsencode(text)
    if b"\0" in data:
        raise ValueError("a NUL character in an argument, a path or the environment")
    return data


def refusal(stage: str, number: int, argv: Sequence[str], cwd: str) -> OstlerError:
    """Why a process could not be started, as the one error people see."""
    why = os.strerror(number) if number else "the warden died"
    kind = KINDS.get(number, "crashed")
    if kind == "too_many" and stage != "wall":
        return OstlerError("too_many", f"cannot start {argv[0]}: {why}", "Wait until other processes have ended")
    if stage in ("fds", "warden"):
        return OstlerError("crashed", f"cannot start {argv[0]}: {why}")
    if stage == "wall":
        hint = "Nothing was started. See `ostler doctor`, or set walls in your settings"
        return OstlerError("denied", f"cannot build the wall around {argv[0]}: {why}", hint)
    if stage == "cwd":
        kind = "denied" if number in (errno.EACCES, errno.EPERM) else "not_found"
        return OstlerError(kind, f"cannot work in the folder {cwd}: {why}")
    if number == errno.E2BIG:
        return OstlerError(kind, f"cannot start {argv[0]}: its arguments or environment are too long")
    if number == errno.ENOENT and os.path.exists(os.path.join(cwd, argv[0])):
        return OstlerError(kind, f"cannot start {argv[0]}: the interpreter in its first line is missing")
    if number == errno.ENOENT:
        return OstlerError(kind, f"{argv[0]} does not exist" if "/" in argv[0] else f"{argv[0]} is not on PATH")
    return OstlerError(kind, f"cannot start {argv[0]}: {why}")
