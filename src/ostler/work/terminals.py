"""Terminals of all sessions, wherever they live: in this process, in another one, or only on disk any more."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import convert, structs, to_builtins

from ostler.errors import OstlerError
from ostler.store.watch import Watch
from ostler.terminal.lease import Author
from ostler.terminal.live import Terminal
from ostler.terminal.screen_words import Snapshot
from ostler.terminal.viewing import Input, Rights, Viewing
from ostler.words import Owner, Session, TerminalRow
from ostler.work.ended import EndedTerminal
from ostler.work.follow import Followed, Following
from ostler.work.owner import alive, ask_owner
from ostler.work.programs import Programs, Wanted
from ostler.work.pty_terminal import PtyTerminal
from ostler.work.remote import Ask, Asked, remote_view, serve_view

if TYPE_CHECKING:
    from ostler.work.ostler import Ostler


_DYING = 1.0  # seconds: a process that is killed closes its sockets a moment before it is gone


class Here(Protocol):
    """A live terminal of this process: a program's, or what a headless turn says."""

    @property
    def row(self) -> TerminalRow: ...
    @property
    def terminal(self) -> Terminal: ...
    async def kill(self) -> None: ...


class Terminals:
    """Opens, finds, shows, types into and ends terminals. Reached as `Ostler.terminals`."""

    def __init__(self, ostler: "Ostler") -> None:
        self._ostler = ostler
        self._store = ostler.store
        self._programs = Programs(ostler)
        self._followed = Followed(self)

    # -- opening -----------------------------------------------------------------------------------------

    async def open(
        self,
        session: str,
        argv: Sequence[str],
        *,
        folder: str | None = None,
        env: Mapping[str, str] | None = None,
        cols: int = 80,
        rows: int = 24,
        name: str | None = None,
        primary: bool = False,
        turn: str | None = None,
        base: Mapping[str, str] | None = None,
    ) -> Terminal:
        """Starts a program in a terminal of its own; `turn` if it is what that turn runs. With `base` instead
        of the user's environment it is a command that the turn's agent has us run.

        Raises `not_found` (session, folder), `missing` (command), `bad_request`, `exists` (a live one of that
        name), `too_many`; then nothing is left behind.
        """
        wanted = Wanted(argv, folder=folder, env=env or {}, cols=cols, rows=rows, name=name, turn=turn, base=base)
        owner = self._session(session)
        await self._settle(self._store.terminals(owner.id, live=True))
        program = await self._programs.open(owner, wanted)
        if primary:
            await self.set_primary(owner.id, program.row.id)
        return program.terminal

    # -- finding -----------------------------------------------------------------------------------------

    def get(self, id: str) -> TerminalRow:
        """Raises `not_found`."""
        row = self._store.terminal(id)
        if row is None:
            raise OstlerError("not_found", f"there is no terminal {id!r}", "List them: ostler terminals --all")
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
                raise OstlerError("bad_request", f"{key!r} could be any of {ids}", "Give more of the id")
            if match:
                return match[0]
        raise OstlerError("not_found", f"no terminal is called {key!r}", "List them: ostler terminals --all")

    def primary(self, session: str) -> TerminalRow | None:
        """The one that was chosen if it lives, else the newest live one."""
        live = self.list(self._session(session).id, live=True)
        chosen = self._session(session).primary
        return next((row for row in live if row.id == chosen), live[0] if live else None)

    async def set_primary(self, session: str, id: str | None) -> None:
        """None: the newest live one again. Raises `not_found` for a terminal that is not of this session."""
        owner = self._session(session)
        if id is not None and self.get(id).session != owner.id:
            raise OstlerError("not_found", f"terminal {id} is not one of session {owner.id}")
        await self._store.change_session(owner.id, primary=id)

    def _session(self, id: str) -> Session:
        row = self._store.session(id)
        if row is None:
            raise OstlerError("not_found", f"there is no session {id!r}", "List them: ostler sessions")
        return row

    def _current(self, row: TerminalRow) -> TerminalRow:
        """What this process knows better than the store; what a dead owner left live has ended."""
        if here := self._here(row.id):
            return here.row
        return structs.replace(row, state="ended") if self._orphaned(row) else row

    def _orphaned(self, row: TerminalRow) -> bool:
        known = self._programs.starts(row.id) or self._here(row.id) is not None
        return row.state == "live" and not known and self._owner(row) is None

    def _owner(self, row: TerminalRow) -> Owner | None:
        """The other process that has it, if that lives."""
        if row.owner is None or row.owner == self._ostler.desk.id:
            return None
        owner = self._store.owner(row.owner)
        return owner if owner is not None and alive(owner) else None

    def _here(self, id: str) -> Here | None:
        return self._programs.get(id) or self._ostler.turn_terminals.get(id)

    def program(self, id: str) -> PtyTerminal:
        """One that runs in this process."""
        program = self._programs.get(id)
        assert program is not None
        return program

    async def _at_hand(self, id: str) -> Here | None:
        """The same, also of one that is just being started."""
        await self._programs.started(id)
        return self._here(id)

    async def _settle(self, rows: Sequence[TerminalRow]) -> None:
        """Ends what dead owners left, if something of it is among the rows."""
        if any(self._orphaned(row) for row in rows):
            await self._ostler.turns.end_orphaned()

    # -- looking -----------------------------------------------------------------------------------------

    async def view(self, id: str, author: Author, rights: Rights, offset: int | None = None) -> Viewing:
        """A viewer of the terminal; `offset`: it has seen everything before that."""
        if here := await self._at_hand(id):
            return here.terminal.view(author, rights, offset)
        if ask := await self._asking(id):
            try:
                return await remote_view(ask, author, rights, offset, self._rest)
            except OstlerError as error:
                self._check_ended(id, error)
        return await self._ended(id).view(author, rights, offset)

    async def follow(self, session: str, author: Author, rights: Rights) -> Viewing:
        """A viewer of whatever terminal is the session's primary one; it ends only when it is closed."""
        return Following(self._followed, self._session(session).id, author, rights)

    async def snapshot(self, id: str, history: bool = False) -> Snapshot:
        if here := await self._at_hand(id):
            return await here.terminal.snapshot(history)
        reply = await self._asked(id, "snapshot", history=history)
        return convert(reply["snapshot"], Snapshot) if reply else await self._ended(id).snapshot(history)

    async def text(self, id: str, limit: int | None = None) -> str:
        """The last output as plain text."""
        here = await self._at_hand(id)
        if here is not None and here.row.state == "live":
            return here.terminal.text(limit)
        if here is not None:  # its log is gone, its recording is whole
            return await EndedTerminal(here.row, self._ostler.screens).text(limit)
        reply = await self._asked(id, "text", limit=limit)
        return str(reply["text"]) if reply else await self._ended(id).text(limit)

    def _ended(self, id: str) -> EndedTerminal:
        return EndedTerminal(self.get(id), self._ostler.screens)

    # -- typing ------------------------------------------------------------------------------------------

    async def input(self, id: str, author: Author, message: Input, take: bool = False) -> None:
        """Types as `author`; with `take` the keyboard is taken first."""
        if here := await self._at_hand(id):
            if take:
                here.terminal.take(author)
            here.terminal.input(author, message)
        elif not await self._asked(id, "input", author=to_builtins(author), message=to_builtins(message), take=take):
            raise ended(id)

    async def lease(self, id: str, author: Author, action: Literal["take", "release"]) -> None:
        if here := await self._at_hand(id):
            (here.terminal.take if action == "take" else here.terminal.release)(author)
        elif not await self._asked(id, "lease", author=to_builtins(author), action=action):
            raise ended(id)

    # -- ending ------------------------------------------------------------------------------------------

    async def kill(self, id: str) -> None:
        """Ends the program; the terminal stays listed and viewable. Nothing happens if it has ended."""
        if here := await self._at_hand(id):
            await here.kill()
        else:
            await self._asked(id, "kill")

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

    # -- other processes ---------------------------------------------------------------------------------

    async def _asking(self, id: str) -> Ask | None:
        """How to ask the process that has it; None if it has ended. What a dead one left is ended first."""
        row = self._store.terminal(id)
        if row is None:
            self.get(id)
        assert row is not None
        if row.state == "ended":
            return None
        owner = self._owner(row)
        if owner is None:
            await self._ostler.turns.end_orphaned()
            return None
        return Ask(owner, row)

    async def _asked(self, id: str, do: str, **fields: Any) -> dict[str, Any] | None:
        """The owner's answer; None if the terminal has ended."""
        ask = await self._asking(id)
        if ask is None:
            return None
        try:
            return await ask_owner(ask.owner, {"op": "terminal", "do": do, "terminal": id, **fields})
        except OstlerError as error:
            self._check_ended(id, error)
            return None

    def _check_ended(self, id: str, error: OstlerError) -> None:
        """An owner that does not know it, or does not answer, may have ended it just now; else it is an error."""
        if error.kind not in ("not_found", "crashed") or self.get(id).state == "live":
            raise error

    async def _rest(self, row: TerminalRow) -> tuple[TerminalRow, Snapshot | None]:
        """How it stands and what it showed last; asked when the connection to its owner breaks."""
        deadline = time.monotonic() + _DYING
        while True:
            await self._settle([row])
            found = self._store.terminal(row.id)
            if found is None:  # it was released
                return structs.replace(row, state="ended"), None
            now = self._current(found)
            if now.state == "ended":
                return now, await EndedTerminal(now, self._ostler.screens).snapshot(history=True)
            if time.monotonic() > deadline:
                return now, None
            await asyncio.sleep(0.02)

    def watch(self) -> Watch:
        return self._store.watch()

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What another ostler process asks of a terminal that lives here."""
        here = await self.local(str(request.get("terminal")))
        match request:
            case {"do": "snapshot", "history": bool(history)}:
                return {"snapshot": to_builtins(await here.terminal.snapshot(history))}
            case {"do": "text", "limit": limit}:
                return {"text": here.terminal.text(convert(limit, int | None))}
            case {"do": "input", "author": author, "message": message, "take": bool(take)}:
                await self.input(here.row.id, convert(author, Author), convert(message, Input), take)
            case {"do": "lease", "author": author, "action": "take" | "release" as action}:
                await self.lease(here.row.id, convert(author, Author), action)
            case {"do": "kill"}:
                await here.kill()
            case _:
                raise OstlerError("bad_request", "unknown request")
        return {"ok": True}

    async def serve(self, request: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A viewer in another ostler process."""
        asked = convert(request, Asked)
        here = await self.local(asked.terminal)
        await serve_view(here.terminal.view(asked.author, asked.rights, asked.offset), reader, writer)

    async def local(self, id: str) -> Here:
        """Raises `not_found` for one that does not live in this process."""
        here = await self._at_hand(id)
        if here is None:
            raise OstlerError("not_found", f"terminal {id} does not live here")
        return here


def ended(id: str) -> OstlerError:
    return OstlerError("not_found", f"terminal {id} has ended", "Open a new one")
