"""The programs that run in terminals of this process: opened, known, ended together."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct, structs

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import TerminalRow, Wall
from ostler.store import Redactor
from ostler.terminal.cast import CastWriter
from ostler.terminal.clean import clamp
from ostler.work.terminals.context import TerminalContext
from ostler.work.terminals.new_terminal import check_command, checked_name, environment, free_name, new_terminal_id
from ostler.work.terminals.pty_terminal import PtyTerminal
from ostler.work.terminals.recording import new_recording, recording_path, remove_files
from ostler.work.turns.checks import check_folder
from ostler.work.turns.environment import secrets

_NAMES = 20  # how often a free name is looked for while others take them


class NewProgram(Struct, frozen=True, kw_only=True):
    """A program that is to be started in its terminal, whose row is stored if it is listed; that is without secrets."""

    row: TerminalRow
    argv: Sequence[str]
    env: Mapping[str, str]
    redactor: Redactor
    mark: str
    cast: CastWriter
    wall: Wall | None
    context: TerminalContext
    listed: bool = True


class ProgramOptions(Struct, frozen=True):
    """A program and the terminal it is to have.

    `turn`: it is what that turn runs; with `base`, one of the commands that its agent runs by us, whose
    environment that is. `tui`: it is the agent's own screen.
    """

    argv: Sequence[str]
    folder: str | None = None
    env: Mapping[str, str] = {}
    cols: int = 80
    rows: int = 24
    name: str | None = None
    called: str = ""  # what a free name is made of; empty: the program's own
    turn: str | None = None
    base: Mapping[str, str] | None = None
    wall: Wall | None = None
    tui: bool = False
    mark: str = ""  # by which its processes are found, where it is not the turn's or the terminal's id
    listed: bool = True  # its row is stored before it is started; else with `publish`
    start: Callable[[NewProgram], Awaitable[PtyTerminal]] | None = None  # in a pane of tmux, instead of a PTY


class Programs:
    """Each is here from its row's commit to its stored end; one that is not listed, from its start to its end."""

    def __init__(self, context: TerminalContext) -> None:
        self._context = context
        self._store = context.store
        self._running: dict[str, PtyTerminal] = {}
        self._starting: dict[str, asyncio.Event] = {}  # rows are stored before there is anything to see
        self._closed = False

    async def open(self, session: str, folder: str, options: ProgramOptions) -> PtyTerminal:
        """Of the session with this id and folder. Raises what is wrong with it; then nothing is left behind."""
        if self._closed:
            raise OstlerError("bad_request", "ostler is closing, no more terminals can be opened")
        setup = self._context.setup_in(folder)
        env = environment(setup.environ if options.base is None else options.base, options.env)
        row = self._row(session, folder, options, env)
        redactor = Redactor(secrets(setup.environ, env, setup.settings.redact))
        self._starting[row.id] = asyncio.Event()
        try:
            row = redactor.clean(row)
            if options.listed:
                row = await self._add(row, options.name, options.called, setup.settings.terminals)
            # A turn's own program is found by the turn; of an agent's several commands each is ended alone.
            mark = options.mark or (row.turn if row.turn and options.base is None else row.id)
            cast = new_recording(self._store.folder, row, setup.settings.recording_mb)
            new = NewProgram(
                row=row,
                argv=options.argv,
                env=env,
                redactor=redactor,
                mark=mark,
                cast=cast,
                wall=options.wall,
                context=self._context,
                listed=options.listed,
            )
            return await self._start(new, options.start or _in_pty)
        except BaseException:
            await asyncio.shield(self.forget(row))
            raise
        finally:
            self._starting.pop(row.id).set()

    async def publish(self, program: PtyTerminal) -> None:
        """Stores the row of one that was not listed. Raises what keeps it from that, such as a session that is gone."""
        most = self._context.setup_in(program.row.folder).settings.terminals
        await program.publish(lambda row: self._add(row, None, row.name, most))

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
        await asyncio.gather(*(program.let_go() for program in self._running.values()), return_exceptions=True)

    def _row(self, session: str, folder: str, options: ProgramOptions, env: Mapping[str, str]) -> TerminalRow:
        folder = check_folder(options.folder or folder)
        check_command(options.argv, folder, env)
        cols, rows = clamp(options.cols, options.rows)
        row = TerminalRow(
            id=new_terminal_id(lambda id: self._store.terminal(id) is not None),
            session=session,
            name=options.called if options.name is None else checked_name(options.name),
            source="pty" if options.start is None else "tmux",
            cols=cols,
            rows=rows,
            created_at=clock.now(),
            argv=tuple(options.argv),
            folder=folder,
            turn=options.turn,
            typing=True,
            tui=options.tui,
            owner=self._context.owner,
        )
        return structs.replace(row, recording=recording_path(self._store.folder, row))

    async def _add(self, row: TerminalRow, name: str | None, called: str, most: int) -> TerminalRow:
        """Commits the row, under its name or under a free one that is made of what it is called."""
        for _ in range(_NAMES):
            if name is None:
                taken = {other.name for other in self._store.terminals(row.session, live=True)}
                row = structs.replace(row, name=free_name(called or row.argv[0], taken))
            try:
                await self._store.add_terminal(row, most)
                return row
            except OstlerError as error:
                if error.kind != "exists" or name is not None:
                    raise
        raise OstlerError("exists", f"no free name for a terminal in session {row.session}", "Give one")

    async def _start(self, new: NewProgram, start: Callable[[NewProgram], Awaitable[PtyTerminal]]) -> PtyTerminal:
        try:
            program = await start(new)
        except BaseException:
            new.cast.close()
            raise
        self._running[new.row.id] = program
        program.done.add_done_callback(lambda _: self._running.pop(new.row.id, None))
        return program


async def _in_pty(new: NewProgram) -> PtyTerminal:
    context = new.context
    return await PtyTerminal.start(
        new.row,
        new.argv,
        warden=await context.warden(),
        env=new.env,
        store=context.store,
        screens=context.screens(),
        cast=new.cast,
        redactor=new.redactor,
        mark=new.mark,
        wall=new.wall,
        unwritten=context.unwritten,
        listed=new.listed,
    )
