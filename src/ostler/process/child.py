"""One spawned process: waiting for it, writing to it, ending it with all that it started."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures.thread import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar, get_args

from ostler.model import Exit, SignalName
from ostler.process import tree
from ostler.process.link import WardenLink
from ostler.process.pipes import Ends, Feed, undelivered
from ostler.process.tree import Leader, Member

KILL_LIMIT = 5.0  # something in an uninterruptible sleep is left to the kernel
POLL = 0.02
SIGNALS = {name: signal.Signals[f"SIG{name}"] for name in get_args(SignalName)}
# Walks of all processes go one after the other: several threads full of small calls starve the loop.
WALKER = ThreadPoolExecutor(1, "ostler-walker")

_log = logging.getLogger(__name__)

T = TypeVar("T")


class SpawnFailed(Exception):
    """The warden could not start it: where it failed, and errno."""

    def __init__(self, stage: str, errno: int) -> None:
        super().__init__(stage, errno)
        self.stage = stage
        self.errno = errno


class Process:
    """A leader and its tree. Made by `Warden.spawn`; call `release` when its output has been read."""

    def __init__(self, link: WardenLink, id: int, mark: str, ends: Ends, peers: Mapping[int, "Process"]) -> None:
        self.link = link
        self.id = id
        self.mark = mark
        self.pid = 0
        self.stdout_fd = ends.stdout
        self.stderr_fd = ends.stderr
        self.tty_fd = ends.tty
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[None] = loop.create_future()
        self._exited: asyncio.Future[Exit] = loop.create_future()
        self._peers = peers  # all that start or live under the same warden
        self._born = tree.now()
        sink = ends.stdin if ends.tty is None else ends.tty
        self._feed = None if sink is None else Feed(sink, borrowed=ends.tty is not None)

    @property
    def exit(self) -> Exit | None:
        return self._exited.result() if self._exited.done() else None

    @property
    def stdin_fd(self) -> int | None:
        """Our end of its standard input while it is open; None for a terminal."""
        return self._feed.fd if self._feed and self.tty_fd is None else None

    async def wait(self) -> Exit:
        """How it ended. A cancelled wait changes nothing."""
        return await asyncio.shield(self._exited)

    @contextmanager
    def calling(self, call: Callable[[object], None]) -> Iterator[None]:
        """Meanwhile `call` is called when it ends, and soon if it has ended."""
        self._exited.add_done_callback(call)
        try:
            yield
        finally:
            self._exited.remove_done_callback(call)

    def signal(self, sig: int) -> None:
        """To the leader alone; nothing happens if it has ended."""
        self._signal(sig, group=False)

    def signal_tree(self, sig: int) -> None:
        """To the leader and all that descends from it; nothing happens if it has ended."""
        self._signal_all(self._members(), sig)

    async def write(self, data: bytes) -> None:
        """Returns when the process (or its pipe) has taken all; raises `undelivered` if it reads no more."""
        if self._feed is None:
            raise undelivered()
        await self._feed.write(data)

    def put(self, data: bytes) -> None:
        """Queues input without waiting for the process to take it; dropped if it reads no more."""
        if self._feed is not None:
            self._feed.put(data)

    @property
    def unread(self) -> int:
        """Bytes of input that are not written yet, since it reads no more."""
        return self._feed.pending if self._feed is not None else 0

    @property
    def untaken(self) -> int:
        """Bytes of input that it has not read yet, those in its pipe among them."""
        return self._feed.untaken if self._feed is not None else 0

    def close_stdin(self) -> None:
        """Ends its input once all is written. A terminal has no end: nothing happens."""
        if self._feed and self.tty_fd is None:
            self._feed.finish()

    async def end(self, grace: tuple[float, float] = (2.0, 2.0)) -> Exit:
        """INT to the leader, TERM to the tree, KILL; a step ends early when all are gone.

        The tree: the descendants seen before the first signal, and all that carry the mark. On cancel
        all is killed at once.
        """
        seen = self._members()
        try:
            self.signal(signal.SIGINT)
            gone = await self._gone(seen, grace[0])
            if await self._strays(seen) or not gone:
                self._signal_all(seen, signal.SIGTERM)
                if not await self._gone(seen, grace[1]):
                    await self._kill(seen)
        except asyncio.CancelledError:
            self._signal_all(seen | self._members(), signal.SIGKILL)
            raise
        return self.exit or Exit(signal=signal.SIGKILL)

    async def terminate(self, grace: float = 2.0) -> Exit:
        """TERM to the tree, then KILL; early when all are gone. On cancel all is killed at once."""
        return await self.end_by(signal.SIGTERM, grace)

    async def end_by(self, sig: int, grace: float = 2.0) -> Exit:
        """A signal to the tree, then KILL; early when all are gone. On cancel all is killed at once."""
        seen = self._members()
        try:
            self._signal_all(seen, sig)
            self._signal_all(seen, signal.SIGCONT)  # what was stopped hears it too
            gone = await self._gone(seen, grace)
            if await self._strays(seen) or not gone:
                await self._kill(seen)
        except asyncio.CancelledError:
            self._signal_all(seen | self._members(), signal.SIGKILL)
            raise
        return self.exit or Exit(signal=signal.SIGKILL)

    def beneath(self) -> set[Member]:
        """All that descends from it now."""
        return self._members()

    def detached(self) -> set[Member]:
        """What it started that no longer descends from it: daemons, and what they started."""
        if self._nothing_left():
            return set()
        try:
            return tree.detached(self._leader())
        except OSError:
            return set()

    async def sweep_detached(self, known: set[Member], grace: float = 0.5) -> tuple[str, ...]:
        """Ends what has detached itself from a leader that goes on, but for what was `known` before."""
        return await end_detached(self.detached, known, grace)

    async def end_since(self, before: set[Member], grace: float = 1.0) -> None:
        """Ends what it started since `before` was its tree, not itself: TERM, `grace`, KILL. On cancel KILL at once."""
        seen = self._members() - before
        try:
            tree.send(seen, signal.SIGTERM)
            for _ in range(int(grace / POLL)):
                if not living(seen):
                    return
                await asyncio.sleep(POLL)
        finally:
            tree.send(seen, signal.SIGKILL)

    async def sweep(self, grace: float = 0.5) -> tuple[str, ...]:
        """After the leader's exit: what it left behind may go by itself within `grace`, the rest is killed.

        Returns "pid command" of each that had to be killed. On cancel it is killed at once.
        """
        if self._nothing_left():
            return ()
        seen = self._members()
        try:
            if not seen or await self._gone(seen, grace):
                return ()
            leaked = tuple(tree.name(member) for member in sorted(living(seen)))
            _log.debug("pid %d left %d processes behind: they are killed", self.pid, len(leaked))
            await self._kill(seen)
        except asyncio.CancelledError:
            self._signal_all(seen | self._members(), signal.SIGKILL)
            raise
        return leaked

    def release(self) -> None:
        """Closes our descriptors; its files to remove are ours again. Stop reading them first. Idempotent."""
        if self._feed:
            self._feed.close()
        for fd in (self.stdout_fd, self.stderr_fd, self.tty_fd):
            if fd is not None:
                os.close(fd)
        self.stdout_fd = self.stderr_fd = self.tty_fd = None
        self._feed = None
        self.link.send(("forget", self.id))

    # -- for the warden

    def feed(self, data: bytes, keep: bool) -> None:
        """Writes the first input; without `keep` it ends there."""
        if self._feed:
            self._feed.put(data)
            if not keep:
                self.close_stdin()

    def is_started(self, pid: int) -> None:
        self.pid = pid
        if self.started.done():  # the one who asked was cancelled meanwhile
            self._signal(signal.SIGKILL, group=True)
        else:
            self.started.set_result(None)

    def is_refused(self, failed: SpawnFailed) -> None:
        if not self.started.done():
            self.started.set_exception(failed)

    def is_ended(self, code: int) -> None:
        if not self._exited.done():
            _log.debug("pid %d ended by %s %d", self.pid, "exit code" if code >= 0 else "signal", abs(code))
            self._exited.set_result(Exit(code=code) if code >= 0 else Exit(signal=-code))

    # -- the tree

    def _nothing_left(self) -> bool:
        """Cheap and sure: orphans become the warden's children, so if it has none but leaders there are none."""
        known = {process.pid for process in self._peers.values()}
        try:
            return self.link.alive and all(tree.children(self.link.pid) <= known for _ in range(2))
        except OSError:
            return False

    def _leader(self) -> Leader:
        others = {process.pid for process in self._peers.values()} - {self.pid}
        alone = not self._peers.keys() - {self.id}
        return Leader(self.pid, self.exit is None, self.mark, self.link.pid, frozenset(others), alone)

    def _members(self) -> set[Member]:
        """Who belongs to us now, the leader excepted."""
        try:
            return tree.members(self._leader())
        except OSError:  # no descriptors left to look with; the warden still ends all in the end
            return set()

    async def _strays(self, seen: set[Member]) -> bool:
        """Adds to `seen` those who carry our mark but descend from others (a job of `at`); whether there are any."""
        try:
            found = await in_thread(tree.trees_of, [self.mark], self._born)
        except OSError:
            return False
        seen |= {member for member in found if member.pid != self.pid}
        return bool(living(seen))

    async def _gone(self, seen: set[Member], limit: float) -> bool:
        """Waits until the leader and its tree are gone; adds to `seen` who joined meanwhile."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit
        await asyncio.wait([self._exited], timeout=limit)
        while self.exit is not None:
            if not living(seen):
                joined = self._members()
                if not joined:
                    return True
                seen |= joined
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(POLL)
        return False

    async def _kill(self, seen: set[Member]) -> None:
        """KILL until nothing is left: a fork may race the walk."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + KILL_LIMIT
        while loop.time() < deadline:
            self._signal_all(seen, signal.SIGKILL)
            if await self._gone(seen, POLL):
                return
            seen |= self._members()
        _log.warning("pid %d or what it started could not be killed within %g s", self.pid, KILL_LIMIT)

    def _signal_all(self, seen: set[Member], sig: int) -> None:
        """Once to each: many programs that are interrupted a second time abort what they do upon the first."""
        grouped = set() if sig == signal.SIGKILL else self._grouped(seen)
        self._signal(sig, group=True)
        tree.send(seen - grouped, sig)

    def _grouped(self, seen: set[Member]) -> set[Member]:
        """Of these, who gets what the leader's group gets; nobody once it has ended, for then that gets nothing."""
        if tree.identity(self.pid) is None or self.exit is not None:
            return set()
        return {member for member in seen if tree.group(member.pid) == self.pid}

    def _signal(self, sig: int, group: bool) -> None:
        if self.pid and self.exit is None:
            _log.debug("signal %d to pid %d%s", sig, self.pid, " and its group" if group else "")
            self.link.send(("signal", self.id, int(sig), group))


async def end_detached(detached: Callable[[], set[Member]], known: set[Member], grace: float = 0.5) -> tuple[str, ...]:
    """Ends what has detached itself and was not `known` before. It may go by itself within `grace`.

    Returns "pid command" of each that had to be killed; on cancel it is killed at once.
    """
    seen = detached() - known
    try:
        for _ in range(int(grace / POLL)):
            seen = living(seen)
            if not seen:
                return ()
            await asyncio.sleep(POLL)
        seen |= detached() - known
        leaked = tuple(tree.name(member) for member in sorted(living(seen)))
        for _ in range(int(KILL_LIMIT / POLL)):  # a fork may race the walk
            tree.send(seen, signal.SIGKILL)
            await asyncio.sleep(POLL)
            seen = living(seen) | (detached() - known)
            if not seen:
                break
        return leaked
    except asyncio.CancelledError:
        tree.send(seen, signal.SIGKILL)
        raise


def living(seen: set[Member]) -> set[Member]:
    try:
        return tree.living(seen)
    except OSError:
        return set()


async def in_thread(work: Callable[..., T], *arguments: object) -> T:
    """In the walker's thread; within the loop when no thread can be had."""
    try:
        return await asyncio.get_running_loop().run_in_executor(WALKER, work, *arguments)
    except RuntimeError:
        return work(*arguments)
