"""The programs that run in terminals of this process: opened, known, ended together."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from ostler.errors import OstlerError
from ostler.store import Redactor
from ostler.terminal.policy import clamp
from ostler.words import Session, TerminalRow
from ostler.work.environment import secrets
from ostler.work.prepare import check_folder
from ostler.work.pty_terminal import PtyTerminal
from ostler.work.terminal_recording import new_recording, recording_path, remove_files
from ostler.work.terminal_rows import check_command, checked_name, environment, free_name, new_terminal_id

if TYPE_CHECKING:
    from ostler.work.ostler import Ostler

_NAMES = 20  # how often a free name is looked for while others take them


class Wanted(Struct, frozen=True):
    """A program and the terminal it is to have.

    `turn`: it is what that turn runs; with `base`, one of the commands that its agent runs by us, whose
    environment that is.
    """

    argv: Sequence[str]
    folder: str | None = None
    env: Mapping[str, str] = {}
    cols: int = 80
    rows: int = 24
    name: str | None = None
    turn: str | None = None
    base: Mapping[str, str] | None = None


class Programs:
    """Each is here from its row's commit to its stored end."""

    def __init__(self, ostler: "Ostler") -> None:
        self._ostler = ostler
        self._store = ostler.store
        self._running: dict[str, PtyTerminal] = {}
        self._starting: dict[str, asyncio.Event] = {}  # rows are stored before there is anything to see
        self._closed = False

    async def open(self, session: Session, wanted: Wanted) -> PtyTerminal:
        """Raises what is wrong with it; then nothing is left behind."""
        if self._closed:
            raise OstlerError("bad_request", "ostler is closing, nothing can be opened any more")
        setup = self._ostler.setup
        env = environment(setup.environ if wanted.base is None else wanted.base, wanted.env)
        row = self._row(session, wanted, env)
        redactor = Redactor(secrets(setup.environ, env, setup.settings.redact))
        self._starting[row.id] = asyncio.Event()
        try:
            row = await self._add(redactor.clean(row), wanted.name)
            # A turn's own program is found by the turn; of an agent's several commands each is ended alone.
            mark = row.turn if row.turn and wanted.base is None else row.id
            return await self._start(row, wanted.argv, env, redactor, mark)
        except BaseException:
            await asyncio.shield(self.forget(row))
            raise
        finally:
            self._starting.pop(row.id).set()

    def get(self, id: str) -> PtyTerminal | None:
        return self._running.get(id)

    def starts(self, id: str) -> bool:
        """It is stored, and its program is just being started."""
        return id in self._starting

    async def started(self, id: str) -> None:
        """Waits for that."""
        if starting := self._starting.get(id):
            await starting.wait()

    async def forget(self, row: TerminalRow) -> None:
        """Removes what is kept of it."""
        await self._store.remove_terminal(row.id)
        remove_files(row)

    async def close(self) -> None:
        """Ends all; from here on none is opened."""
        self._closed = True
        for starting in list(self._starting.values()):
            await starting.wait()
        await asyncio.gather(*(program.kill() for program in self._running.values()), return_exceptions=True)

    def _row(self, session: Session, wanted: Wanted, env: Mapping[str, str]) -> TerminalRow:
        folder = check_folder(wanted.folder or session.folder)
        check_command(wanted.argv, folder, env)
        cols, rows = clamp(wanted.cols, wanted.rows)
        row = TerminalRow(
            id=new_terminal_id(lambda id: self._store.terminal(id) is not None),
            session=session.id,
            name="" if wanted.name is None else checked_name(wanted.name),
            source="pty",
            cols=cols,
            rows=rows,
            created_at=time.time(),
            argv=tuple(wanted.argv),
            folder=folder,
            turn=wanted.turn,
            typing=True,
            owner=self._ostler.desk.id,
        )
        return structs.replace(row, recording=str(recording_path(self._store.folder, row)))

    async def _add(self, row: TerminalRow, name: str | None) -> TerminalRow:
        """Commits the row before anything is spawned, under its name or under a free one."""
        for _ in range(_NAMES):
            if name is None:
                taken = {other.name for other in self._store.terminals(row.session, live=True)}
                row = structs.replace(row, name=free_name(row.argv, taken))
            try:
                await self._store.add_terminal(row, self._ostler.settings.terminals)
                return row
            except OstlerError as error:
                if error.kind != "exists" or name is not None:
                    raise
        raise OstlerError("exists", f"no free name for a terminal in session {row.session}", "Give one")

    async def _start(
        self, row: TerminalRow, argv: Sequence[str], env: Mapping[str, str], redactor: Redactor, mark: str
    ) -> PtyTerminal:
        """`row` is without secrets; the program gets its arguments as they are."""
        cast = new_recording(row, self._ostler.settings.recording_mb)
        try:
            program = await PtyTerminal.start(
                row,
                argv,
                warden=await self._ostler.warden(),
                env=env,
                store=self._store,
                screens=self._ostler.screens,
                cast=cast,
                redactor=redactor,
                mark=mark,
            )
        except BaseException:
            cast.close()
            raise
        self._running[row.id] = program
        program.done.add_done_callback(lambda _: self._running.pop(row.id, None))
        return program
