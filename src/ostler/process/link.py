"""The control socket to one warden process. The packets are described in warden.py."""

import asyncio
import errno
import marshal
import os
import resource
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from ostler import clock
from ostler.errors import OstlerError
from ostler.process import cgroup, warden
from ostler.process.pipes import close_all

Packet = tuple[Any, ...]
OnPacket = Callable[[Packet], None]

LARGE = 60_000  # a SEQPACKET packet holds 212,960 bytes by default, and the warden's buffer is smaller
WANTED_FDS = 65_536
# `-c` and an import: unlike a script, a module comes from its cached byte code.
BOOT = "import sys; sys.path.append(sys.argv[1]); import warden; warden.main(*map(int, sys.argv[2:5]), sys.argv[5])"

_user_limit: int | None = None


def raise_fd_limit() -> int:
    """Raises the soft limit of open files for this process; returns what it was at first, for the children."""
    global _user_limit
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _user_limit is None:
        _user_limit = soft
    wanted = WANTED_FDS if hard == resource.RLIM_INFINITY else min(hard, WANTED_FDS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return _user_limit


class Outgoing(Struct, frozen=True):
    id: int
    data: bytes
    fds: tuple[int, ...]  # closed once sent


class WardenLink:
    """Sends without blocking and hands on what is told; calls `lost` once when the warden is gone."""

    def __init__(self, on_packet: OnPacket, lost: Callable[["WardenLink"], None], beneath: str = "") -> None:
        """Launches the warden and does not wait for it: the socket holds requests until it is up.

        `beneath`: the cgroup that gets another one for it.
        """
        self._on_packet = on_packet
        self._lost = lost
        self._queue: deque[Outgoing] = deque()
        self._loop = asyncio.get_running_loop()
        self.cgroup = cgroup.make_beneath(beneath) if beneath else ""
        try:
            self._sock, self._process = launch(self.cgroup)
        except OSError as error:
            why = os.strerror(error.errno or errno.EAGAIN)
            raise OstlerError(
                "too_many", f"cannot start the warden: {why}", "Wait until other processes have ended"
            ) from error
        self.pid = self._process.pid
        self.alive = True
        self._finishing = False
        self._sock.setblocking(False)
        self._loop.add_reader(self._sock, self._receive)

    def send(self, packet: Packet, fds: Sequence[int] = ()) -> None:
        """Queues a packet of the form (verb, id, …); takes over `fds`. Raises OSError if it cannot be packed.

        To a warden that is gone or ends already, nothing is sent: `lost` told of it, or will.
        """
        if self._finishing or not self.alive:
            close_all(list(fds))
            return
        try:
            outgoing = pack(packet, tuple(fds))
        except OSError:
            close_all(list(fds))
            raise
        self._queue.append(outgoing)
        self._flush()

    def finish(self) -> None:
        """No more requests: the warden ends everything, reports the exits, and goes."""
        if self.alive and not self._finishing:
            self._finishing = True
            self._clear()
            self._sock.shutdown(socket.SHUT_WR)

    def dead(self) -> bool:
        """Whether the warden process has exited, told or not."""
        return self._process.poll() is not None

    async def gone(self, limit: float) -> None:
        """Waits until the warden has exited and is reaped; kills it after `limit` seconds."""
        kill_at = clock.monotonic() + limit
        while self._process.poll() is None:
            if clock.monotonic() > kill_at:
                self._process.kill()
            await asyncio.sleep(0.002)

    def drop(self) -> None:
        """Hears what was still told, closes our side, and `lost` is called; idempotent."""
        self._receive()
        self._shut()

    def _shut(self) -> None:
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        self._clear()
        self._lost(self)

    def _clear(self) -> None:
        for outgoing in self._queue:
            close_all(list(outgoing.fds))
        self._queue.clear()

    def _receive(self) -> None:
        while self.alive:
            try:
                data = self._sock.recv(4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if data:
                self._on_packet(marshal.loads(data))
            else:
                self._shut()

    def _flush(self) -> None:
        while self._queue:
            outgoing = self._queue[0]
            try:
                socket.send_fds(self._sock, [outgoing.data], outgoing.fds)
            except BlockingIOError:
                self._loop.add_writer(self._sock, self._flush)
                return
            except ConnectionError:
                self.drop()
                return
            except OSError as error:  # too many descriptors on their way
                self._on_packet(("failed", outgoing.id, "fds", error.errno))
            self._queue.popleft()
            close_all(list(outgoing.fds))
        self._loop.remove_writer(self._sock)


def pack(packet: Packet, fds: tuple[int, ...]) -> Outgoing:
    """One packet as bytes; a large one as a memfd that goes along."""
    data = marshal.dumps(packet)
    if len(data) <= LARGE:
        return Outgoing(packet[1], data, fds)
    memfd = os.memfd_create("ostler")
    with os.fdopen(os.dup(memfd), "wb") as file:
        file.write(data)
    return Outgoing(packet[1], marshal.dumps(("memfd", packet[1])), (memfd, *fds))


def launch(group: str) -> "tuple[socket.socket, subprocess.Popen[bytes]]":
    """Starts the warden in a session of its own, out of reach of the terminal's ^C; our side of its socket."""
    if not sys.platform.startswith("linux"):
        raise OstlerError("unsupported", f"ostler can start processes on Linux only; this is {sys.platform}")
    limit = raise_fd_limit()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    argv = [sys.executable, "-I", "-S", "-c", BOOT, os.path.dirname(warden.__file__)]
    argv += [*map(str, (theirs.fileno(), os.getpid(), limit)), group]
    null = subprocess.DEVNULL
    with theirs:
        try:
            return ours, subprocess.Popen(
                argv, stdin=null, stdout=null, pass_fds=(theirs.fileno(),), start_new_session=True
            )
        except BaseException:
            ours.close()
            raise
