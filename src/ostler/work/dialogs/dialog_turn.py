"""One turn of a dialog: what it has been told, what it waits for, and how its records are read."""

import asyncio
from collections.abc import Callable
from typing import Any

from ostler import clock
from ostler.agents import decode
from ostler.agents.dialog import AnswerKind, Dialog, Emit, Step
from ostler.errors import OstlerError
from ostler.model import Answered, AnyEvent, Exit, Problem, Raw, Turn
from ostler.process import OutputLine, Process
from ostler.process.tree import Member
from ostler.work.dialogs.asks import Asks
from ostler.work.dialogs.calls import Calls
from ostler.work.transports.limits import LimitClock, is_progress
from ostler.work.transports.tasks import Wake
from ostler.work.transports.transport import Attempt, TurnContext
from ostler.work.turns.adapter_errors import AdapterErrors


class DialogTurn:
    """The turn that a dialog runs just now."""

    def __init__(self, attempt: Attempt, context: TurnContext, asks: Asks) -> None:
        self.attempt, self.asks = attempt, asks
        self.add, self.artifacts, self.set_asking = context.add, context.artifacts, context.set_asking
        self.calls = Calls(attempt.turn)
        self.clock = LimitClock(attempt.turn.limits)
        self.over = asyncio.Event()
        self.wake = Wake()
        self.problem: Problem | None = None  # why the dialog failed
        self.beneath: set[Member] = set()  # what ran beneath the process when the turn began
        self.prompted = self.worked = False
        self.spoke = False  # it said anything since it was given the prompt
        self.receipt_limit = context.settings.dialog_receipt
        self.errors = AdapterErrors(attempt.agent.name)

    def end(self) -> None:
        self.over.set()
        self.wake()

    async def record(self, events: list[AnyEvent]) -> None:
        """Adds what the agent said to the journal."""
        self.clock.record(events)
        self.worked = self.worked or is_progress(events)
        await self.add(events)

    async def answered(self, ask: str, kind: AnswerKind, by: str, message: str = "") -> None:
        await self.add([Answered(id=ask, option=kind, by=by, message=message)])
        self.clock.record([])

    async def stop_asking(self) -> None:
        """The turn works on, unless more is asked."""
        if not len(self.asks):
            await self.set_asking(False)

    def undelivered(self, process: Process) -> Problem | None:
        """A prompt that was not read from its pipe, or of which an agent that always does so says nothing."""
        face = self.attempt.agent.dialog
        if self.spoke or clock.monotonic() - self.clock.began < self.receipt_limit:
            return None
        if not process.untaken and not (face and face.acknowledges):
            return None
        message = f"{self.attempt.agent.name} did not pick up the prompt within {self.receipt_limit:g} s"
        return Problem(kind="undelivered", message=message, hint="Its process was ended: try again")


def steps_of(dialog: Dialog, line: OutputLine, errors: Callable[[], AdapterErrors]) -> list[Step]:
    """What a line of the process has us do. An adapter that stumbles costs one record, never the dialog."""
    if line.cut:
        return dialog.read_cut(line.data[:1000].decode("utf-8", "replace"))
    record: Any = None
    try:
        record = decode(line.data)
        if isinstance(record, dict):
            return dialog.read(record)
        return dialog.read_noise(line.data.decode("utf-8", "replace"))
    except Exception as error:  # any bug of any adapter ends here
        kept = Raw(line=line.data.decode("utf-8", "replace"))
        answered = dialog.unread(record) if isinstance(record, dict) else []
        return [Emit([kept, *errors().notices(error)]), *answered]


def died_early(turn: Turn, exit: Exit | None, stderr_tail: str) -> OstlerError:
    """Why a process that ended before it was ready did so."""
    from ostler.agents.failures import kind_of, last_line, spoken

    said = last_line(stderr_tail)
    how = spoken(exit) if exit else "an unknown end"
    kind = kind_of(None, stderr_tail) if said else "crashed"
    message = f"{turn.agent} ended with {how} before it was ready" + (f": {said}" if said else "")
    return OstlerError(kind, message, "Try its command by hand, or `ostler doctor`")
