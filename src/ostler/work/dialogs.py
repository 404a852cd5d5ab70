"""Dialogs at work: processes that serve many turns of a session, kept while they are used, closed when idle."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from msgspec.json import encode

from ostler.agents.adapter import OUTCOMES
from ostler.errors import OstlerError
from ostler.process import Warden
from ostler.words import Problem, Turn, Verdict
from ostler.work.asks import Answer
from ostler.work.call_terminals import CallTerminals
from ostler.work.carry import Attempt, Carried, Stop, cancel_all
from ostler.work.live_dialog import Around, LiveDialog

IDLE = 300.0  # seconds without a turn after which a dialog is closed: qwen alone takes 2 GB


class Fingerprint(Struct, frozen=True):
    """What a process was started with and cannot change: another turn that needs else gets a new process."""

    agent: str
    folder: str
    access: str
    system: str | None
    tools: tuple[tuple[str, ...], tuple[str, ...]]
    env: frozenset[tuple[str, str]]
    lean: bool
    mcp: bytes


class Held(Struct):
    """A dialog, what it was made for, and the last turn that it carried."""

    made_for: Fingerprint
    dialog: LiveDialog
    last: str = ""


class Dialogs:
    """All dialogs of this ostler process, at most one for each session."""

    def __init__(
        self,
        warden: Callable[[], Awaitable[Warden]],
        idle: float = IDLE,
        terminals: Callable[[str], CallTerminals] | None = None,
        before: Callable[[str], str | None] | None = None,
    ) -> None:
        """`terminals` makes what a dialog of that session runs its commands in; `before` is the turn before a turn."""
        self._warden = warden
        self._terminals = terminals
        self._before = before
        self._idle = idle
        self._live: dict[str, Held] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def carry(self, attempt: Attempt, around: Around) -> Carried:
        """Carries one attempt at a turn by the session's dialog, which is started if there is none that fits."""
        session = attempt.turn.session
        try:
            dialog = await self._fitting(attempt) or await self._begun(attempt, around.stop)
        except OstlerError as error:
            return _not_begun(error)
        self._live[session].last = attempt.turn.id
        try:
            return await dialog.carry(attempt, around)
        finally:
            await self._after(session, dialog)

    async def _begun(self, attempt: Attempt, stop: Stop) -> LiveDialog:
        """A new dialog, in the mode that the turn wants."""
        session = attempt.turn.session
        dialog = await self._start(attempt, stop)
        dialog.terminals = self._terminals(session) if self._terminals else None
        self._live[session] = Held(_fingerprint(attempt), dialog)
        await self._adapted(self._live[session], attempt)
        return dialog

    async def _adapted(self, held: Held, attempt: Attempt) -> bool:
        """Whether the dialog fits the turn. One that refuses what is wanted stays for the next turn."""
        try:
            return await held.dialog.adapt(attempt)
        except OstlerError:
            held.last = attempt.turn.id
            await self._after(attempt.turn.session, held.dialog)
            raise

    async def _after(self, session: str, dialog: LiveDialog) -> None:
        """Between two turns a dialog waits for a time; one that is of no more use is closed."""
        if dialog.usable:
            dialog.rest(self._idle, lambda: self._retire(session, dialog))
        else:
            await self._forget(session, dialog)

    async def _start(self, attempt: Attempt, stop: Stop) -> LiveDialog:
        """A new process, unless somebody stops the turn before it is ready."""
        start = asyncio.create_task(LiveDialog.start(attempt, await self._warden()))
        wish = asyncio.create_task(stop.wait())
        waits: list[asyncio.Task[Any]] = [start, wish]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                return start.result()
            problem = wish.result()
            raise OstlerError(problem.kind, problem.message, problem.hint)
        finally:
            await cancel_all(waits)

    def holds(self, session: str) -> bool:
        """Whether a process is at work on this session's conversation."""
        return session in self._live and self._live[session].dialog.usable

    def running(self, turn: str) -> LiveDialog:
        """The dialog that carries this turn. Raises not_found."""
        for held in self._live.values():
            if held.dialog.turn_id == turn:
                return held.dialog
        raise OstlerError("not_found", f"the turn {turn} runs in no dialog here")

    async def answer(self, turn: str, answer: Answer) -> None:
        await self.running(turn).answer(answer)

    async def steer(self, turn: str, text: str, by: str) -> None:
        await self.running(turn).steer(text, by)

    async def close(self, session: str | None = None) -> None:
        """Ends the dialog of this session, or all of them."""
        names = list(self._live) if session is None else [name for name in self._live if name == session]
        await asyncio.gather(*(self._forget(name, self._live[name].dialog) for name in names))
        while self._closing and session is None:
            await asyncio.wait(self._closing)

    async def _fitting(self, attempt: Attempt) -> LiveDialog | None:
        """The living dialog of this session, if it can take the turn; else it is closed."""
        session, turn = attempt.turn.session, attempt.turn
        if session not in self._live:
            return None
        held = self._live[session]
        held.dialog.stay()  # it must not be closed for being idle while it is looked at
        fits = held.dialog.usable and held.made_for == _fingerprint(attempt) and not turn.fork
        if fits and self._knows_all(held, turn) and await self._adapted(held, attempt):
            return held.dialog
        await self._forget(session, held.dialog)
        return None

    def _knows_all(self, held: Held, turn: Turn) -> bool:
        """Whether the dialog carried the turn before. Another process may have: this one never heard of it."""
        return self._before is None or held.last in (turn.id, self._before(turn.id))

    def _retire(self, session: str, dialog: LiveDialog) -> None:
        """From this moment on no turn finds it."""
        self._live.pop(session)
        task = asyncio.create_task(dialog.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _forget(self, session: str, dialog: LiveDialog) -> None:
        if session in self._live and self._live[session].dialog is dialog:
            del self._live[session]
        await dialog.close()


def _not_begun(error: OstlerError) -> Carried:
    """A dialog that did not open: nothing was done, so another agent may take the turn."""
    problem = Problem(kind=error.kind, message=error.message, hint=error.hint, retry_at=error.retry_at)
    outcome: Any = OUTCOMES.get(error.kind, "failed")
    return Carried(verdict=Verdict(outcome=outcome, error=problem), exit=None, leaked=(), worked=False)


def _fingerprint(attempt: Attempt) -> Fingerprint:
    turn = attempt.turn
    return Fingerprint(
        agent=attempt.served_by,
        folder=turn.folder,
        access=turn.access,
        system=turn.system,
        tools=(turn.tools_allowed, turn.tools_denied),
        # What the launch itself sets follows from the rest, and may name the turn.
        env=frozenset(each for each in attempt.env.items() if each[0] not in attempt.launch.env),
        lean=turn.lean,
        mcp=encode(turn.mcp),
    )
