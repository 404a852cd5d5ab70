"""Terminals of all sessions, wherever they live: in this process, in another one, or only on disk any more."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Literal

from msgspec import structs

from ostler import clock
from ostler.access import Rights
from ostler.errors import OstlerError, quoted
from ostler.model import Exit, Owner, Session, SignalName, TerminalRow
from ostler.store.watch import StoreWatch
from ostler.terminal.lease import Author
from ostler.terminal.live import LiveTerminal
from ostler.terminal.screen.protocol import Snapshot
from ostler.terminal.viewer_protocol import Format, Gone, ScreenRows, ViewerInput, Viewing
from ostler.work.owner import OwnerReply, Streams, alive
from ostler.work.owner_requests import OwnerRequest
from ostler.work.terminals.context import TerminalContext
from ostler.work.terminals.drawn_recording import recording_file
from ostler.work.terminals.ended import EndedTerminal
from ostler.work.terminals.follow import Followed, PrimaryViewing
from ostler.work.terminals.local import LocalTerminal
from ostler.work.terminals.new_terminal import COLS, ROWS
from ostler.work.terminals.programs import ProgramOptions, Programs
from ostler.work.terminals.prompt import LIMIT, PromptReceipt, send_prompt
from ostler.work.terminals.pty_terminal import PtyTerminal
from ostler.work.terminals.remote import RemoteTerminal
from ostler.work.terminals.remote_viewing import serve_view
from ostler.work.terminals.requests import (
    KillTerminal,
    LeaseTerminal,
    ReadTerminalText,
    SnapshotTerminal,
    TerminalRequest,
    TypeIntoTerminal,
    ViewTerminal,
)
from ostler.work.terminals.terminal import Source, Terminal
from ostler.work.turns.checks import check_folder

_DYING = 1.0  # seconds: a process that is killed closes its sockets a moment before it is gone


class Terminals:
    """Opens, finds, shows, types into and ends terminals. Reached as `Ostler.terminals`."""

    def __init__(self, context: TerminalContext) -> None:
        self._context = context
        self._store = context.store
        self._programs = Programs(context)
        self._followed = Followed(self.primary_or_newest, self.locate, self.watch)

    # -- opening -----------------------------------------------------------------------------------------

    async def open(
        self,
        session: str,
        argv: Sequence[str],
        *,
        folder: str | None = None,
        env: Mapping[str, str] | None = None,
        cols: int = COLS,
        rows: int = ROWS,
        name: str | None = None,
        primary: bool = False,
    ) -> LocalTerminal:
        """Starts a program in a terminal of its own.

        Raises `not_found` (session, folder), `missing` (command), `bad_request`, `exists` (a live one of that
        name), `too_many`; then nothing is left behind.
        """
        options = ProgramOptions(argv, folder=folder, env=env or {}, cols=cols, rows=rows, name=name)
        program = await self.open_program(session, options)
        if primary:
            await self.set_primary(program.row.session, program.row.id)
        return LocalTerminal(program, self._context)

    async def open_program(self, session: str, options: ProgramOptions) -> PtyTerminal:
        """The same for what runs it. One that is not `listed` is of a session to come: only `publish` shows it."""
        if not options.listed:
            return await self._programs.open(session, check_folder(options.folder or "."), options)
        owner = self._session(session)
        await self._settle(self._store.terminals(owner.id, live=True))
        return await self._programs.open(owner.id, owner.folder, options)

    async def publish(self, program: PtyTerminal) -> None:
        """Stores one that was not listed, now that its session is there. Nothing happens to one that is listed."""
        await self._programs.publish(program)

    # -- finding -----------------------------------------------------------------------------------------

    def get(self, id: str) -> TerminalRow:
        """Raises `not_found`."""
        row = self._store.terminal(id)
        if row is None:
            raise OstlerError("not_found", f"there is no terminal {quoted(id)}", "List them: ostler terminals --all")
        return self._current(row)

    def list(self, session: str | None = None, live: bool = False) -> "list[TerminalRow]":
        """Newest first; ended ones too, unless `live`."""
        rows = [self._current(row) for row in self._store.terminals(session, live=live)]
        return [row for row in rows if row.state == "live" or not live]

    def find(self, key: str) -> TerminalRow:
        """By id, by the beginning of one, or by the name of a live one. `not_found`, `bad_request` (several)."""
        known = self.list()
        for match in (
            [row for row in known if row.id == key],
            [row for row in known if row.name == key and row.state == "live"],
            [row for row in known if key and row.id.startswith(key)],
        ):
            if len(match) > 1:
                ids = ", ".join(row.id for row in match[:5])
                raise OstlerError("bad_request", f"{quoted(key)} could be any of {ids}", "Give more of the id")
            if match:
                return match[0]
        raise OstlerError("not_found", f"no terminal is called {quoted(key)}", "List them: ostler terminals --all")

    def live(self, id: str) -> LiveTerminal | None:
        """What is shown in it, where it lives in this process."""
        source = self._source(id)
        return source.live if source is not None else None

    def primary(self, session: str) -> TerminalRow | None:
        """The one that was chosen if it lives, else the newest live one."""
        live = self.list(self._session(session).id, live=True)
        chosen = self._session(session).primary
        return next((row for row in live if row.id == chosen), live[0] if live else None)

    def primary_or_newest(self, session: str) -> TerminalRow | None:
        """The primary one; without a live one the newest that there was."""
        return self.primary(session) or next(iter(self.list(self._session(session).id)), None)

    async def set_primary(self, session: str, id: str | None) -> None:
        """None: the newest live one again. Raises `not_found` for a terminal that is not of this session."""
        owner = self._session(session)
        if id is not None and self.get(id).session != owner.id:
            raise OstlerError("not_found", f"terminal {id} is not one of session {owner.label}")
        await self._store.change_session(owner.id, primary=id)

    def _session(self, id: str) -> Session:
        row = self._store.session(id)
        if row is None:
            raise OstlerError("not_found", f"there is no session {quoted(id)}", "List them: ostler sessions")
        return row

    def _current(self, row: TerminalRow) -> TerminalRow:
        """What this process knows better than the store; what a dead owner left live has ended."""
        if source := self._source(row.id):
            return source.row
        return structs.replace(row, state="ended") if self._orphaned(row) else row

    def _orphaned(self, row: TerminalRow) -> bool:
        known = self._programs.starts(row.id) or self._source(row.id) is not None
        return row.state == "live" and not known and self._owner(row) is None

    def _owner(self, row: TerminalRow) -> Owner | None:
        """The other process that has it, if that lives."""
        if row.owner is None or row.owner == self._context.owner:
            return None
        owner = self._store.owner(row.owner)
        return owner if owner is not None and alive(owner) else None

    def _source(self, id: str) -> Source | None:
        """What of this process it shows, if it lives here."""
        return self._programs.get(id) or self._context.of_turns.get(id)

    async def _settle(self, rows: Sequence[TerminalRow]) -> None:
        """Ends what dead owners left, if something of it is among the rows."""
        if any(self._orphaned(row) for row in rows):
            await self._context.end_orphaned()

    # -- one of them -------------------------------------------------------------------------------------

    async def locate(self, id: str) -> Terminal:
        """The terminal, wherever it lives: here, in another process, or only on disk any more. Raises `not_found`."""
        local = await self._local(id)
        if local is not None:
            return local
        row = self._store.terminal(id) or self.get(id)  # which says that there is none
        owner = self._owner(row) if row.state == "live" else None
        if owner is None:  # what a dead one left is ended first
            await self._settle([row])
            return EndedTerminal(self.get(id), self._context)
        return RemoteTerminal(
            owner,
            row,
            context=self._context,
            find=self.get,
            last_state=self._last_state,
        )

    async def locate_primary(self, session: str) -> Terminal:
        """The session's primary terminal; without a live one the newest that there was. Raises `not_found`."""
        row = self.primary_or_newest(session)
        if row is None:
            label = self._session(session).label
            raise OstlerError("not_found", f"session {label} has no terminal", "Open one: ostler exec --tty -- bash")
        return await self.locate(row.id)

    async def _local(self, id: str) -> LocalTerminal | None:
        """One that lives here, also one that is just being started."""
        await self._programs.started(id)
        source = self._source(id)
        return LocalTerminal(source, self._context) if source is not None else None

    async def _last_state(self, row: TerminalRow) -> tuple[TerminalRow, Snapshot | None]:
        """How it stands and what it showed last; asked when the connection to its owner breaks."""
        deadline = clock.monotonic() + _DYING
        while True:
            await self._settle([row])
            found = self._store.terminal(row.id)
            if found is None:  # it was released
                return structs.replace(row, state="ended"), None
            now = self._current(found)
            if now.state == "ended":
                return now, await EndedTerminal(now, self._context).snapshot(history=True)
            if clock.monotonic() > deadline:
                return now, None
            await asyncio.sleep(0.02)

    # -- the same by id: see `Terminal` ------------------------------------------------------------------

    async def view(
        self, id: str, author: Author, rights: Rights = "view", offset: int | None = None, format: Format = "bytes"
    ) -> Viewing:
        return await (await self.locate(id)).view(author, rights, offset, format)

    async def rows(self, id: str) -> AsyncGenerator[ScreenRows | Gone, None]:
        async with aclosing((await self.locate(id)).rows()) as rows:
            async for each in rows:
                yield each

    async def snapshot(self, id: str, history: bool = False, at: float | None = None) -> Snapshot:
        return await (await self.locate(id)).snapshot(history, at)

    async def text(self, id: str, limit: int | None = None, since: int | None = None) -> str:
        return await (await self.locate(id)).text(limit, since)

    async def recording(self, id: str) -> str:
        """The path of its recording, as far as that goes now. Raises `not_found`."""
        return await recording_file(self._context, self.get(id))

    async def send(
        self, id: str, text: str, *, by: str = "ostler", limit: float = LIMIT, echo: bool = True
    ) -> PromptReceipt:
        """Sends a prompt: see `send_prompt`."""
        return await send_prompt(await self.locate(id), text, by=by, limit=limit, echo=echo)

    async def input(self, id: str, author: Author, message: ViewerInput, take: bool = False) -> None:
        await (await self.locate(id)).input(author, message, take)

    async def lease(self, id: str, author: Author, action: Literal["take", "release"]) -> None:
        await (await self.locate(id)).lease(author, action)

    async def kill(self, id: str, signal: SignalName | None = None) -> None:
        await (await self.locate(id)).kill(signal)

    async def wait(self, id: str, limit: float | None = None) -> Exit | None:
        """How the program ended, None if nobody saw it. Raises `timed_out` if it runs for longer than `limit`."""
        terminal = await self.locate(id)
        try:
            async with asyncio.timeout(limit):
                return await terminal.wait()
        except TimeoutError:
            raise OstlerError("timed_out", f"terminal {id} has not ended within {limit:g} s") from None

    # -- sessions ----------------------------------------------------------------------------------------

    async def follow(self, session: str, author: Author, rights: Rights = "view", format: Format = "bytes") -> Viewing:
        """A viewer of whatever terminal is the session's primary one; it ends only when it is closed."""
        return PrimaryViewing(self._followed, self._session(session).id, author, rights, format)

    def watch(self) -> StoreWatch:
        return self._store.watch()

    # -- ending ------------------------------------------------------------------------------------------

    async def release(self, id: str) -> None:
        """Ends it if it lives, and removes it with its recording."""
        row = self.get(id)
        await self.kill(id)
        await self._programs.forget(row)

    async def close_all(self, session: str) -> None:
        """Ends every program in the session's terminals."""
        live = [row for row in self.list(session, live=True) if row.source != "turn"]
        await asyncio.gather(*(self.kill(row.id) for row in live))
        await self._settle(self._store.terminals(session, live=True))

    async def close(self) -> None:
        """Ends everything of this process."""
        await self._followed.close()
        await self._programs.close()

    # -- for other processes -----------------------------------------------------------------------------

    async def handle(self, request: OwnerRequest, streams: Streams) -> OwnerReply | None:
        """What another ostler process asks of a terminal that lives here. Raises `not_found` for any other."""
        assert isinstance(request, TerminalRequest)
        local = await self._local(request.terminal)
        if local is None:
            raise OstlerError("not_found", f"terminal {request.terminal} is not run by this process")
        match request:
            case ViewTerminal(author=author, rights=rights, offset=offset, format=format):
                await serve_view(await local.view(author, rights, offset, format), streams)
                return None
            case SnapshotTerminal(history=history):
                return {"snapshot": await local.snapshot(history)}
            case ReadTerminalText(limit=limit, since=since):
                return {"text": await local.text(limit, since)}
            case TypeIntoTerminal(author=author, message=message, take=take):
                await local.input(author, message, take)
            case LeaseTerminal(author=author, action=action):
                await local.lease(author, action)
            case KillTerminal(signal=signal):
                await local.kill(signal)
        return {"ok": True}
