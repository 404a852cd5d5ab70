"""A tmux server: its control client, through which all is asked, heard and typed."""

import asyncio
import logging
import os
from asyncio.subprocess import DEVNULL, PIPE, Process, create_subprocess_exec
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from ostler.errors import OstlerError
from ostler.process.control_mode import (
    CommandReply,
    ControlEvent,
    ControlParser,
    PaneOutput,
    TmuxNotice,
    command_line,
    version_of,
)
from ostler.supervise import FIRST_PAUSE, Loop

NEEDED = (3, 2)
PATIENCE = 10.0  # seconds for an answer of a server that is asked something
_PIECE = 1 << 16
_ENDED = (  # what tmux says when there is no server any more, and just before, when there is no session
    "tmux has ended", "no server", "server exited", "error connecting", "lost server",
    "no sessions", "no current target", "can't find session",
)  # fmt: skip
_EARLY = 1 << 20  # bytes of a pane that came before anybody could take them

Sink = Callable[[bytes], None]

_log = logging.getLogger(__name__)


class TmuxSessionEnded(OstlerError):
    """With its last pane, or since somebody ended it; a server ends with its last session."""

    def __init__(self) -> None:
        super().__init__("crashed", "the tmux session has ended, and all panes with it", "Run it again")


class TmuxPlace(Struct, frozen=True, kw_only=True):
    """Where a tmux server is reached: its socket, as named from `folder`, and the session in it."""

    program: str
    folder: str  # from which clients are started: a socket's path may have 107 bytes only
    socket: str
    session: str
    config: str = ""  # empty: the user's own
    env: dict[str, str] = {}

    @property
    def key(self) -> tuple[str, str, str]:
        return self.folder, self.socket, self.session

    def argv(self, *words: str) -> tuple[str, ...]:
        config = ("-f", self.config) if self.config else ()
        return (self.program, "-u", "-S", self.socket, *config, *words)


class TmuxClient:
    """A client in control mode, attached to the session; `lost` is called once when it has ended."""

    def __init__(self, process: Process, lost: Callable[[], None]) -> None:
        self._process, self._lost = process, lost
        self._parser = ControlParser()
        self._asked: deque[tuple[asyncio.Future[CommandReply], Callable[[], None] | None]] = deque()
        self._hello: asyncio.Future[CommandReply] = asyncio.get_running_loop().create_future()
        self._sinks: dict[str, Sink] = {}
        self._early: dict[str, bytearray] = {}  # output of panes that somebody will listen to
        self._opening = 0  # panes that are just being made
        self._changed: list[Callable[[], None]] = []
        self.alive = True
        self._events: Iterator[ControlEvent] = iter(())  # what came and is to be handed on
        # All panes wait while it pauses: never for long.
        self._reading = Loop(f"reading from tmux ({process.pid})", self._read, longest=FIRST_PAUSE)
        self._reading.start()

    @classmethod
    async def start(cls, place: TmuxPlace, words: tuple[str, ...], lost: Callable[[], None]) -> "TmuxClient":
        """Runs the command by which it gets to its session. Raises `crashed` where that cannot be."""
        process = await _spawn(place, ("-C", *words), stdin=PIPE)
        client = cls(process, lost)
        try:
            async with asyncio.timeout(PATIENCE):
                reply = await client._hello
            if not reply.ok:
                raise _refused(words, reply)
        except TimeoutError:
            await client.close()
            raise OstlerError("crashed", "tmux does not answer", f"Its socket is {place.socket}") from None
        except (OstlerError, asyncio.CancelledError):
            await client.close()
            raise
        return client

    async def command(self, *words: str, then: Callable[[], None] | None = None) -> list[str]:
        """The lines that a command prints. Raises `not_found` for what tmux refuses, `crashed` when it is gone.

        `then` is called at the very place of the reply in the stream: what comes after it is newer.
        """
        if not self.alive or self._process.stdin is None:
            raise TmuxSessionEnded
        line = command_line(words)  # before an answer is waited for: one that cannot be asked has none
        answer: asyncio.Future[CommandReply] = asyncio.get_running_loop().create_future()
        self._asked.append((answer, then))
        self._process.stdin.write(line)
        try:
            async with asyncio.timeout(PATIENCE):
                reply = await asyncio.shield(answer)
        except TimeoutError:
            raise OstlerError("crashed", f"tmux did not answer `{words[0]}` within {PATIENCE:g} s") from None
        if not reply.ok:
            raise _refused(words, reply)
        return [line.decode("utf-8", "replace") for line in reply.lines]

    async def opening(self, *words: str) -> list[str]:
        """A command that makes a pane: its output is kept until `listen` is called for it."""
        self._opening += 1
        try:
            return await self.command(*words)
        finally:
            self._opening -= 1

    def expect(self, pane: str) -> None:
        """What comes from here on is kept until somebody listens."""
        self._early[pane] = bytearray()

    def listen(self, pane: str, sink: Sink) -> None:
        """From here on, with what was kept."""
        self._sinks[pane] = sink
        if early := self._early.pop(pane, None):
            sink(bytes(early))

    def leave(self, pane: str) -> None:
        self._sinks.pop(pane, None)

    def when_changed(self, call: Callable[[], None]) -> None:
        """`call` is called when panes were made, closed or got another size."""
        self._changed.append(call)

    def forget(self, call: Callable[[], None]) -> None:
        if call in self._changed:
            self._changed.remove(call)

    async def close(self) -> None:
        """Detaches: the server and its panes stay. Idempotent."""
        self._lost = lambda: None
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(1.0):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading.stop()
        self._ended()

    async def _read(self) -> None:
        """Hands on what came, then reads on. An event that its listener cannot take costs no other one."""
        for event in self._events:
            self._take(event)
        assert self._process.stdout is not None
        try:
            data = await self._process.stdout.read(_PIECE)
        except OSError as error:
            _log.warning("nothing more can be read from tmux: %s", error)
            data = b""
        if not data:
            self._ended()
            await asyncio.Future()  # until it is stopped
        self._events = iter(self._parser.feed(data))

    def _take(self, event: ControlEvent) -> None:
        match event:
            case PaneOutput(pane, data) if pane in self._sinks:
                self._sinks[pane](data)
            case PaneOutput(pane, data) if pane in self._early or self._opening:
                early = self._early.setdefault(pane, bytearray())
                early += data[: max(0, _EARLY - len(early))]
            case CommandReply(asked=True) if self._asked:
                answer, then = self._asked.popleft()
                if then is not None:
                    then()
                _settle(answer, event)
            case CommandReply():
                _settle(self._hello, event)
            case TmuxNotice(name) if name in ("layout-change", "window-close", "unlinked-window-close"):
                for call in list(self._changed):
                    call()

    def _ended(self) -> None:
        if not self.alive:
            return
        self.alive = False
        gone = CommandReply(False, (b"tmux has ended",), asked=True)
        _settle(self._hello, gone)
        while self._asked:
            _settle(self._asked.popleft()[0], gone)
        self._lost()


async def run_tmux(place: TmuxPlace, *words: str, given: bytes | None = None) -> str:
    """What one command prints, which may read `given`. Raises `not_found` for what tmux refuses."""
    process = await _spawn(place, words, stdin=DEVNULL if given is None else PIPE)
    out = await _printed(process, words[0], given)
    if process.returncode:
        raise _refused(words, CommandReply(False, tuple(out.strip().splitlines()), asked=True))
    return out.decode("utf-8", "replace")


async def _printed(process: Process, command: str, given: bytes | None = None) -> bytes:
    """All that it prints. Raises `crashed` when that takes too long; then, and on cancel, it is killed."""
    try:
        async with asyncio.timeout(PATIENCE):
            out, _ = await process.communicate(given)
    except TimeoutError:
        raise OstlerError("crashed", f"tmux did not answer `{command}` within {PATIENCE:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out


async def check_version(program: str) -> str:
    """Its version. Raises `unsupported` for one that is too old, `missing` or `crashed` where it cannot be run."""
    process = await _spawn_program((program, "-V"), "/", {}, DEVNULL)
    printed = (await _printed(process, "-V")).decode("utf-8", "replace").strip()
    if process.returncode:
        raise OstlerError("missing", f"`{program} -V` failed: {printed or f'exit code {process.returncode}'}", _INSTALL)
    known = version_of(printed)
    if known is not None and known < NEEDED:
        needed = ".".join(map(str, NEEDED))
        message = f"{printed} is too old: panes need tmux {needed} or newer"
        raise OstlerError("unsupported", message, f"Install tmux {needed}, or use --transport pty")
    return printed.removeprefix("tmux ")


async def _spawn(place: TmuxPlace, words: tuple[str, ...], stdin: int) -> Process:
    return await _spawn_program(place.argv(*words), place.folder, place.env, stdin)


async def _spawn_program(argv: tuple[str, ...], cwd: str, env: Mapping[str, str], stdin: int) -> Process:
    """Not by the warden: a server that this starts has to outlive us."""
    try:
        return await create_subprocess_exec(
            *argv, cwd=cwd, env=dict(env), stdin=stdin, stdout=PIPE, stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise OstlerError("missing", f"tmux cannot be started: {os.strerror(error.errno or 0)}", _INSTALL) from error


_INSTALL = "Install tmux (apt install tmux, brew install tmux), or use --transport pty"


def no_tmux() -> OstlerError:
    return OstlerError("missing", "`tmux` is not on PATH", _INSTALL)


def _settle(answer: "asyncio.Future[CommandReply]", reply: CommandReply) -> None:
    if not answer.done():
        answer.set_result(reply)


def _refused(words: tuple[str, ...], reply: CommandReply) -> OstlerError:
    why = b" ".join(reply.lines).decode("utf-8", "replace")
    if why.startswith(_ENDED):
        return TmuxSessionEnded()
    return OstlerError("not_found", f"tmux refused `{words[0]}`: {why or 'no reason given'}")
