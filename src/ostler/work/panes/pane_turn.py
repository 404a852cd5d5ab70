"""A turn in a TUI that runs in a pane: it can be left to itself, and taken up again by another process."""

import asyncio
import logging
from typing import Any

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import AnyEvent, Asked, Notice, Problem
from ostler.work.panes.notes import Bookmark, PaneNotes
from ostler.work.panes.replay import Replay
from ostler.work.terminals.pty_terminal import PtyTerminal
from ostler.work.transports.stop import LeftInPane, Stop
from ostler.work.transports.transport import Attempt, TurnContext
from ostler.work.tuis.delivery import DeliveryStage
from ostler.work.tuis.evidence import Ending
from ostler.work.tuis.transcript import Transcript
from ostler.work.tuis.tui_turn import TuiTurn, its_file
from ostler.work.tuis.typing import Typist
from ostler.work.tuis.watch import TICK, Watch

SUBMITTED = ("submitted", "acknowledged")  # from there on a turn goes on by itself

_log = logging.getLogger(__name__)


class PaneTurn(TuiTurn):
    """As `TuiTurn`. Where its records begin is noted, so that whoever takes it up reads all of them."""

    def __init__(
        self,
        attempt: Attempt,
        context: TurnContext,
        program: PtyTerminal,
        watch: Watch,
        typist: Typist,
        transcript: Transcript,
        notes: PaneNotes,
    ) -> None:
        super().__init__(attempt, context, program, watch, typist, transcript)
        self._notes = notes
        self._replay = Replay(attempt.adopts or ())
        self.questions.count = sum(isinstance(event, Asked) for event in attempt.adopts or ())

    async def _begin(self) -> None:
        session, turn = self.attempt.turn.session, self.attempt.turn
        if self.attempt.adopts is None:
            await super()._begin()
            path, offset, others = self.transcript.bookmark
            mark = Bookmark(path=path, offset=offset, others=others)
            await asyncio.to_thread(self._notes.change, session, turn=turn.id, bookmark=mark, used_at=clock.now())
            return
        _log.debug("turn %s: it is taken up with %d events", turn.id, len(self.attempt.adopts))
        note = self._notes.get(session)
        mark = note.bookmark if note is not None else Bookmark()
        globs = self.face.transcripts(self.attempt.effective_turn)
        self.transcript.resume(globs, its_file(self.attempt), (mark.path, mark.offset, mark.others))
        self.context.stop.can_leave = True
        self.worked = True
        self.evidence.sent(clock.monotonic())
        if self._hooked is not None and (says := self._hooked.resume(self.attempt.adopts)):
            self.watch.add_signal("hook", says)

    def _read(self, record: dict[str, Any]) -> list[AnyEvent]:
        return self._replay.new(super()._read(record))

    async def _reached(self, stage: DeliveryStage, by: str) -> None:
        await super()._reached(stage, by)
        self.context.stop.can_leave = self.context.stop.can_leave or stage in SUBMITTED

    async def _play(self) -> tuple[Ending | None, Problem | None]:
        if self.attempt.adopts is None:
            return await super()._play()
        self._receipt = _receipts(self.attempt.adopts)
        deadline = clock.monotonic() + self.context.settings.tui_receipt
        while (ending := self.evidence.ending(clock.monotonic())) is None:
            taken = self.evidence.acknowledged is not None or self.evidence.looks_taken
            if clock.monotonic() > deadline and not taken and not self._was_acknowledged():
                return None, Problem.of(self._not_taken_up())
            await self.watch.change(TICK)
        _log.debug("turn %s: %s by %s", self.id, ending.how, " and ".join(map(str, ending.by)))
        return ending, None

    def _was_acknowledged(self) -> bool:
        return any(text.startswith("acknowledged") for text in self._receipt)

    def _not_taken_up(self) -> OstlerError:
        message = f"{self.attempt.agent.name} did not pick up the prompt before ostler was restarted"
        return OstlerError("undelivered", message, "Look at its pane: ostler tmux attach")

    async def _interrupt(self, problem: Problem, stop: Stop) -> None:
        if stop.left:
            _log.info("turn %s: it is left in its pane, where it goes on", self.id)
            raise LeftInPane
        await super()._interrupt(problem, stop)


def was_submitted(events: tuple[AnyEvent, ...]) -> bool:
    """Whether the prompt is known to have gone off: else nobody knows what stands in the box."""
    return any(text.startswith(SUBMITTED) for text in _receipts(events))


def _receipts(events: tuple[AnyEvent, ...]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.code == "receipt"]
