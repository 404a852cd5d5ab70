"""One terminal of a program that runs here: from its spawn to its stored end."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import Exit, SignalName, TerminalRow, Wall
from ostler.process import SIGNALS, Size, Warden
from ostler.process.pane import Pane
from ostler.process.pty import Pty
from ostler.process.tree import Member
from ostler.store import Redactor, Store
from ostler.supervise import Loop
from ostler.terminal.cast import CastWriter
from ostler.terminal.live import LiveTerminal
from ostler.terminal.screen.screens import Screens, nothing
from ostler.work.terminals.files import LastScreen, keep_screen
from ostler.work.terminals.recording import remove_files
from ostler.work.turns.unwritten import Unwritten

_SAVE_EVERY = 0.25  # seconds: some programs turn a wheel in their title

_log = logging.getLogger(__name__)


class PtyTerminal:
    """Made by `start`. `done` ends when the terminal is stored as ended; `live` is what people see."""

    def __init__(
        self,
        row: TerminalRow,
        pty: Pty | Pane,
        store: Store,
        screens: Screens,
        cast: CastWriter,
        redactor: Redactor,
        unwritten: Unwritten,
        listed: bool = True,
    ) -> None:
        """Not `listed`, its row is not stored: see `publish`."""
        self._store = store
        self._listed, self._listing = asyncio.Event(), asyncio.Lock()
        if listed:
            self._listed.set()
        self._unwritten = unwritten
        self._pty = pty
        self._dirty = asyncio.Event()
        self.exit: Exit | None = None
        self.at_end: Callable[[LiveTerminal], None] = nothing  # the log is whole; soon it may be let go
        self.live = LiveTerminal(
            row,
            screens,
            controls=pty,
            cast=cast,
            redactor=redactor,
            changed=lambda _: self._dirty.set(),
            answers=pty.answers,
        )
        self.done = asyncio.create_task(self._live())
        pty.start(self.live.output, lambda: self.live.crowded)

    @classmethod
    async def start(
        cls,
        row: TerminalRow,
        argv: Sequence[str],
        *,
        warden: Warden,
        env: Mapping[str, str],
        store: Store,
        screens: Screens,
        cast: CastWriter,
        redactor: Redactor,
        mark: str,
        unwritten: Unwritten,
        wall: Wall | None = None,
        listed: bool = True,
    ) -> "PtyTerminal":
        """Spawns the program of a row that is stored already, if it is listed. Raises what `Warden.spawn` raises."""
        size = Size(row.cols, row.rows)
        process = await warden.spawn(
            argv, cwd=row.folder, env=env, mark=mark, stdin=None, tty=size, keep_stdin=True, wall=wall
        )
        _log.info("terminal %s is open: %s (pid %d), %dx%d", row.id, argv[0], process.pid, size.cols, size.rows)
        return cls(replace(row, pid=process.pid), Pty(process), store, screens, cast, redactor, unwritten, listed)

    async def publish(self, add: Callable[[TerminalRow], Awaitable[TerminalRow]]) -> None:
        """From now on it is listed: `add` stores its row, under a name that is free. Raises `crashed` if it has ended,
        and what `add` raises.
        """
        async with self._listing:
            if self._listed.is_set():
                return
            if self.ending:
                raise OstlerError("crashed", f"the program in terminal {self.row.id} has ended")
            name = (await add(self.row)).name
            self.live.row = replace(self.row, name=name)
            self._listed.set()
            self._dirty.set()

    @property
    def leaked(self) -> tuple[str, ...]:
        """What it left running and had to be killed."""
        return self._pty.leaked

    def detached(self) -> set[Member]:
        """What no longer descends from its program: daemons, and what they started."""
        return self._pty.process.detached()

    async def sweep_detached(self, known: set[Member]) -> tuple[str, ...]:
        """While its program goes on: ends what has detached itself and was not `known` before; what it was."""
        return await self._pty.process.sweep_detached(known)

    @property
    def row(self) -> TerminalRow:
        return self.live.row

    @property
    def ending(self) -> bool:
        """Its program has exited, whatever of it is still to be stored."""
        return self._pty.process.exit is not None

    async def finished(self) -> Exit:
        """How the leader ended, once its last bytes are in the log; what it left running may still be there."""
        exit = await self._pty.process.wait()
        await self._pty.drained()
        self.live.settle()
        return exit

    async def type_in(self, source: bytes | int) -> None:
        """Types what a descriptor gives, or bytes, and then the end of file."""
        await self._pty.type_in(source)

    async def end(self, signal: SignalName | None = None) -> None:
        """Hangs up, or sends the signal to all that runs in it; KILL to what does not obey. The end is stored then."""
        await self._pty.end_by(SIGNALS[signal or "HUP"], 1.0)
        await asyncio.shield(self.done)

    async def let_go(self) -> None:
        """Ostler closes: the program ends with it, or goes on in its pane. The end of the terminal is stored then."""
        if isinstance(self._pty, Pty):
            await self.kill()
        else:
            self._pty.leave()
            await asyncio.shield(self.done)

    async def terminate(self) -> None:
        """TERM to all that runs in it, and KILL to what does not obey. Nothing happens if it has ended."""
        if self._pty.process.exit is None:
            await self._pty.end_by(SIGNALS["TERM"], 2.0)

    @property
    def stored(self) -> bool:
        return self.done.done()

    async def kill(self, signal: SignalName | None = None) -> None:
        """Hangs up, and returns once the end is stored; with `signal`, sends that alone."""
        if signal is not None:
            self._pty.signal(SIGNALS[signal])
        else:
            await self.end()

    async def wait(self) -> Exit | None:
        await asyncio.shield(self.done)
        return self.exit

    async def _live(self) -> None:
        """To the end of the program, whatever happens to the emulation or the store on the way."""
        saving = Loop(f"keeping the row of terminal {self.row.id}", self._save)
        saving.start()
        try:
            self.exit = await self._pty.to_end()
            _log.info("terminal %s has ended", self.row.id)
            self.live.settle()
        finally:
            self.at_end(self.live)
            await saving.stop()
            await self._end()

    async def _end(self) -> None:
        await self.live.end(self.exit)
        async with self._listing:
            if not self._listed.is_set():
                remove_files(self.row)  # nobody has seen it, and nobody will
                return
        with contextlib.suppress(OstlerError, OSError):  # the recording shows the same
            plain, whole = await self.live.snapshot(), await self.live.snapshot(history=True)
            keep_screen(self.row, LastScreen(plain, whole.vt))
        row = self.row
        end = partial(
            self._store.end_terminal,
            row.id,
            exit=self.exit,
            ended_at=row.ended_at or clock.now(),
            size=self.live.log.end,
            title=row.title,
            bells=row.bells,
            cols=row.cols,
            rows=row.rows,
            pid=None,
        )
        await self._unwritten.write(row.id, end)
        self.live.free_log()

    async def _save(self) -> None:
        """Writes down what changed, not more often than people could see. A full disk ends no terminal."""
        await self._listed.wait()
        await self._dirty.wait()
        row = self.row
        kept = {name: getattr(row, name) for name in ("title", "bells", "cols", "rows", "pid", "held_by")}
        await self._store.change_terminal(row.id, **kept)
        if row == self.row:
            self._dirty.clear()
        await asyncio.sleep(_SAVE_EVERY)
