"""Dialogs on the screen of a TUI: put to rules and people as asks, and answered by the keys of an option."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import structs

from ostler import clock
from ostler.agents.dialog import AnswerKind
from ostler.agents.tui import DialogOption, Question, TranscriptReader
from ostler.errors import OstlerError, quoted
from ostler.model import Answered, AnyEvent, Notice, Problem
from ostler.work.dialogs.ask_rules import decide
from ostler.work.dialogs.asks import Asks
from ostler.work.transports.transport import Attempt, TurnContext
from ostler.work.tuis.delivery import STEADY
from ostler.work.tuis.evidence import Evidence
from ostler.work.tuis.questions import Candidate, OpenQuestion, asked_of, same_question, seen_question
from ostler.work.tuis.typing import Typist
from ostler.work.tuis.watch import Watch

ABOUT = 2.0  # seconds that the record of what a dialog is about is waited for
UNANSWERED = 4.0  # seconds after which keys that changed nothing count as lost


class ScreenAsks:
    """The asks of one turn. `look` is to be called whenever something may have changed on the screen."""

    def __init__(
        self,
        attempt: Attempt,
        context: TurnContext,
        watch: Watch,
        typist: Typist,
        evidence: Evidence,
        add: Callable[[list[AnyEvent]], Awaitable[None]],
    ) -> None:
        assert attempt.agent.tui is not None and isinstance(attempt.reader, TranscriptReader)
        self._name, self._access = attempt.agent.name, attempt.turn.access
        self._face, self._reader = attempt.agent.tui, attempt.reader
        self._watch, self._typist, self._evidence = watch, typist, evidence
        self._add, self._set_asking = add, context.set_asking
        rules = partial(decide, rules=context.settings.asks, turn=attempt.turn, agent=attempt.agent)
        self.asks = Asks(rules, self._give, context.settings.ask_limit)
        self.count = 0  # how many there were, for their ids
        self.denied = ""  # what was not allowed last: some agents stop then
        self.refused: Problem | None = None  # a question that nobody could answer from here
        self.given_up = asyncio.Event()
        self._unkept: OstlerError | None = None  # why an answer could not be kept: nobody can give it again
        self._open: OpenQuestion | None = None
        self._candidate: Candidate | None = None

    async def look(self) -> None:
        """Opens an ask for a dialog that stands on the screen, and closes one whose dialog has gone. Raises `store`."""
        if self._unkept is not None:
            raise self._unkept
        if self._watch.signals.exited:
            return
        seen, now, open = self._seen(), clock.monotonic(), self._open
        if open is not None:
            if not same_question(open.question, seen) or open.times != self._watch.blocked:
                await self._question_gone(open)
            elif open.answered_at is not None and now - open.answered_at > UNANSWERED:
                self._open = None  # the keys did nothing: it is asked again
        if seen is None:
            self._candidate = None
        elif self._candidate is None or not same_question(self._candidate.question, seen):
            self._candidate = Candidate(question=seen, since=now)
        elif self._open is None and now - self._candidate.since >= self._patience(seen):
            await self._question_opened(seen)

    def _seen(self) -> Question | None:
        return seen_question(self._face, self._watch.screen, self._watch.signals)

    def _patience(self, question: Question) -> float:
        """A dialog half drawn is none; and the record of what it is about may come after it."""
        known = self._evidence.sent_at is None or self._reader.asked_about(question) is not None
        return STEADY if known and question.options else ABOUT

    async def _question_opened(self, question: Question) -> None:
        if question.settled_by is not None and self._evidence.sent_at is None:
            await self._settle(question, question.settled_by)
            return
        self.count += 1
        begun = self._evidence.sent_at is not None
        asked = asked_of(question, self._reader, self._access, f"tui-{self.count}", begun)
        asked = structs.replace(asked, expires_at=self.asks.expires_at())
        self._open = OpenQuestion(ask=asked.id, question=question, times=self._watch.blocked)
        ruled = self.asks.opened(asked)
        if ruled is None:
            await self._set_asking(True)
            await self._add([asked])
            return
        kind, by = ruled
        await self._add([asked, Answered(id=asked.id, option=kind, by=by)])
        await self._choose(self._open, kind)

    async def _settle(self, question: Question, option: DialogOption) -> None:
        """A screen that is known word by word, and an answer that grants nothing."""
        self._candidate = None
        async with self._typist.at_keyboard():
            seen = self._seen()
            if seen is None or not same_question(question, seen) or seen.settled_by is None:
                return
            self._typist.press(seen.settled_by.keys)
        await self._add([Notice(code="settled", text=f"{question.title}: {option.name}")])
        await self._watch.until(lambda: not same_question(question, self._seen()), UNANSWERED)

    async def _give(self, ask: str, kind: AnswerKind, by: str, message: str) -> None:
        """An answer of a person or the time limit, on its way to the keyboard."""
        open = self._open
        if open is None or open.ask != ask:
            raise OstlerError("not_found", f"the ask {quoted(ask)} is not open: its dialog has gone")
        try:
            await self._answered(ask, kind, by, message if kind.startswith("reject") else "")
        except OstlerError as error:
            self._unkept = error
            raise
        if kind != "cancelled":
            await self._choose(open, kind)

    async def _answered(self, ask: str, kind: str, by: str, message: str = "") -> None:
        await self._add([Answered(id=ask, option=kind, by=by, message=message)])
        if not len(self.asks):
            await self._set_asking(False)

    async def _choose(self, open: OpenQuestion, kind: AnswerKind) -> None:
        """Presses the keys of that answer, if the very same dialog is still there."""
        option = open.question.option(kind)
        if self._evidence.sent_at is None and kind.startswith("reject"):
            hint = "Answer it in its terminal: ostler attach"
            message = f"{self._name} wants an answer first: {open.question.title}"
            self.refused = Problem(kind="denied", message=message, hint=hint)
        if option is None:
            message = f"{self._name} asked something that can only be answered in its terminal: {open.question.title}"
            self.refused = self.refused or Problem(
                kind="denied",
                message=message,
                hint="Answer it there: ostler attach",
            )
            self.given_up.set()
            return
        async with self._typist.at_keyboard():
            seen = self._seen()
            now = seen.option(kind) if seen is not None and same_question(open.question, seen) else None
            if now is None:
                return  # somebody was quicker
            self._typist.press(now.keys)
        open.answered_at = clock.monotonic()
        self.denied = open.question.title if kind.startswith("reject") else ""

    async def _question_gone(self, open: OpenQuestion) -> None:
        self._open = self._candidate = None
        if open.answered_at is None and self.asks.settled(open.ask, "the terminal"):
            await self._answered(open.ask, "cancelled", "the terminal")
