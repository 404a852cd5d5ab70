"""A terminal whose program is gone: its last screen, its text, and viewers that come too late."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Literal

from msgspec import structs

from ostler.access import Rights
from ostler.errors import OstlerError
from ostler.model import Exit, SignalName, TerminalRow
from ostler.terminal.lease import Author
from ostler.terminal.row_stream import whole_screen
from ostler.terminal.screen.protocol import Snapshot
from ostler.terminal.viewer_protocol import (
    Format,
    Frame,
    Gone,
    Hello,
    ScreenRows,
    SnapshotMessage,
    ViewerInput,
    encode_message,
    output,
)
from ostler.terminal.viewer_snapshot import LIMIT, viewer_snapshot
from ostler.work.terminals.context import TerminalContext
from ostler.work.terminals.files import kept_screen, recorded_output, recorded_snapshot, recorded_text
from ostler.work.terminals.terminal import described, watch_rows


class EndedTerminal:
    """Implements `Terminal`, from what was kept of it on disk, whichever process it lived in."""

    def __init__(self, row: TerminalRow, context: TerminalContext) -> None:
        self.row = row
        self._context = context

    def __repr__(self) -> str:
        return described(self, self.row)

    async def snapshot(self, history: bool = False, at: float | None = None) -> Snapshot:
        if at is not None:
            return await recorded_snapshot(self._context, self.row, at, history)
        return (await kept_screen(self._context, self.row)).snapshot(history)

    async def text(self, limit: int | None = None, since: int | None = None) -> str:
        return await recorded_text(self._context, self.row, limit, since)

    async def view(
        self, author: Author, rights: Rights = "view", offset: int | None = None, format: Format = "bytes"
    ) -> "EndedViewing":
        last, written = await self.snapshot(history=True), None
        if format == "bytes" and offset == 0 and last.offset <= LIMIT:
            written = await recorded_output(self._context, self.row, last.offset)
        return EndedViewing(self.row, author, rights, last, offset, format, written)

    def rows(self) -> AsyncGenerator[ScreenRows | Gone, None]:
        return watch_rows(self)

    async def input(self, author: Author, message: ViewerInput, take: bool = False) -> None:
        raise self._error()

    async def lease(self, author: Author, action: Literal["take", "release"]) -> None:
        raise self._error()

    async def kill(self, signal: SignalName | None = None) -> None:
        """There is nothing left to end."""

    async def wait(self) -> Exit | None:
        return self.row.exit

    def _error(self) -> OstlerError:
        return OstlerError("not_found", f"terminal {self.row.id} has ended", "Open a new one")


class EndedViewing:
    """The last screen with its scrollback, then `exit`; a viewer that has seen all of it gets `exit` alone.

    One that asks for the output from its beginning gets that, if it is all known and not too much: `written`.
    """

    def __init__(
        self,
        row: TerminalRow,
        author: Author,
        rights: Rights,
        last: Snapshot,
        offset: int | None,
        format: Format = "bytes",
        written: bytes | None = None,
    ) -> None:
        seen_all = format == "bytes" and offset is not None and offset == last.offset
        resumed = seen_all or written is not None
        hello = Hello(terminal=row, viewer=author.id, rights=rights, resumed=resumed, format=format)
        shown: list[Frame] = [] if resumed else [last_screen(last, format)]
        if written:
            shown = [output(0, written)]
        gone = Gone(exit=row.exit, offset=last.offset)
        self._frames: list[Frame] = [encode_message(hello), *shown, encode_message(gone)]

    async def frames(self) -> AsyncIterator[Frame]:
        while self._frames:
            yield self._frames.pop(0)

    def receive(self, frame: Frame) -> None:
        """There is nothing that it could change."""

    async def close(self) -> None:
        self._frames.clear()


def last_screen(last: Snapshot, format: Format) -> str:
    """The frame that shows it."""
    return encode_message(shown(last) if format == "bytes" else whole_screen(last))


def shown(last: Snapshot) -> SnapshotMessage:
    """A last screen: nothing follows that could complete half a character at its end."""
    return structs.replace(viewer_snapshot(last, resizes=0, history=True).shown, offset=last.offset)
