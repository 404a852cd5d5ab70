"""A terminal that lives in another ostler process, asked over its owner's socket."""

from collections.abc import AsyncGenerator, Callable
from typing import Literal

from msgspec import convert

from ostler.access import Rights
from ostler.errors import OstlerError
from ostler.model import Exit, Owner, SignalName, TerminalRow
from ostler.terminal.lease import Author
from ostler.terminal.screen.protocol import Snapshot
from ostler.terminal.viewer_protocol import Format, Gone, ScreenRows, ViewerInput, Viewing
from ostler.work.owner import OwnerReply, ask_owner
from ostler.work.store_changes import change_since
from ostler.work.terminals.context import TerminalContext
from ostler.work.terminals.ended import EndedTerminal
from ostler.work.terminals.remote_viewing import LastState, remote_view
from ostler.work.terminals.requests import (
    KillTerminal,
    LeaseTerminal,
    ReadTerminalText,
    SnapshotTerminal,
    TerminalRequest,
    TypeIntoTerminal,
    ViewTerminal,
)
from ostler.work.terminals.terminal import described, watch_rows


class RemoteTerminal:
    """Implements `Terminal`. `find` gives its row as it is now, `last_state` how it ended when its owner is gone."""

    def __init__(
        self,
        owner: Owner,
        row: TerminalRow,
        *,
        context: TerminalContext,
        find: Callable[[str], TerminalRow],
        last_state: LastState,
    ) -> None:
        self._owner, self._row = owner, row
        self._context, self._store = context, context.store
        self._find, self._last_state = find, last_state

    def __repr__(self) -> str:
        return described(self, self._row)

    @property
    def row(self) -> TerminalRow:
        return self._find(self._row.id)

    async def view(
        self, author: Author, rights: Rights = "view", offset: int | None = None, format: Format = "bytes"
    ) -> Viewing:
        request = ViewTerminal(terminal=self._row.id, author=author, rights=rights, offset=offset, format=format)
        try:
            return await remote_view(self._owner, self._row, request, self._last_state)
        except OstlerError as error:
            return await self._ended_after(error).view(author, rights, offset, format)

    def rows(self) -> AsyncGenerator[ScreenRows | Gone, None]:
        return watch_rows(self)

    async def snapshot(self, history: bool = False, at: float | None = None) -> Snapshot:
        if at is not None:  # what is on disk can be read from here
            return await EndedTerminal(self.row, self._context).snapshot(history, at)
        reply = await self._ask(SnapshotTerminal(terminal=self._row.id, history=history))
        if isinstance(reply, EndedTerminal):
            return await reply.snapshot(history)
        return convert(reply["snapshot"], Snapshot)

    async def text(self, limit: int | None = None, since: int | None = None) -> str:
        reply = await self._ask(ReadTerminalText(terminal=self._row.id, limit=limit, since=since))
        return await reply.text(limit, since) if isinstance(reply, EndedTerminal) else str(reply["text"])

    async def input(self, author: Author, message: ViewerInput, take: bool = False) -> None:
        reply = await self._ask(TypeIntoTerminal(terminal=self._row.id, author=author, message=message, take=take))
        if isinstance(reply, EndedTerminal):
            await reply.input(author, message, take)

    async def lease(self, author: Author, action: Literal["take", "release"]) -> None:
        reply = await self._ask(LeaseTerminal(terminal=self._row.id, author=author, action=action))
        if isinstance(reply, EndedTerminal):
            await reply.lease(author, action)

    async def kill(self, signal: SignalName | None = None) -> None:
        await self._ask(KillTerminal(terminal=self._row.id, signal=signal))

    async def wait(self) -> Exit | None:
        while True:
            version = self._store.data_version()
            row = self.row
            if row.state == "ended":
                return row.exit
            await change_since(self._store, version)

    async def _ask(self, request: TerminalRequest) -> OwnerReply | EndedTerminal:
        """The owner's reply; what is left of the terminal if it has ended meanwhile."""
        try:
            return await ask_owner(self._owner, request)
        except OstlerError as error:
            return self._ended_after(error)

    def _ended_after(self, error: OstlerError) -> EndedTerminal:
        """An owner that does not know it, or does not answer, may have ended it just now; else it is an error."""
        row = self.row if error.kind in ("not_found", "crashed") else None
        if row is None or row.state == "live":
            raise error
        return EndedTerminal(row, self._context)
