"""One terminal of a program that runs here: from its spawn to its stored end."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from ostler.errors import OstlerError
from ostler.process import Size, Warden
from ostler.process.pty import Pty
from ostler.store import Redactor, Store
from ostler.terminal.cast import CastWriter
from ostler.terminal.live import Terminal
from ostler.terminal.screen import Screens, nothing
from ostler.words import Exit, TerminalRow
from ostler.work.terminal_files import Kept, keep_screen

_SAVE_EVERY = 0.25  # seconds: some programs turn a wheel in their title


class PtyTerminal:
    """Made by `start`. `done` ends when the terminal is stored as ended; `terminal` is what people see."""

    def __init__(
        self,
        row: TerminalRow,
        pty: Pty,
        store: Store,
        screens: Screens,
        cast: CastWriter,
        redactor: Redactor,
    ) -> None:
        self._store = store
        self._pty = pty
        self._dirty = asyncio.Event()
        self.exit: Exit | None = None
        self.at_end: Callable[[Terminal], None] = nothing  # the log is whole; soon it may be let go
        self.terminal = Terminal(
            row, screens, controls=pty, cast=cast, redactor=redactor, changed=lambda _: self._dirty.set()
        )
        self.done = asyncio.create_task(self._live())
        pty.start(self.terminal.output, lambda: self.terminal.crowded)

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
    ) -> "PtyTerminal":
        """Spawns the program of a row that is stored already. Raises what `Warden.spawn` raises."""
        size = Size(row.cols, row.rows)
        process = await warden.spawn(argv, cwd=row.folder, env=env, mark=mark, stdin=None, tty=size, keep_stdin=True)
        return cls(replace(row, pid=process.pid), Pty(process), store, screens, cast, redactor)

    @property
    def leaked(self) -> tuple[str, ...]:
        """What it left running and had to be killed."""
        return self._pty.leaked

    @property
    def row(self) -> TerminalRow:
        return self.terminal.row

    async def finished(self) -> Exit:
        """How the leader ended, once its last bytes are in the log; what it left running may still be there."""
        exit = await self._pty.process.wait()
        await self._pty.drained()
        self.terminal.settle()
        return exit

    async def terminate(self) -> None:
        """TERM to all that runs in it, and KILL to what does not obey. Nothing happens if it has ended."""
        if self._pty.process.exit is None:
            await self._pty.process.terminate()

    async def kill(self) -> None:
        """Hangs up; returns once the end is stored."""
        await self._pty.process.hang_up()
        await asyncio.shield(self.done)

    async def _live(self) -> None:
        """To the end of the program, whatever happens to the emulation or the store on the way."""
        saving = asyncio.create_task(self._save())
        try:
            self.exit = await self._pty.to_end()
            self.terminal.settle()
        finally:
            self.at_end(self.terminal)
            saving.cancel()
            await asyncio.gather(saving, return_exceptions=True)
            await self._end()

    async def _end(self) -> None:
        await self.terminal.end(self.exit)
        with contextlib.suppress(OstlerError, OSError):  # the recording shows the same
            plain, whole = await self.terminal.snapshot(), await self.terminal.snapshot(history=True)
            keep_screen(self.row, Kept(plain, whole.vt))
        row = self.row
        await self._store.end_terminal(
            row.id,
            exit=self.exit,
            ended_at=row.ended_at or time.time(),
            size=self.terminal.log.end,
            title=row.title,
            cols=row.cols,
            rows=row.rows,
            pid=None,
        )

    async def _save(self) -> None:
        """Writes down what changed, not more often than people could see."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            row = self.row
            with contextlib.suppress(OstlerError):  # a full disk ends no terminal
                await self._store.change_terminal(row.id, title=row.title, cols=row.cols, rows=row.rows, pid=row.pid)
            await asyncio.sleep(_SAVE_EVERY)
