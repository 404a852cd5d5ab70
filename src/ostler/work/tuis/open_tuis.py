"""The agents' own screens as a transport: one for each session, kept while it is used, closed when idle."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from ostler.errors import OstlerError
from ostler.model import Turn
from ostler.store.files import private_folder, session_folder
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.dialogs.open_dialogs import fingerprint, not_begun
from ostler.work.transports.spares import LONG_AGO
from ostler.work.transports.stop import Stop, unless_stopped
from ostler.work.transports.transport import Attempt, Carried, TurnContext

if TYPE_CHECKING:  # imported when the first one is opened: most turns have none
    from ostler.work.hooks.callbacks import Callbacks
    from ostler.work.terminals.terminals import Terminals
    from ostler.work.tuis.live_tui import LiveTui

_log = logging.getLogger(__name__)


class Shown(Struct):
    """A TUI, what it was made for, and the last turn that it ran."""

    made_for: object
    tui: "LiveTui"
    agent_session: str | None = None  # the id that it was given, where ostler chooses one
    last: str | None = ""
    spare: float = 0.0  # seconds that it waits for a session to come; 0: it is nobody's spare, or has been used


class Tuis:
    """The transport `pty`: all TUIs of this ostler process, at most one for each session."""

    def __init__(
        self,
        terminals: "Callable[[], Terminals]",
        before: Callable[[str], str | None] | None = None,
        callbacks: "Callable[[], Callbacks] | None" = None,
    ) -> None:
        """`before` is the turn before a turn; `callbacks`: where hooks call."""
        self._terminals, self._before, self._callbacks = terminals, before, callbacks
        self._live: dict[str, Shown] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self, attempt: Attempt, context: TurnContext) -> Carried:
        """Runs one attempt at a turn in the session's TUI, which is started if there is none that fits."""
        session = attempt.turn.session
        try:
            found = await self._fitting(attempt, self._last_before(attempt.turn))
            shown = found or await self._begun(attempt, context.stop)
        except OstlerError as error:
            return not_begun(error)
        shown.last = attempt.turn.id
        try:
            return await shown.tui.run_turn(attempt, context)
        finally:
            await self._after(session, shown.tui, context.settings.tui_idle)

    async def open(self, attempt: Attempt, idle: float, last: str | None) -> str:
        """Starts the session's TUI for the turns to come, unless one that fits is there; the id of its terminal.

        `last`: the session's last turn. Raises what keeps it from starting.
        """
        session = attempt.turn.session
        shown = self._live.get(session)
        if shown is None or shown.tui.turn_id is None:
            private_folder(session_folder(attempt.state, session) / attempt.turn.id)
            shown = await self._fitting(attempt, last) or await self._begun(attempt, Stop())
            shown.last = last
            await shown.tui.look_for_records(attempt)
            await self._after(session, shown.tui, idle)
        return shown.tui.program.row.id

    def chosen_id(self, session: str, seen: bool = False) -> str | None:
        """The id of the conversation that a TUI was started with and in which no turn was run yet.

        `seen`: not that of a spare, which nobody can have typed into.
        """
        shown = self._live.get(session)
        if shown is None or not shown.tui.usable or (seen and shown.spare):
            return None
        return shown.agent_session

    def reserve(self, attempt: Attempt) -> bool:
        """Whether an attempt may keep the `chosen_id` that it was given. A spare that fits waits for it from now on.

        One that cannot use its session's spare may not: it gets a new process, to which that id is taken.
        """
        session = attempt.turn.session
        shown = self._live.get(session)
        if shown is None or not shown.spare:
            return True
        if self._fits(shown, attempt):
            self._rest(session, shown)
            return True
        return False

    async def warm(self, attempt: Attempt, folder: str, seconds: float, stop: Stop) -> None:
        """Starts a TUI for a session that nobody has yet: see `Spares`. `unsupported` where the agent chooses the id of
        its conversation: of several that wait, nobody could tell which file is whose.
        """
        from ostler.work.tuis.tui_turn import its_file

        if its_file(attempt) is not None:
            raise OstlerError("unsupported", f"{attempt.agent.name} chooses the id of its conversation itself")
        shown = await self._started(attempt, stop, seconds)
        shown.last, shown.tui.spare_folder = None, folder
        await shown.tui.look_for_records(attempt)
        self._rest(attempt.turn.session, shown)

    def _rest(self, session: str, shown: Shown) -> None:
        shown.tui.rest(shown.spare, lambda: self._retire(session, shown.tui))

    def idle_since(self) -> dict[str, float]:
        """The sessions whose TUIs nobody has used yet, and since when they are there: for ever, as far as it counts."""
        return {session: LONG_AGO for session, shown in self._live.items() if shown.spare}

    def agent_of(self, session: str) -> str:
        return self._live[session].tui.name

    async def _begun(self, attempt: Attempt, stop: Stop) -> Shown:
        return await self._started(attempt, stop)

    async def _started(self, attempt: Attempt, stop: Stop, spare: float = 0.0) -> Shown:
        from ostler.work.tuis.live_tui import LiveTui

        starting = LiveTui.start(attempt, self._terminals(), self._callbacks_for(attempt), listed=not spare)
        tui = await unless_stopped(starting, stop)
        shown = Shown(self._made_for(attempt), tui, attempt.turn.agent_session, spare=spare)
        self._live[attempt.turn.session] = shown
        return shown

    def _callbacks_for(self, attempt: Attempt) -> "Callbacks | None":
        return self._callbacks() if self._callbacks is not None and attempt.callback is not None else None

    async def _after(self, session: str, tui: "LiveTui", idle: float) -> None:
        """Between two turns it waits for a time; one that is of no more use is closed."""
        if tui.usable:
            tui.rest(idle, lambda: self._retire(session, tui))
        else:
            await self._forget(session, tui)

    async def _fitting(self, attempt: Attempt, last: str | None) -> Shown | None:
        """The TUI of this session, if it can take the turn; else it is closed.

        `last` is the turn before it. Another process may have run that: then this one never heard of it.
        """
        session = attempt.turn.session
        shown = self._live.get(session)
        if shown is None:
            return None
        shown.tui.stay()
        usable = self._fits(shown, attempt) and self._knows_all(shown, attempt.turn, last)
        if usable and await self._published(shown, attempt):
            return shown
        await self._forget(session, shown.tui)
        return None

    def _fits(self, shown: Shown, attempt: Attempt) -> bool:
        return shown.tui.usable and shown.made_for == self._made_for(attempt) and not attempt.turn.fork

    async def _published(self, shown: Shown, attempt: Attempt) -> bool:
        """Whether its terminal is listed: that of a spare is, from its first use on."""
        if not shown.spare:
            return True
        program = shown.tui.program
        try:
            await self._terminals().publish(program)
        except OstlerError as error:
            _log.info("session %s: the screen that was started for it is not used: %s", attempt.turn.session, error)
            return False
        if attempt.size is not None:
            program.live.follow_size(attempt.size)
        shown.spare = 0.0
        return True

    def _last_before(self, turn: Turn) -> str | None:
        return self._before(turn.id) if self._before is not None else None

    def _made_for(self, attempt: Attempt) -> object:
        return fingerprint(attempt), attempt.turn.model

    def _knows_all(self, shown: Shown, turn: Turn, last: str | None) -> bool:
        return self._before is None or shown.last in (turn.id, last)

    def holds(self, session: str) -> bool:
        """Whether a TUI is at work on this session's conversation."""
        return session in self._live and self._live[session].tui.usable

    def running(self, turn: str) -> "LiveTui | None":
        """The TUI that runs this turn."""
        return next((shown.tui for shown in self._live.values() if shown.tui.turn_id == turn), None)

    async def answer(self, turn: str, answer: AskAnswer) -> None:
        tui = self.running(turn)
        if tui is None:
            raise OstlerError("not_found", f"turn {turn} is not running here")
        await tui.answer(answer)

    async def close(self, session: str | None = None) -> None:
        """Ends the TUI of this session, or all of them."""
        names = list(self._live) if session is None else [name for name in self._live if name == session]
        await asyncio.gather(*(self._forget(name, self._live[name].tui) for name in names))
        while self._closing and session is None:
            await asyncio.wait(self._closing)

    def _retire(self, session: str, tui: "LiveTui") -> None:
        """From this moment on no turn finds it."""
        self._live.pop(session, None)
        task = asyncio.create_task(tui.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _forget(self, session: str, tui: "LiveTui") -> None:
        if session in self._live and self._live[session].tui is tui:
            del self._live[session]
        await tui.close()
