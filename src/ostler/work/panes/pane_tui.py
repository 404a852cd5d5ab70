"""An agent's own screen in a pane: as in a terminal of ostler's, but it stays when ostler goes."""

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from ostler.model import Session
from ostler.work import leftovers
from ostler.work.panes.hook_file import HookFile
from ostler.work.panes.notes import PaneNote, PaneNotes
from ostler.work.panes.pane_terminal import PaneStart, PaneTakeover
from ostler.work.panes.pane_turn import PaneTurn
from ostler.work.panes.servers import TmuxServers
from ostler.work.terminals.new_terminal import COLS, ROWS
from ostler.work.terminals.programs import ProgramOptions
from ostler.work.terminals.pty_terminal import PtyTerminal
from ostler.work.terminals.terminals import Terminals
from ostler.work.transports.launch_files import place_files
from ostler.work.transports.stop import LeftInPane
from ostler.work.transports.transport import Attempt, Carried, TurnContext
from ostler.work.tuis.live_tui import LiveTui
from ostler.work.turns.artifacts import lends_logins, remove_files

if TYPE_CHECKING:
    from ostler.work.hooks.callbacks import Callbacks


class PaneResources(Struct, frozen=True, kw_only=True):
    """What panes are made with: one for all of an ostler process."""

    terminals: Terminals
    servers: TmuxServers
    notes: PaneNotes
    callbacks: "Callbacks | None" = None  # where hooks call


class PaneTui(LiveTui):
    """Made by `open` or `take_over`; `close` ends the program, `leave` lets it go on."""

    def __init__(
        self, attempt: Attempt, program: PtyTerminal, placed: tuple[str, ...], resources: PaneResources
    ) -> None:
        super().__init__(attempt, program, placed, resources.callbacks)
        self._notes, self._session = resources.notes, attempt.turn.session
        self._hook_file = HookFile.of(attempt, placed)
        self.left = False  # its turn goes on without us

    @classmethod
    async def open(cls, attempt: Attempt, session: Session, resources: PaneResources, note: PaneNote) -> "PaneTui":
        """Starts the program in a new pane. Raises what went wrong, and leaves nothing behind.

        `note` has what is to be noted of it.
        """
        placed = place_files(attempt)

        def noted(made: PaneNote) -> PaneNote:
            if placed:
                leftovers.pass_on(placed[-1], made.pid, made.start_time)
            return structs.replace(made, made_for=note.made_for, agent=note.agent, placed=placed)

        notes = resources.notes
        start = PaneStart(
            servers=resources.servers,
            notes=notes,
            place=note.place,
            session=session,
            note=noted,
            remove=() if lends_logins(placed) else placed,
        ).start
        try:
            options = pane_options(attempt, note, start)
            program = await resources.terminals.open_program(session.id, options)
        except BaseException:
            remove_files(placed)
            notes.remove(session.id)
            raise
        return cls(attempt, program, placed, resources)

    @classmethod
    async def take_over(cls, attempt: Attempt, resources: PaneResources, note: PaneNote) -> "PaneTui":
        """The program that runs in a pane already. Raises where it is gone."""
        start = PaneTakeover(servers=resources.servers, notes=resources.notes, note=note).start
        program = await resources.terminals.open_program(note.session, pane_options(attempt, note, start))
        tui = cls(attempt, program, note.placed, resources)
        tui._watch.join_late()
        return tui

    async def run_turn(self, attempt: Attempt, context: TurnContext) -> Carried:
        if self._hook_file is not None:  # another process may have used the pane meanwhile
            await asyncio.to_thread(self._hook_file.take_over)
        try:
            carried = await super().run_turn(attempt, context)
        except LeftInPane:
            self.left = True
            raise
        if self._hook_file is not None:
            await asyncio.to_thread(self._hook_file.rest)
        return carried

    def _new_turn(self, attempt: Attempt, context: TurnContext) -> PaneTurn:
        return PaneTurn(attempt, context, self.program, self._watch, self._typist, self._transcript, self._notes)

    async def leave(self) -> None:
        """Ostler closes: the pane stays, and is found again."""
        if not self._closed:
            self._closed = True
            self.stay()
            if self._callbacks is not None:
                self._callbacks.unroute(self._token)
            if not self.program.stored:
                await self.program.let_go()
            await self._watch.close()

    async def close(self) -> None:
        if not self._closed:
            await super().close()
            self._notes.remove(self._session)


def pane_options(attempt: Attempt, note: PaneNote, start: "object") -> ProgramOptions:
    return ProgramOptions(
        attempt.launch.argv,
        folder=attempt.turn.folder,
        env={name: value for name, value in attempt.env.items() if name.startswith("OSTLER_")},
        cols=COLS,
        rows=ROWS,
        called=attempt.agent.name,
        base=attempt.env,
        wall=attempt.wall,
        tui=note.shows == "tui",
        mark=note.mark,
        start=start,  # type: ignore[arg-type]
    )
