"""What every terminal can do, wherever it lives."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Literal, Protocol

from ostler.access import Rights
from ostler.model import Exit, SignalName, TerminalRow
from ostler.terminal.lease import Author
from ostler.terminal.screen.protocol import Snapshot
from ostler.terminal.viewer_protocol import (
    Format,
    Gone,
    RefusedMessage,
    ScreenRows,
    ViewerInput,
    Viewing,
    read_terminal_message,
)

if TYPE_CHECKING:
    from ostler.terminal.live import LiveTerminal


class Source(Protocol):
    """What runs here and is shown: a program, or a turn without a terminal of its own."""

    @property
    def row(self) -> TerminalRow: ...
    @property
    def live(self) -> "LiveTerminal": ...
    @property
    def stored(self) -> bool:
        """Its end is stored, and nothing of it is here any more."""
        ...

    async def kill(self, signal: SignalName | None = None) -> None: ...
    async def wait(self) -> Exit | None: ...


class Terminal(Protocol):
    """One terminal: of this process, of another one, or only on disk any more. From `Terminals.locate`.

    It stays good when the terminal ends: then it shows what was kept of it, and accepts no more input.
    """

    @property
    def row(self) -> TerminalRow:
        """As it is now."""
        ...

    async def view(
        self, author: Author, rights: Rights = "view", offset: int | None = None, format: Format = "bytes"
    ) -> Viewing:
        """A viewer; `offset`: it has seen everything before that. By `rows` it needs no emulator."""
        ...

    def rows(self) -> AsyncGenerator[ScreenRows | Gone, None]:
        """The screen, then the rows that change, with cursor, bell and title; `Gone` at the end."""
        ...

    async def snapshot(self, history: bool = False, at: float | None = None) -> Snapshot:
        """What it shows, or showed at the end; with `history` its `vt` begins with the scrollback.

        With `at`, what it showed so many seconds after it began, by its recording (`not_found` if it has none).
        """
        ...

    async def text(self, limit: int | None = None, since: int | None = None) -> str:
        """The last output as plain text, at most `limit` characters; with `since`, what came after that offset."""
        ...

    async def input(self, author: Author, message: ViewerInput, take: bool = False) -> None:
        """Types as `author`; with `take` the keyboard is taken first. `denied` without it, `not_found` once ended."""
        ...

    async def lease(self, author: Author, action: Literal["take", "release"]) -> None:
        """Takes the keyboard or hands it back."""
        ...

    async def kill(self, signal: SignalName | None = None) -> None:
        """Ends the program, and returns when its end is stored; with `signal`, sends that and returns at once.

        INT and QUIT go to what runs in the foreground, as Ctrl-C does; the others to all that runs in the terminal.
        Nothing happens if it has ended. `unsupported` for what a turn says: cancel the turn.
        """
        ...

    async def wait(self) -> Exit | None:
        """Waits for its end: how the program ended, None if nobody saw it."""
        ...


def described(terminal: Terminal, row: TerminalRow) -> str:
    """The `repr` of a terminal. `row`: as far as it is known without a look into the store."""
    name = f" {row.name!r}" if row.name else ""
    return f"<{type(terminal).__name__} {row.id}{name}: {row.source}, {row.state}>"


async def watch_rows(terminal: Terminal) -> AsyncGenerator[ScreenRows | Gone, None]:
    """What `Terminal.rows` gives. Raises what is wrong, `crashed` when the process that has it is gone."""
    viewing = await terminal.view(Author("rows", "automation"), format="rows")
    try:
        async for frame in viewing.frames():
            message = read_terminal_message(frame)
            if isinstance(message, ScreenRows | Gone):
                yield message
            elif isinstance(message, RefusedMessage):
                raise message.problem.raised()
    finally:
        await viewing.close()
