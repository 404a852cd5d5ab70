"""A program in a tmux pane: control mode delivers what it writes; what is typed goes in by keys and buffers.

It is driven as a program in a terminal of ours (`pty.py`) is, but it outlives us: its own warden sees to its end.
"""

import asyncio
import logging
import marshal
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import Exit, Wall
from ostler.process import tree, warden
from ostler.process.child import end_detached, in_thread
from ostler.process.link import raise_fd_limit
from ostler.process.pipes import Size
from ostler.process.pty import INPUT_LIMIT
from ostler.process.spawn import encode, pack_request, refusal
from ostler.process.tmux import TmuxClient, TmuxPlace, run_tmux
from ostler.supervise import Loop

BOOT = "import sys; sys.path.append(sys.argv[1]); import pane_warden; pane_warden.main(sys.argv[2])"
START = 30.0  # seconds in which its warden has started the program
END = 8.0  # seconds in which the warden has ended all
SOON = 0.01
HISTORY = 2000  # lines of scrollback that are taken over with a pane
_KEYS = 128  # bytes that are typed by one command
_STATE = "#{pane_width} #{pane_height} #{cursor_x} #{cursor_y} #{alternate_on} #{cursor_flag} #{pane_title}"

_log = logging.getLogger(__name__)


class PaneRequest(Struct, frozen=True, kw_only=True):
    """A program for a pane. `streams`: files for its standard streams; then `viewer` shows its output."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    mark: str
    folder: str  # the pane's own, which is there
    wall: Wall | None = None
    remove: Sequence[str] = ()
    streams: tuple[str, str, str] | None = None
    viewer: Sequence[str] = ()

    def command(self) -> tuple[str, ...]:
        """What tmux is to run; the request itself is put into a private file, since it has secrets."""
        argv, cwd, env, _, wall, remove = pack_request(
            self.argv, self.cwd, self.env, self.mark, True, self.remove, self.wall
        )
        streams = None if self.streams is None else [encode(path) for path in self.streams]
        viewer = [encode(word) for word in self.viewer]
        packed = (argv, cwd, env, wall, remove, encode(self.folder), raise_fd_limit(), streams, viewer)
        path = os.path.join(self.folder, "request")
        for name in ("request", "started", "left", "exit"):
            _remove(os.path.join(self.folder, name))
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            marshal.dump(packed, file)
        return (sys.executable, "-I", "-S", "-c", BOOT, os.path.dirname(warden.__file__), path)


class PaneProcess:
    """The program of a pane, seen through its warden: as `child.Process`, as far as a terminal needs that."""

    def __init__(self, pid: int, start: int, mark: str, folder: str) -> None:
        """`pid` and `start` are the warden's."""
        self.pid, self.start, self.mark, self._folder = pid, start, mark, folder
        self.leaked: tuple[str, ...] = ()  # what its warden found running after it had ended, and ended
        self._exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._watching = asyncio.create_task(self._watch())

    @property
    def exit(self) -> Exit | None:
        return self._exited.result() if self._exited.done() else None

    async def wait(self) -> Exit:
        return await asyncio.shield(self._exited)

    async def begun(self, argv: Sequence[str], cwd: str) -> None:
        """Returns when the program runs. Raises what kept it from starting."""
        deadline = clock.monotonic() + START
        while not os.path.exists(os.path.join(self._folder, "started")):
            if self.exit is not None or clock.monotonic() > deadline:
                word, *rest = (_read(self._folder, "exit") or "failed warden 0").split()
                stage, number = (rest[0], int(rest[1])) if word == "failed" else ("warden", 0)
                raise refusal(stage, number, argv, cwd)
            await asyncio.sleep(SOON)

    def signal_tree(self, number: int) -> None:
        """To all that runs in the pane, but not to its warden."""
        tree.send(self._members(), number)

    async def end_by(self, number: int, grace: float, kill: Callable[[], Awaitable[None]]) -> None:
        """The signal to all of it; then its pane is closed, upon which the warden ends what is left."""
        if number != signal.SIGHUP:
            self.signal_tree(number)
            await asyncio.wait([self._exited], timeout=grace)
        if self.exit is None:
            await kill()
            await asyncio.wait([self._exited], timeout=END)
        if self.exit is None or tree.marked(self.mark):
            await in_thread(tree.end_marked, {self.mark}, tree.as_members([self.pid]) if self.exit is None else ())
            await asyncio.wait([self._exited], timeout=1.0)

    async def let_go(self) -> None:
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)

    def detached(self) -> set[tree.Member]:
        """What the program started that no longer descends from it: its warden has adopted it."""
        leader = _read(self._folder, "started")
        if not leader or tree.gone(self.pid, self.start):
            return set()
        try:
            return tree.detached(tree.Leader(int(leader), True, self.mark, self.pid, frozenset(), True))
        except OSError:  # no descriptors left to look with; the warden still ends all in the end
            return set()

    async def sweep_detached(self, known: set[tree.Member], grace: float = 0.5) -> tuple[str, ...]:
        """Ends what has detached itself from a program that goes on, but for what was `known` before."""
        return await end_detached(self.detached, known, grace)

    def _members(self) -> set[tree.Member]:
        return tree.as_members(tree.below([self.pid])) if not tree.gone(self.pid, self.start) else set()

    async def _watch(self) -> None:
        await _until_gone(self.pid, self.start)
        self.leaked = tuple(_read(self._folder, "left", 1 << 16).splitlines())
        written = _read(self._folder, "exit")
        if not written:  # it was killed, and whoever has a process group of their own heard of no hang-up
            await in_thread(tree.end_marked, {self.mark})
        word, *rest = (written or "exit -9").split()
        code = int(rest[0]) if word == "exit" else 127
        if not self._exited.done():
            self._exited.set_result(Exit(code=code) if code >= 0 else Exit(signal=-code))


class Pane:
    """The terminal of a program in a tmux pane: what `pty.Pty` is for one of ours."""

    answers = False  # tmux answers what a program asks its terminal

    def __init__(self, id: str, client: TmuxClient, place: TmuxPlace, process: PaneProcess, size: Size) -> None:
        self.id, self.client, self.place, self.process, self.size = id, client, place, process, size
        self.resized: Callable[[Size], None] = lambda _: None
        self._output: Callable[[bytes], None] = lambda _: None
        self._seed = b""  # what it showed when it was taken over
        self._left = asyncio.Event()
        self._queue: asyncio.Queue[tuple[str, bytes | tuple[str, ...]]] = asyncio.Queue()
        self._waiting = 0  # bytes that are not typed yet
        self._untyped = False  # what was typed last has failed, and nobody has been told yet
        self._typing = Loop(f"typing into pane {id}", self._type)
        self._typing.start()
        self._wanted: Size | None = None  # the size that it is to get
        self._news = asyncio.Event()  # its size is to be looked at, or set
        self._looking = Loop(f"looking at pane {id}", self._look_at_size)
        self._looking.start()

    # -- what comes

    def start(self, output: Callable[[bytes], None], crowded: Callable[[], bool] = lambda: False) -> None:
        """Hands on what comes. tmux is not slowed down: what it sends is taken, however far behind others are."""
        self._output = output
        if self._seed:
            output(self._seed)
        self.client.listen(self.id, output)
        self.client.when_changed(self._look)

    async def take_over(self) -> None:
        """Reads what it shows now, as bytes that draw it; `start` hands that on first, then what came since.

        tmux does not say whether the program wants bracketed pastes. It keeps to that itself when it pastes.
        """
        capture = ("capture-pane", "-p", "-e", "-S", f"-{HISTORY}", "-t", self.id)
        (state, *_), lines = await asyncio.gather(
            self.client.command("display-message", "-p", "-t", self.id, _STATE),
            self.client.command(*capture, then=lambda: self.client.expect(self.id)),
        )
        cols, rows, x, y, alternate, cursor, title = [*state.split(" ", 6), "", "", ""][:7]
        self.size = Size(int(cols), int(rows))
        drawn = "\r\n".join(lines[-int(rows) :] if alternate == "1" else lines)
        screen = "\x1b[?1049h" if alternate == "1" else ""
        screen += f"\x1b[H\x1b[2J{drawn}\x1b[0m\x1b[{int(y) + 1};{int(x) + 1}H\x1b[?2004h\x1b]2;{title}\x07"
        self._seed = (screen + ("" if cursor == "1" else "\x1b[?25l")).encode()

    async def rejoin(self, client: TmuxClient) -> None:
        """The client was lost, the pane was not: it goes on by another one. Raises where it has gone after all."""
        self.client = client
        await self.take_over()
        self._seed = b"\x1bc" + self._seed
        self.start(self._output)

    async def look(self) -> None:
        """Learns of its size."""
        try:
            [shown] = await self.client.command("display-message", "-p", "-t", self.id, "#{pane_width} #{pane_height}")
            size = Size(*map(int, shown.split()))
        except (OstlerError, ValueError):
            return  # it has just ended
        if size != self.size:
            self.size = size
            self.resized(size)

    def _look(self) -> None:
        self._news.set()

    async def _look_at_size(self) -> None:
        """One look, once there is news. What comes meanwhile is looked at next."""
        await self._news.wait()
        self._news.clear()
        wanted, self._wanted = self._wanted, None
        if wanted not in (None, self.size):
            await self._resize(*wanted)
        await self.look()

    # -- what is typed

    def write(self, data: bytes) -> None:
        """Characters and codes, one after the other. `too_many` when tmux does not take them.

        `undelivered`, once, when what was typed before could not be, for a reason that nobody expected.
        """
        self._put("send", data)

    def press(self, keys: tuple[str, ...]) -> None:
        """Keys by tmux's names: it knows how the program wants them."""
        self._put("keys", keys)

    def paste(self, data: bytes) -> None:
        """Text by a buffer, in brackets if the program asked for them."""
        self._put("paste", data)

    def _put(self, how: str, what: bytes | tuple[str, ...]) -> None:
        if self.process.exit is not None or self._left.is_set():
            raise OstlerError("not_found", "the program has ended", "Open a new terminal")
        if how == "send" and self._waiting + len(what) > INPUT_LIMIT:
            raise OstlerError("too_many", "the program does not read its input", "Try again later, or interrupt it")
        if self._untyped:
            self._untyped = False
            raise OstlerError("undelivered", "what was typed last did not reach the pane", "Type it again")
        self._waiting += len(what)
        self._queue.put_nowait((how, what))

    async def _type(self) -> None:
        """Types what is next."""
        how, what = await self._queue.get()
        try:
            await self._typed(how, what)
        except OstlerError as error:
            _log.debug("pane %s took no input: %s", self.id, error)  # mostly it is gone: its end is told elsewhere
        except Exception:
            self._untyped = True
            raise
        finally:
            self._waiting -= len(what)

    async def _typed(self, how: str, what: bytes | tuple[str, ...]) -> None:
        await self.client.command("copy-mode", "-q", "-t", self.id)  # in which keys would mean something else
        if isinstance(what, tuple):
            for key in what:
                await self.client.command("send-keys", "-t", self.id, key)
        elif how == "paste":
            name = f"ostler-{self.id.lstrip('%')}"
            await run_tmux(self.place, "load-buffer", "-b", name, "-", given=what)
            await self.client.command("paste-buffer", "-p", "-r", "-d", "-b", name, "-t", self.id)
        else:
            for n in range(0, len(what), _KEYS):
                codes = [f"{byte:02x}" for byte in what[n : n + _KEYS]]
                await self.client.command("send-keys", "-t", self.id, "-H", *codes)

    async def type_in(self, source: bytes | int) -> None:
        raise OstlerError("unsupported", "a pane cannot read from a file")

    def resize(self, cols: int, rows: int) -> None:
        """Of its window, if it has that for itself."""
        self._wanted = Size(cols, rows)
        self._news.set()

    async def _resize(self, cols: int, rows: int) -> None:
        try:
            [panes] = await self.client.command("display-message", "-p", "-t", self.id, "#{window_panes}")
            if panes == "1":
                await self.client.command("resize-window", "-t", self.id, "-x", str(cols), "-y", str(rows))
        except OstlerError:
            pass  # it has just ended

    def signal(self, number: int) -> None:
        self.process.signal_tree(number)

    # -- the end

    async def end_by(self, number: int, grace: float) -> None:
        await self.process.end_by(number, grace, self._kill)

    async def _kill(self) -> None:
        try:
            await self.client.command("kill-pane", "-t", self.id)
        except OstlerError:
            pass  # it is gone, or the server is: the warden ends its tree

    async def to_end(self) -> Exit | None:
        """Waits for the program's exit and its last bytes; None when it was left to itself."""
        leaving = asyncio.create_task(self._left.wait())
        exiting = asyncio.create_task(self.process.wait())
        try:
            await asyncio.wait([leaving, exiting], return_when=asyncio.FIRST_COMPLETED)
            if exiting.done():
                await self.drained()
                return exiting.result()
            return None
        finally:
            leaving.cancel()
            exiting.cancel()
            await self.close()

    @property
    def leaked(self) -> tuple[str, ...]:
        return self.process.leaked

    async def drained(self) -> None:
        """What tmux has of it has come: replies and output come in order."""
        try:
            await self.client.command("display-message", "-p", "")
        except OstlerError:
            pass  # the server has ended with it

    @property
    def at_work(self) -> bool:
        return self.process.exit is None and not self._left.is_set()

    def leave(self) -> None:
        """The program goes on without us."""
        self._left.set()

    async def close(self) -> None:
        self.client.leave(self.id)
        self.client.forget(self._look)
        await self.process.let_go()
        await self._typing.stop()
        await self._looking.stop()


async def _until_gone(pid: int, start: int) -> None:
    """Until that very process has ended: told by the kernel, where it can."""
    try:
        fd = os.pidfd_open(pid)
    except (OSError, AttributeError):
        while not tree.gone(pid, start):
            await asyncio.sleep(0.1)
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        if not tree.gone(pid, start):
            loop.add_reader(fd, ended.set)
            await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def _read(folder: str, name: str, most: int = 100) -> str:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return file.read(most)
    except (OSError, ValueError):
        return ""


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # it is not there
