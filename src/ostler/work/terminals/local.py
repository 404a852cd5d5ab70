"""A terminal that lives in this process."""

from collections.abc import AsyncGenerator
from typing import Literal

from ostler.access import Rights
from ostler.model import Exit, SignalName, TerminalRow
from ostler.terminal.lease import Author
from ostler.terminal.live import LiveTerminal
from ostler.terminal.screen.protocol import Snapshot
from ostler.terminal.viewer_protocol import Format, Gone, ScreenRows, ViewerInput, Viewing
from ostler.work.terminals.context import TerminalContext
from ostler.work.terminals.ended import EndedTerminal
from ostler.work.terminals.terminal import Source, described, watch_rows


class LocalTerminal:
    """Implements `Terminal`."""

    def __init__(self, source: Source, context: TerminalContext) -> None:
        self._source, self._context = source, context

    def __repr__(self) -> str:
        return described(self, self.row)

    @property
    def row(self) -> TerminalRow:
        return self._source.row

    @property
    def live(self) -> LiveTerminal:
        """For more than what every terminal can do: `subscribe`, for one."""
        return self._source.live

    async def view(
        self, author: Author, rights: Rights = "view", offset: int | None = None, format: Format = "bytes"
    ) -> Viewing:
        if self._source.stored:
            return await self._ended().view(author, rights, offset, format)
        return self.live.view(author, rights, offset, format)

    def rows(self) -> AsyncGenerator[ScreenRows | Gone, None]:
        return watch_rows(self)

    async def snapshot(self, history: bool = False, at: float | None = None) -> Snapshot:
        if at is not None or self._source.stored:
            return await self._ended().snapshot(history, at)
        return await self.live.snapshot(history)

    async def text(self, limit: int | None = None, since: int | None = None) -> str:
        if self.row.state == "ended":  # its log is gone, its recording is whole
            return await self._ended().text(limit, since)
        return self.live.text(limit, since)

    async def input(self, author: Author, message: ViewerInput, take: bool = False) -> None:
        if self._source.stored:
            await self._ended().input(author, message, take)
        if take:
            self.live.take(author)
        self.live.input(author, message)

    async def lease(self, author: Author, action: Literal["take", "release"]) -> None:
        if self._source.stored:
            await self._ended().lease(author, action)
        (self.live.take if action == "take" else self.live.release)(author)

    async def kill(self, signal: SignalName | None = None) -> None:
        if not self._source.stored:
            await self._source.kill(signal)

    async def wait(self) -> Exit | None:
        return await self._source.wait()

    def _ended(self) -> EndedTerminal:
        """What is on disk of it."""
        return EndedTerminal(self.row, self._context)
