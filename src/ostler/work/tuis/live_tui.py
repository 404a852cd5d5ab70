"""An agent's own screen at work in a terminal of its session: from its start over many turns to its end."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from ostler.errors import OstlerError, quoted
from ostler.model import TerminalClosed, TerminalOpened
from ostler.process import Size
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.terminals.new_terminal import COLS, ROWS
from ostler.work.terminals.programs import ProgramOptions
from ostler.work.terminals.pty_terminal import PtyTerminal
from ostler.work.terminals.terminals import Terminals
from ostler.work.transports.launch_files import place_files
from ostler.work.transports.spares import remove_spare_folder
from ostler.work.transports.stop import LeftInPane
from ostler.work.transports.transport import Attempt, Carried, TurnContext
from ostler.work.tuis.transcript import Transcript
from ostler.work.tuis.tui_turn import TuiTurn, its_file
from ostler.work.tuis.typing import Typist
from ostler.work.tuis.watch import Watch
from ostler.work.turns.artifacts import keep_logins, remove_files

if TYPE_CHECKING:  # most turns have no hooks
    from ostler.work.hooks.callbacks import Callbacks

_log = logging.getLogger(__name__)


class LiveTui:
    """Made by `start`; `close` ends the program with all that it started."""

    def __init__(
        self, attempt: Attempt, program: PtyTerminal, placed: tuple[str, ...], callbacks: "Callbacks | None" = None
    ) -> None:
        assert attempt.agent.tui is not None
        self._callbacks = callbacks
        self._token = attempt.callback.token if attempt.callback is not None else ""  # with which its hooks call
        self.program = program
        self.name = attempt.agent.name
        self._placed = placed
        self._watch = Watch(program.live, attempt.agent.tui)
        self._typist = Typist(program.live, attempt.turn.session)
        self._transcript = Transcript(attempt.agent, attempt.env.get("HOME", ""), attempt.env_outside)
        self._turn: TuiTurn | None = None
        self._used = False  # it has taken a prompt
        self._put_back = ""  # the last one, where an interrupt may have put it back into the box
        self._spoiled = False  # its box holds what nobody is to send
        self._rest: asyncio.TimerHandle | None = None
        self._closed = False
        self.spare_folder = ""  # which it was started with, where its session was still to come

    @classmethod
    async def start(
        cls, attempt: Attempt, terminals: Terminals, callbacks: "Callbacks | None" = None, listed: bool = True
    ) -> "LiveTui":
        """Starts the program in a terminal. Raises what went wrong, and leaves nothing behind.

        `callbacks`: where its hooks call, which belong to whichever turn it runs. Not `listed`, its session is not
        stored yet, and nobody sees its terminal until that is published.
        """
        size = attempt.size or Size(COLS, ROWS)
        placed = place_files(attempt)
        options = ProgramOptions(
            attempt.launch.argv,
            folder=attempt.turn.folder,
            env={name: value for name, value in attempt.env.items() if name.startswith("OSTLER_")},
            cols=size.cols,
            rows=size.rows,
            called=attempt.agent.name,
            base=attempt.env,
            wall=attempt.wall,
            tui=True,
            listed=listed,
        )
        try:
            program = await terminals.open_program(attempt.turn.session, options)
        except BaseException:
            remove_files(placed)
            raise
        session, name = attempt.turn.session, attempt.agent.name
        _log.info("session %s: %s has its own screen in terminal %s", session, name, program.row.id)
        if callbacks is not None and attempt.callback is not None:
            token = attempt.callback.token
            callbacks.route(token, token, session)  # so that it is kept secret from its first turn on
        return cls(attempt, program, placed, callbacks)

    @property
    def usable(self) -> bool:
        return not self._closed and not self._spoiled and not self.program.ending

    @property
    def turn_id(self) -> str | None:
        return self._turn.attempt.turn.id if self._turn else None

    async def run_turn(self, attempt: Attempt, context: TurnContext) -> Carried:
        """Runs one turn to its end. The program stays for the next one, unless it ended or would not stop."""
        row = self.program.row
        if self._callbacks is not None and attempt.callback is not None:
            self._callbacks.route(self._token, attempt.callback.token, attempt.turn.session)
        context.artifacts.paths["recording"] = row.recording
        await context.add([TerminalOpened(terminal=row.id, title=row.name)])
        turn = self._turn = self._new_turn(attempt, context)
        turn.used, turn.put_back_before = self._used, self._put_back
        try:
            carried = await turn.run()
        except BaseException as error:  # it still works on that prompt, unless another ostler goes on with it
            self._spoiled = not isinstance(error, LeftInPane)
            raise
        finally:
            self._turn = None
            self._used, self._put_back = True, turn.put_back
            keep_logins(self._placed)
            self._spoiled = self._spoiled or not turn.usable
        if self.program.ending:
            await self.program.wait()
            code = self.program.exit.code if self.program.exit else None
            await context.add([TerminalClosed(terminal=row.id, exit_code=code)])
            carried = structs.replace(carried, leaked=(*carried.leaked, *self.program.leaked))
        return carried

    def _new_turn(self, attempt: Attempt, context: TurnContext) -> TuiTurn:
        return TuiTurn(attempt, context, self.program, self._watch, self._typist, self._transcript)

    async def look_for_records(self, attempt: Attempt) -> None:
        """Before any turn: files that are there by now are of other conversations."""
        assert attempt.agent.tui is not None
        globs = attempt.agent.tui.transcripts(attempt.effective_turn)
        await asyncio.to_thread(self._transcript.begin, globs, its_file(attempt))

    async def answer(self, answer: AskAnswer) -> None:
        if self._turn is None:
            raise OstlerError("not_found", f"the ask {quoted(answer.ask)} is not open: no turn is running")
        await self._turn.answer(answer)

    def rest(self, seconds: float, then: Callable[[], None]) -> None:
        """Calls `then` after this time, unless it is told to `stay`."""
        self.stay()
        self._rest = asyncio.get_running_loop().call_later(seconds, then)

    def stay(self) -> None:
        if self._rest is not None:
            self._rest.cancel()

    async def leave(self) -> None:
        """Ostler closes, and the program with it."""
        await self.close()

    async def close(self) -> None:
        """Hangs up, and ends what is still there; idempotent."""
        if self._closed:
            return
        self._closed = True
        self.stay()
        try:
            if not self.program.stored:
                await self.program.end()
        finally:
            if self._callbacks is not None:
                self._callbacks.unroute(self._token)
            await self._watch.close()
            remove_files(self._placed)
            if self.spare_folder:
                remove_spare_folder(self.spare_folder)
