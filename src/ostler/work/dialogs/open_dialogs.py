"""Dialogs at work: processes that serve many turns of a session, kept while they are used, closed when idle."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.json import encode

from ostler import clock
from ostler.agents.reader import OUTCOMES
from ostler.errors import OstlerError
from ostler.model import Problem, Turn, Verdict
from ostler.process import Warden
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.transports.spares import LONG_AGO
from ostler.work.transports.stop import Stop, unless_stopped
from ostler.work.transports.transport import Attempt, Carried, TurnContext

if TYPE_CHECKING:  # imported when a dialog begins: most turns have none
    from ostler.work.dialogs.call_terminals import CallTerminals
    from ostler.work.dialogs.live_dialog import LiveDialog


# Of each attempt; a process that stays keeps the first.
_OF_HOOKS = ("OSTLER_CALLBACK_URL", "OSTLER_CALLBACK_TOKEN", "OSTLER_TURN")


class Fingerprint(Struct, frozen=True):
    """What a process was started with and cannot change: another turn that needs else gets a new process."""

    agent: str
    folder: str
    access: str
    system: tuple[str | None, str]
    tools: tuple[tuple[str, ...], tuple[str, ...]]
    env: frozenset[tuple[str, str]]
    lean: bool
    mcp: bytes
    trusted: bool
    wall: tuple[object, ...] | None
    flags: tuple[str, ...]
    hooks: tuple[bool, float | None] | None  # whether they decide, and how long that may take


class Held(Struct):
    """A dialog, what it was made for, and the last turn that it ran."""

    made_for: Fingerprint
    dialog: "LiveDialog"
    idle: float  # seconds until it is closed, by the settings of the last turn's folder
    last: str = ""
    rests_since: float = 0.0  # 0: it is in use


class Dialogs:
    """The dialog transport: all dialogs of this ostler process, at most one for each session."""

    def __init__(
        self,
        warden: Callable[[], Awaitable[Warden]],
        terminals: "Callable[[str], CallTerminals] | None" = None,
        before: Callable[[str], str | None] | None = None,
    ) -> None:
        """`terminals` makes what a dialog of that session runs its commands in; `before` is the turn before a turn."""
        self._warden = warden
        self._terminals = terminals
        self._before = before
        self._live: dict[str, Held] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self, attempt: Attempt, context: TurnContext) -> Carried:
        """Runs one attempt at a turn in the session's dialog, which is started if there is none that fits."""
        session, idle = attempt.turn.session, context.settings.dialog_idle
        try:
            dialog = await self._fitting(attempt) or await self._begun(attempt, context.stop, idle)
        except OstlerError as error:
            return not_begun(error)
        self._live[session].last, self._live[session].idle = attempt.turn.id, idle
        try:
            return await dialog.run_turn(attempt, context)
        finally:
            await self._after(session, dialog, idle)

    async def _begun(self, attempt: Attempt, stop: Stop, idle: float) -> "LiveDialog":
        """A new dialog, in the mode that the turn wants."""
        session = attempt.turn.session
        dialog = await self._start(attempt, stop)
        dialog.terminals = self._terminals(session) if self._terminals else None
        self._live[session] = Held(fingerprint(attempt), dialog, idle)
        await self._adapted(self._live[session], attempt)
        return dialog

    async def _adapted(self, held: Held, attempt: Attempt) -> bool:
        """Whether the dialog fits the turn. One that refuses what is wanted stays for the next turn."""
        try:
            return await held.dialog.adapt(attempt)
        except OstlerError:
            held.last = attempt.turn.id
            await self._after(attempt.turn.session, held.dialog, held.idle)
            raise

    async def _after(self, session: str, dialog: "LiveDialog", idle: float) -> None:
        """Between two turns a dialog waits for a time; one that is of no more use is closed."""
        if dialog.usable:
            if session in self._live:
                self._live[session].rests_since = clock.monotonic()
            dialog.rest(idle, lambda: self._retire(session, dialog))
        else:
            await self._forget(session, dialog)

    async def _start(self, attempt: Attempt, stop: Stop) -> "LiveDialog":
        """A new process, unless somebody stops the turn before it is ready."""
        from ostler.work.dialogs.live_dialog import LiveDialog

        return await unless_stopped(LiveDialog.start(attempt, await self._warden()), stop)

    def holds(self, session: str) -> bool:
        """Whether a process is at work on this session's conversation."""
        return session in self._live and self._live[session].dialog.usable

    def idle_since(self) -> dict[str, float]:
        """The sessions whose dialogs no turn uses, and since when."""
        return {session: held.rests_since for session, held in self._live.items() if held.rests_since}

    def agent_of(self, session: str) -> str:
        return self._live[session].made_for.agent

    async def warm(self, attempt: Attempt, folder: str, seconds: float, stop: Stop) -> None:
        """Starts a dialog for a session that nobody has yet: see `Spares`."""
        session = attempt.turn.session
        dialog = await self._start(attempt, stop)
        dialog.spare_folder = folder
        dialog.terminals = self._terminals(session) if self._terminals else None
        self._live[session] = Held(fingerprint(attempt), dialog, seconds, rests_since=LONG_AGO)
        dialog.rest(seconds, lambda: self._retire(session, dialog))

    def running(self, turn: str) -> "LiveDialog":
        """The dialog that runs this turn. Raises not_found."""
        for held in self._live.values():
            if held.dialog.turn_id == turn:
                return held.dialog
        hint = "Steering and answers need one: ostler chat, or ostler run --dialog"
        raise OstlerError("not_found", f"turn {turn} is not running in a dialog", hint)

    async def answer(self, turn: str, answer: AskAnswer) -> None:
        await self.running(turn).answer(answer)

    async def steer(self, turn: str, text: str, by: str) -> None:
        await self.running(turn).steer(text, by)

    async def close(self, session: str | None = None) -> None:
        """Ends the dialog of this session, or all of them."""
        names = list(self._live) if session is None else [name for name in self._live if name == session]
        await asyncio.gather(*(self._forget(name, self._live[name].dialog) for name in names))
        while self._closing and session is None:
            await asyncio.wait(self._closing)

    async def _fitting(self, attempt: Attempt) -> "LiveDialog | None":
        """The living dialog of this session, if it can take the turn; else it is closed."""
        session, turn = attempt.turn.session, attempt.turn
        if session not in self._live:
            return None
        held = self._live[session]
        held.rests_since = 0.0
        held.dialog.stay()  # it must not be closed for being idle while it is looked at
        fits = held.dialog.usable and held.made_for == fingerprint(attempt) and not turn.fork
        if fits and self._knows_all(held, turn) and await self._adapted(held, attempt):
            return held.dialog
        await self._forget(session, held.dialog)
        return None

    def _knows_all(self, held: Held, turn: Turn) -> bool:
        """Whether the dialog ran the turn before. Another process may have: this one never heard of it."""
        return self._before is None or (held.last or None) in (turn.id, self._before(turn.id))

    def _retire(self, session: str, dialog: "LiveDialog") -> None:
        """From this moment on no turn finds it."""
        self._live.pop(session)
        task = asyncio.create_task(dialog.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _forget(self, session: str, dialog: "LiveDialog") -> None:
        if session in self._live and self._live[session].dialog is dialog:
            del self._live[session]
        await dialog.close()


def not_begun(error: OstlerError) -> Carried:
    """A dialog that did not open: nothing was done, so another agent may take the turn."""
    problem = Problem.of(error)
    outcome: Any = OUTCOMES.get(error.kind, "failed")
    return Carried(verdict=Verdict(outcome=outcome, error=problem), exit=None, leaked=(), worked=False)


def fingerprint(attempt: Attempt) -> Fingerprint:
    turn = attempt.turn
    return Fingerprint(
        agent=attempt.served_by,
        folder=turn.folder,
        access=turn.access,
        system=(turn.system, turn.system_mode),
        tools=(turn.tools_allowed, turn.tools_denied),
        env=_given_environment(attempt),
        lean=turn.lean,
        mcp=encode(turn.mcp),
        trusted=attempt.trusted,
        wall=attempt.enclosure.shape if attempt.enclosure else None,
        flags=attempt.turn.agent_flags,
        hooks=(callback.decides, callback.patience) if (callback := attempt.callback) else None,
    )


def _given_environment(attempt: Attempt) -> frozenset[tuple[str, str]]:
    """Without what the launch and the wall set: that follows from the rest, and may name the turn."""
    launch, enclosed = attempt.launch, attempt.enclosure.env if attempt.enclosure else {}
    given = {name: value for name, value in attempt.env.items() if name not in {*launch.env, *enclosed, *_OF_HOOKS}}
    return frozenset(given.items() - launch.default_env.items())
