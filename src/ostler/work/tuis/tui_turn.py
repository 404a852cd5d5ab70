"""One turn in a TUI: the prompt is delivered, signals and records are followed, asks answered, the end found."""

import asyncio
import contextlib
import logging
import re
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from ostler import clock
from ostler.agents.reader import OUTCOMES
from ostler.agents.tui import TranscriptReader, TuiFace, TuiScreen, answer_since
from ostler.errors import OstlerError
from ostler.model import AnyEvent, Notice, Problem, Raw, Verdict
from ostler.process.tree import Member
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.terminals.pty_terminal import PtyTerminal
from ostler.work.transports.limits import LimitClock, is_progress
from ostler.work.transports.stop import Stop
from ostler.work.transports.tasks import cancel_all, until_first
from ostler.work.transports.transport import Attempt, Carried, TurnContext, stopped_verdict
from ostler.work.tuis.delivery import Delivery, DeliveryStage
from ostler.work.tuis.evidence import Ending, Evidence, Says, SignalSource, status_says
from ostler.work.tuis.hook_signals import HookSignals
from ostler.work.tuis.judgement import KnownOfTurn, judge
from ostler.work.tuis.screen_asks import ScreenAsks
from ostler.work.tuis.transcript import Fits, Transcript
from ostler.work.tuis.typing import Typist, pasted
from ostler.work.tuis.watch import TICK, Watch
from ostler.work.turns.adapter_errors import AdapterErrors

INTERRUPT = 5.0  # seconds after which a turn that does not stop is given up
AT_KEYBOARD = 2.0  # seconds that a person at the keyboard is waited for then
_SCREEN = 12  # rows of the screen that an error has as evidence

_log = logging.getLogger(__name__)


class TuiTurn:
    """A turn from its prompt to its end. `usable` says whether the TUI can take another one."""

    def __init__(
        self,
        attempt: Attempt,
        context: TurnContext,
        program: PtyTerminal,
        watch: Watch,
        typist: Typist,
        transcript: Transcript,
    ) -> None:
        face, reader = attempt.agent.tui, attempt.reader
        assert face is not None and isinstance(reader, TranscriptReader)
        self.attempt, self.context = attempt, context
        self.id = attempt.turn.id
        self.face: TuiFace = face
        self.reader: TranscriptReader = reader
        self.program, self.watch, self.typist, self.transcript = program, watch, typist, transcript
        self.usable = True
        self.used = False  # the TUI has taken a prompt before,
        self.put_back_before = ""  # and this one may stand in its box again
        self.put_back = ""  # the prompt, where an interrupt may have put it back into the box
        self._has_new_screen = False  # one that was drawn since Enter was pressed
        self.worked = False
        self.evidence = Evidence()
        self.clock = LimitClock(structs.replace(attempt.turn.limits, first_record=None))
        self.errors = AdapterErrors(attempt.agent.name)
        self.questions = ScreenAsks(attempt, context, watch, typist, self.evidence, self._add)
        self.asks = self.questions.asks
        self._receipt: list[str] = []
        self._helpers: set[Member] | None = None  # what had detached itself before the prompt was sent
        self._hooked: HookSignals | None = None
        reader.sent = pasted(face.prompt(attempt.effective_turn))
        if context.hooks is not None:
            self._hooked = HookSignals(context.hooks.face, reader.sent, watch.past_prompts)

    async def run(self) -> Carried:
        """Runs it to its end; whatever happens, automation does not hold the keyboard then."""
        self.watch.unread.clear()
        await self._begin()
        listening = asyncio.create_task(self._follow())
        hooked = asyncio.create_task(self._follow_hooks())
        try:
            ending, problem = await self._to_the_end(listening)
        finally:
            self.asks.close()
            await cancel_all([listening, hooked])
        await self._take_signals()  # the last records
        if problem is not None or (ending is not None and ending.how == "interrupted"):
            self._look_for_put_back()
        self.watch.forget_state()
        await self._add(self.reader.flush())
        return Carried(
            verdict=self._verdict(ending, problem),
            exit=self.program.exit if self.watch.signals.exited else None,
            leaked=await self._sweep(),
            worked=self.worked,
        )

    def _look_for_put_back(self) -> None:
        """After an interrupt. It is not cleared where something else may stand there: the program is given up then."""
        if self.evidence.sent_at is None:
            return
        screen, self.put_back = self.watch.screen, self.reader.sent
        hidden = self.face.shows(screen, self.put_back) and not self.face.holds(screen, self.put_back)
        self.usable = self.usable and self._has_new_screen and not hidden

    async def _begin(self) -> None:
        globs = self.face.transcripts(self.attempt.effective_turn)
        await asyncio.to_thread(self.transcript.begin, globs, its_file(self.attempt))

    async def _sweep(self) -> tuple[str, ...]:
        """Ends what the turn left behind in a program that stays, and says what it was: as in a dialog.

        What still descends from the program is its own. Of a turn that was taken up later nobody knows what was there.
        """
        if self._helpers is None or self.program.ending:
            return ()
        return await self.program.sweep_detached(self._helpers)

    async def answer(self, answer: AskAnswer) -> None:
        await self.asks.answer(answer)

    # -- from the prompt to the end

    async def _to_the_end(self, listening: "asyncio.Task[None]") -> tuple[Ending | None, Problem | None]:
        """How it ended by itself, and what made ostler end it or kept it from beginning."""
        stop = self.context.stop
        playing = asyncio.create_task(self._play())
        stopping = asyncio.create_task(stop.wait())
        limit = asyncio.create_task(self.clock.limit(self._waits_for_others))
        refused = asyncio.create_task(self.questions.given_up.wait())
        waits: list[asyncio.Task[Any]] = [playing, stopping, limit, refused]
        try:
            await until_first(waits, [listening])
            if playing.done():
                return playing.result()
            if refused.done():
                return None, self.questions.refused
            problem: Problem = (stopping if stopping.done() else limit).result()
            await cancel_all([playing])
            await self._interrupt(problem, stop)
            return None, problem
        finally:
            await cancel_all(waits)

    async def _play(self) -> tuple[Ending | None, Problem | None]:
        delivery = self._delivery()
        try:
            await delivery.send()
        except OstlerError as error:
            _log.info("turn %s: its prompt was not delivered: %s", self.id, error.message)
            await self._undelivered(delivery)
            return None, self.questions.refused or Problem.of(error)
        finally:
            self.usable = self.usable and not delivery.leaves_text
        _log.debug("turn %s: its end is waited for", self.id)
        while (ending := self.evidence.ending(clock.monotonic())) is None:
            await self.watch.change(TICK)
        _log.debug("turn %s: %s by %s", self.id, ending.how, " and ".join(map(str, ending.by)))
        return ending, None

    def _delivery(self) -> Delivery:
        settings = self.context.settings
        return Delivery(
            face=self.face,
            watch=self.watch,
            typist=self.typist,
            evidence=self.evidence,
            name=self.attempt.agent.name,
            turn=self.id,
            text=self.reader.sent,
            start_limit=settings.tui_start,
            receipt_limit=settings.tui_receipt,
            reached=self._reached,
            used=self.used,
            put_back=self.put_back_before,
            stages=[],
        )

    async def _reached(self, stage: DeliveryStage, by: str) -> None:
        text = f"{stage} by {by}" if by else stage
        _log.debug("turn %s: its prompt is %s", self.id, text)
        self._receipt.append(text)
        if stage == "echoed":
            self._helpers = self.program.detached()
        self.worked = self.worked or stage == "submitted"
        await self._add([Notice(code="receipt", text=text, quiet=True)])

    async def _undelivered(self, delivery: Delivery) -> None:
        """Keeps what the screen showed."""
        screen = self.watch.screen.text
        with contextlib.suppress(OSError):  # a full disk: the evidence has the last rows
            self.context.artifacts.write("screen", "screen.txt", screen.encode())
        self.reader.evidence += [f"receipt: {', '.join(delivery.stages) or 'nothing'}", f"screen: {_tail(screen)}"]

    def _waits_for_others(self) -> bool:
        """Whether silence is no wonder: a tool runs, somebody is asked, a person is at the keyboard."""
        asked = len(self.asks) or self.context.asking
        return bool(asked or self.reader.open_tools or self.typist.is_held_up())

    # -- signals

    async def _follow(self) -> None:
        while True:
            await self._take_signals()
            await self.questions.look()
            await self.watch.change(TICK)

    async def _follow_hooks(self) -> None:
        """What hooks say, beside all else; those that do not come are not missed."""
        if self.context.hooks is None or self._hooked is None:
            return
        async for fired in self.context.hooks.events():
            says = self._hooked.state_of(fired)
            if says is not None and self.evidence.sent_at is not None:
                self.watch.add_signal("hook", says)
                self.reader.acted = self.reader.acted or fired.uses_tool

    async def _take_signals(self) -> None:
        """In the order that no end is believed too early: what the program says it does, then what its file says,
        then that it has ended: its last records were written before that.
        """
        new = [self.watch.unread.popleft() for _ in range(len(self.watch.unread))]
        for signal in new:
            if signal[0] != "process":
                await self._add_signal(*signal)
        for record in await self._new_records():
            await self._add(self._read(record))
        await self._signals_of_transcript()
        for signal in new:
            if signal[0] == "process":
                await self._add_signal(*signal)
        await self._signals_of_screen()

    async def _new_records(self) -> list[dict[str, Any]]:
        """A file that is not found yet is looked for among many: beside the loop."""
        if self.transcript.path is None:
            return await asyncio.to_thread(self.transcript.records)
        return self.transcript.records()

    def _read(self, record: dict[str, Any]) -> list[AnyEvent]:
        try:
            return self.reader.read(record)
        except Exception as error:  # any bug of any adapter ends here
            return [Raw(record=record), *self.errors.notices(error)]

    async def _signals_of_transcript(self) -> None:
        reader, now = self.reader, clock.monotonic()
        if reader.interrupted:
            await self._add_signal("transcript", "interrupted", now)
        elif reader.result is not None:
            await self._add_signal("transcript", "done" if reader.result == "ok" else "failed", now)
        elif reader.prompted:
            await self._add_signal("transcript", "submitted", now)

    async def _signals_of_screen(self) -> None:
        screen, now = self.watch.screen, clock.monotonic()
        says = status_says(self.face.status(screen, structs.replace(self.watch.signals, state="", title="")))
        if says is None or self.evidence.sent_at is None or self._is_drawn_before_enter(screen, says):
            return
        if says == "ready" and self.reader.result is None and self.evidence.looks_taken:
            text = self._screen_text()
            if not self.reader.prompted:
                self.reader.text = text
                if self.attempt.turn.done_pattern and self.reader.is_done():
                    await self._add_signal("pattern", "done", now)
            if self.face.interrupted and re.search(self.face.interrupted, text):
                says = "interrupted"
        await self._add_signal("screen", says, now)

    def _is_drawn_before_enter(self, screen: TuiScreen, says: Says) -> bool:
        """A screen may be late, in a pane above all: the prompt that is still in its box says nothing of the turn."""
        changed = self.watch.changed_at > (self.evidence.sent_at or 0.0)  # before, it had stood still for a while
        left = says != "ready" or not self.face.shows(screen, self.reader.sent)
        self._has_new_screen = self._has_new_screen or changed or left
        return not self._has_new_screen

    async def _add_signal(self, source: SignalSource, says: Says, at: float) -> None:
        """Each that is new stands in the journal."""
        if (signal := self.evidence.add(source, says, at)) is not None:
            _log.debug("turn %s: %s", self.id, signal)
            await self.context.add([Notice(code="signal", text=str(signal), quiet=True)])
            if says != "ended":
                self.clock.record([])

    async def _add(self, events: list[AnyEvent]) -> None:
        if not events:
            return
        self.clock.record(events)
        self.worked = self.worked or is_progress(events)
        await self.context.add(events)

    # -- the end

    async def _interrupt(self, problem: Problem, stop: Stop) -> None:
        """Ends the turn, not the program; one that does not obey is ended, and so it is by a signal."""
        _log.info("turn %s: it is interrupted (%s)", self.id, problem.kind)
        await self.asks.cancel(problem.kind)
        if stop.signal is not None:
            await self.program.end(stop.signal)
            return
        if self.evidence.sent_at is None:
            return  # nothing was submitted; a box that is not empty makes the TUI useless, which is known
        for _ in range(2):
            await self._press_interrupt()
            if await self.watch.until(self._has_stopped, INTERRUPT / 2):
                return
        _log.warning("turn %s: %s did not stop and is ended", self.id, self.attempt.agent.name)
        await self._add([Notice(code="not_interrupted", text=f"{self.attempt.agent.name} did not stop; it was ended")])
        await self.program.end()

    async def _press_interrupt(self) -> None:
        status = self.face.status(self.watch.screen, self.watch.signals)
        keys = self.face.interrupt_asking if status == "asking" else self.face.interrupt
        with contextlib.suppress(OstlerError, TimeoutError):  # a person is at the keyboard, or it has ended
            async with asyncio.timeout(AT_KEYBOARD), self.typist.at_keyboard():
                self.typist.press(keys)

    def _has_stopped(self) -> bool:
        return self.evidence.ending(clock.monotonic()) is not None or bool(self.evidence.calm)

    def _verdict(self, ending: Ending | None, problem: Problem | None) -> Verdict:
        """By the same rule of proof as everywhere; the evidence names the receipt and what decided."""
        judge(self.reader, ending, self._known())
        ended = ending is not None and ending.how == "ended"
        exit = self.program.exit if ended or (ending is None and self.watch.signals.exited) else None
        verdict = self.reader.end(exit, "")
        decided = [f"ended by {' and '.join(map(str, ending.by))}"] if ending is not None else []
        receipt = [f"receipt: {', '.join(self._receipt)}"] if self._receipt and problem is None else []
        verdict = structs.replace(verdict, evidence=(*receipt, *decided, *verdict.evidence))
        if problem is None:
            return verdict
        if problem.kind in ("cancelled", "timed_out"):
            return stopped_verdict(verdict, problem)
        outcome: Any = OUTCOMES.get(problem.kind, "failed")
        return structs.replace(verdict, outcome=outcome, error=problem)

    def _known(self) -> KnownOfTurn:
        name, denied = self.attempt.agent.name, self.questions.denied
        return KnownOfTurn(agent=name, hooks=self._hooked, denied=denied, shown=self._screen_text)

    def _screen_text(self) -> str:
        rows = self.watch.screen.rows
        return answer_since(rows, self.reader.sent, self.face.answer_ends(self.watch.screen))


def its_file(attempt: Attempt) -> Fits | None:
    """How the file of a new conversation is told where the agent chooses the id; None where the name tells."""
    agent, folder = attempt.agent, attempt.turn.folder
    if agent.chooses_id or attempt.turn.resume or agent.conversation is None:
        return None
    tell = agent.conversation

    def fits(path: str, head: Sequence[dict[str, Any]]) -> bool:
        found = tell(path, head)
        return found is not None and found.folder == folder

    return fits


def _tail(screen: str) -> str:
    return "\n".join(line for line in screen.splitlines()[-_SCREEN:] if line.strip())
