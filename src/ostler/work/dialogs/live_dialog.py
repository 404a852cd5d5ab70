"""One dialog process at work: reads what it says, carries out the steps, takes one turn after the other."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import structs

from ostler import clock
from ostler.agents.dialog import AnswerKind, Ask, Call, Emit, Fail, Over, Ready, Step, Withdrawn, Write
from ostler.errors import OstlerError, internal_error, quoted
from ostler.model import Answered, AnyEvent, Asked, Notice, Problem, Verdict
from ostler.process import LineFramer, OutputLine, Process, Warden, chunks
from ostler.process.tree import Member
from ostler.work.dialogs.ask_rules import decide
from ostler.work.dialogs.asks import AskAnswer, Asks
from ostler.work.dialogs.call_tasks import CallTasks
from ostler.work.dialogs.call_terminals import CallTerminals
from ostler.work.dialogs.dialog_turn import DialogTurn, died_early, steps_of
from ostler.work.transports.limits import TICK
from ostler.work.transports.spares import remove_spare_folder
from ostler.work.transports.spawn import spawn_attempt
from ostler.work.transports.stop import Stop, end_process
from ostler.work.transports.tasks import cancel_all
from ostler.work.transports.transport import TAIL, Attempt, Carried, TurnContext, stopped_verdict
from ostler.work.turns.adapter_errors import AdapterErrors
from ostler.work.turns.artifacts import keep_logins, remove_files

HANDSHAKE = 90.0  # where the turn has no limit; opencode takes 4 s, a cold start on a busy machine much more
INTERRUPT = 5.0  # after which an interrupted turn is given up
GIVE_UP = 1.0  # and its process ended
CLOSE = 2.0
FRAME_CAP = 64 * 1024 * 1024
UNREAD_CAP = 64 * 1024 * 1024  # of what we wrote and the process did not read
_encode = msgspec.json.Encoder().encode

_log = logging.getLogger(__name__)


class LiveDialog:
    """A process that holds a dialog. Made by `start`; `close` ends it with all that it started."""

    def __init__(self, attempt: Attempt, process: Process, placed: tuple[str, ...]) -> None:
        assert attempt.dialog is not None
        self.dialog = attempt.dialog
        self.process = process
        self.name = attempt.agent.name
        self.model = attempt.turn.model
        self._placed = placed
        self._enclosure = attempt.enclosure  # of its process, whatever later turns would get
        self._helpers: set[Member] = set()  # daemons of its start: they are its own, and go with it
        self._turn: DialogTurn | None = None
        self._failed: Problem | None = None
        self._ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        self._in_order = asyncio.Lock()  # what the process says and what people want, one after the other
        self._stderr_tail = ""
        self._pumps: list[asyncio.Task[None]] = []
        self._calls = CallTasks(self._reply, self._stumbled)
        self.terminals: CallTerminals | None = None  # where it has us run commands
        self._rest: asyncio.TimerHandle | None = None
        self._closed = False
        self.spare_folder = ""  # which it was started with, where its session was still to come

    @classmethod
    async def start(cls, attempt: Attempt, warden: Warden) -> "LiveDialog":
        """Starts the process and shakes hands. Raises what went wrong, and leaves nothing behind."""
        process, placed = await spawn_attempt(attempt, warden, mark=attempt.turn.session, keep_stdin=True)
        self = cls(attempt, process, placed)
        try:
            await self._shake_hands(attempt)
        except BaseException:
            await self.close()
            raise
        _log.info("session %s: %s holds a dialog (pid %d)", attempt.turn.session, self.name, process.pid)
        self._helpers = process.detached()
        return self

    @property
    def usable(self) -> bool:
        return not self._closed and self._failed is None and self.process.exit is None

    @property
    def turn_id(self) -> str | None:
        return self._turn.attempt.turn.id if self._turn else None

    # -- turns

    async def run_turn(self, attempt: Attempt, context: TurnContext) -> Carried:
        """Runs one turn to its end. The process stays for the next one, unless it died or would not stop."""
        rules = partial(decide, rules=context.settings.asks, turn=attempt.turn, agent=attempt.agent)
        asks = Asks(rules, self._give, context.settings.ask_limit)
        turn = self._turn = DialogTurn(attempt, context, asks)
        self._calls.begin_turn(turn.calls)
        if self.dialog.leaves_commands:
            turn.beneath = self.process.beneath()
        if self.terminals is not None:
            turn.calls.terminals = self.terminals
            self.terminals.begin(attempt.turn, context.add, attempt.redactor, self._enclosure)
        try:
            await self._do(partial(self._prompt, turn))
            ended_by_us = await self._until_over(turn, context.stop)
            await turn.add(self._flush())
            return Carried(
                verdict=self._verdict(turn, ended_by_us),
                exit=self.process.exit,
                leaked=await self._sweep(),
                worked=turn.worked,
            )
        except BaseException:
            if turn.prompted:  # it still works on that, and nobody follows what it says
                self._failed = self._failed or Problem(kind="crashed", message="its turn was broken off")
            raise
        finally:
            asks.close()
            await self._calls.end_turn()
            if self.terminals is not None:
                await self.terminals.pause()
            keep_logins(self._placed)
            self._turn = None

    def _prompt(self, turn: DialogTurn) -> list[Step]:
        """Raises for what the agent cannot take: nothing has been said to it then."""
        steps = self.dialog.prompt(turn.attempt.effective_turn)
        turn.prompted = True
        return steps

    async def _sweep(self) -> tuple[str, ...]:
        """Ends what the turn left behind, and says what it was.

        What still descends from the agent is the agent's: servers that it keeps, commands in its own background.
        They stay for the next turn and end with the dialog. What has detached itself is held by nobody.
        """
        if self.process.exit is not None:
            return await self.process.sweep()
        return await self.process.sweep_detached(self._helpers)

    async def answer(self, answer: AskAnswer) -> None:
        if self._turn is None:
            raise OstlerError("not_found", f"the ask {quoted(answer.ask)} is not open: no turn is running")
        await self._turn.asks.answer(answer)

    async def steer(self, text: str, by: str) -> None:
        """Tells the running turn more; the journal has it. Raises unsupported, not_found."""
        notice = Notice(code="steered", text=f"steered by {by}: {text}")
        await self._do(lambda: [*self.dialog.steer(text), Emit([notice])])

    async def adapt(self, attempt: Attempt) -> bool:
        """Makes the dialog fit the turn's model and mode. False: it takes a new process.

        Raises what a new process would not mend, such as a mode that the agent does not have; the dialog stays.
        """
        model, mode = attempt.turn.model, attempt.turn.mode
        try:
            if model != self.model:
                await self._do(lambda: self.dialog.change(model=model) if model else self.dialog.usual_model())
                self.model = model
        except OstlerError as error:
            if error.kind != "unsupported":
                raise
            return False
        if mode is not None:
            await self._do(lambda: self.dialog.change(mode=mode))
        return True

    def rest(self, seconds: float, then: Callable[[], None]) -> None:
        """Calls `then` after this time, unless it is told to `stay`."""
        self.stay()
        self._rest = asyncio.get_running_loop().call_later(seconds, then)

    def stay(self) -> None:
        if self._rest is not None:
            self._rest.cancel()

    async def close(self) -> None:
        """Says goodbye, closes stdin, and ends what is still there; idempotent."""
        if self._closed:
            return
        self._closed = self._calls.closed = True
        self.stay()
        _log.info("the dialog with %s (pid %d) is closed", self.name, self.process.pid)
        try:
            await self._leave()
        finally:
            if self.terminals is not None:
                await self.terminals.close()
            await self._calls.close()
            await cancel_all(self._pumps)
            self.process.release()
            remove_files(self._placed)
            if self.spare_folder:
                remove_spare_folder(self.spare_folder)

    async def _leave(self) -> None:
        try:
            if self.process.exit is None and self._failed is None:
                with contextlib.suppress(OstlerError, TimeoutError):  # who does not say goodbye is ended below
                    await asyncio.wait_for(self._do(self.dialog.close), CLOSE)
                self.process.close_stdin()
                with contextlib.suppress(TimeoutError):  # it is ended below
                    await asyncio.wait_for(self.process.wait(), CLOSE)
        finally:
            if self.process.exit is None:
                await self.process.end()
            await self.process.sweep()

    # -- the way of one turn

    async def _until_over(self, turn: DialogTurn, stop: Stop) -> Problem | None:
        """Waits until the turn is over; what made ostler end it, or None."""
        problem = await self._until_over_or_problem(turn, stop)
        if problem is None and not turn.over.is_set():
            await asyncio.wait(self._pumps, timeout=CLOSE)  # the last words of a process that died
        if problem is None:
            return None
        why = turn.attempt.redactor.text(problem.message)
        _log.info("turn %s: it is interrupted (%s)", turn.attempt.turn.id, why)
        stops = [self.terminals.stop()] if self.terminals else []
        await asyncio.gather(self._interrupt(turn, problem, stop), *stops)
        if self.dialog.leaves_commands and self.process.exit is None:
            await self.process.end_since(turn.beneath)
        return problem

    async def _until_over_or_problem(self, turn: DialogTurn, stop: Stop) -> Problem | None:
        """None once the turn is over or the process has ended; else why the turn is to end now.

        Raises what a pump failed with (the store is full).
        """
        wake = turn.wake
        for pump in self._pumps:
            pump.add_done_callback(wake)
        try:
            with stop.calling(wake), self.process.calling(wake):
                while True:
                    if turn.over.is_set() or self.process.exit is not None:
                        return None
                    for pump in self._pumps:
                        if pump.done():
                            pump.result()
                    problem = stop.problem or turn.undelivered(self.process)  # which says more than "no output"
                    problem = problem or turn.clock.passed(clock.monotonic(), self._busy_elsewhere(turn))
                    if problem is not None:
                        return problem
                    await wake.wait(TICK)
        finally:
            for pump in self._pumps:
                pump.remove_done_callback(wake)

    def _busy_elsewhere(self, turn: DialogTurn) -> bool:
        """Whether silence is no wonder: a tool runs, or somebody is being asked."""
        return bool(len(turn.asks) or (self.dialog.reader and self.dialog.reader.open_tools))

    async def _interrupt(self, turn: DialogTurn, problem: Problem, stop: Stop) -> None:
        """Ends the turn, not the process; one that does not obey is ended, and so it is by a signal."""
        await turn.asks.cancel(problem.kind)
        if stop.signal is not None:
            await end_process(self.process, stop)
            return
        for action, grace in ((self.dialog.interrupt, INTERRUPT), (self.dialog.give_up, GIVE_UP)):
            with contextlib.suppress(OstlerError):  # the agent cannot be interrupted this way: the next one is tried
                await self._do(action)
            with contextlib.suppress(TimeoutError):  # it does not obey: the next way is tried
                await asyncio.wait_for(turn.over.wait(), grace)
                return
        await turn.add([Notice(code="not_interrupted", text=f"{turn.attempt.agent.name} did not stop; it was ended")])
        await self.process.end()

    def _verdict(self, turn: DialogTurn, ended_by_us: Problem | None) -> Verdict:
        verdict = self.dialog.verdict(None if turn.over.is_set() else self.process.exit, self._stderr_tail)
        problem = ended_by_us or turn.problem
        if problem is None and verdict.outcome == "crashed" and verdict.error and not turn.over.is_set():
            hint = verdict.error.hint or "The next turn starts it again and goes on with the conversation"
            return structs.replace(verdict, error=structs.replace(verdict.error, hint=hint))
        return verdict if problem is None else stopped_verdict(verdict, problem)

    def _flush(self) -> list[AnyEvent]:
        return self.dialog.reader.flush() if self.dialog.reader else []

    # -- steps

    async def _do(self, action: Callable[[], list[Step]]) -> None:
        """Carries out the steps of an action or a record, in order, before anything else is read or wanted."""
        async with self._speaking():
            for step in action():
                await self._step(step)

    @contextlib.asynccontextmanager
    async def _speaking(self) -> AsyncGenerator[None, None]:
        """In order. A bug of the adapter ends the turn: its agent would wait for ever for what was to be said to it."""
        async with self._in_order:
            try:
                yield
            except OstlerError:
                raise
            except Exception as error:
                self._fail(Problem(kind="crashed", message=internal_error(error)[:2000]))
                raise

    async def _step(self, step: Step) -> None:
        match step:
            case Write(record):
                await self._write(record)
            case Emit(events):
                await self._add(events)
            case Ready():
                if not self._ready.done():
                    self._ready.set_result(step)
            case Ask(asked):
                await self._asked(asked)
            case Withdrawn(ask):
                await self._withdrawn(ask)
            case Over():
                if self._turn is not None:
                    self._turn.end()
            case Call(name="terminal_show"):
                if self.terminals is not None:
                    await self.terminals.show(step.params)
            case Call():
                self._calls.start(step)
            case Fail(problem):
                self._fail(problem)

    async def _write(self, record: Any) -> None:
        """Queued, not awaited: an agent that writes before it reads must not stop us from reading."""
        self.process.put(_encode(record) + b"\n")
        if self.process.unread > UNREAD_CAP:
            hint = "Its process was ended: try again"
            self._fail(Problem(kind="undelivered", message="the agent does not read its input", hint=hint))

    async def _add(self, events: list[AnyEvent]) -> None:
        if self._turn is not None and events:
            await self._turn.record(events)

    def _fail(self, problem: Problem) -> None:
        _log.warning("the dialog with %s failed: %s", self.name, problem.kind)
        self._failed = problem
        if not self._ready.done():
            self._ready.set_exception(problem.raised())
        if self._turn is not None:
            self._turn.problem = problem
            self._turn.end()

    # -- asks

    async def _asked(self, asked: Asked) -> None:
        turn = self._turn
        if turn is None or turn.over.is_set():
            for step in self.dialog.answer(asked.id, "cancelled"):
                await self._step(step)
            return
        asked = structs.replace(asked, expires_at=turn.asks.expires_at())
        ruled = turn.asks.opened(asked)
        if ruled is None:
            await turn.set_asking(True)
            await self._add([asked])
            return
        kind, by = ruled
        await self._add([asked, Answered(id=asked.id, option=kind, by=by)])  # at once: nobody is to answer it
        for step in self.dialog.answer(asked.id, kind, f"denied by {by}" if kind.startswith("reject") else ""):
            await self._step(step)

    async def _give(self, ask: str, kind: AnswerKind, by: str, message: str) -> None:
        """An answer of a person or the time limit, on its way to the agent. Journaled before it is given."""
        async with self._speaking():
            turn = self._turn
            if turn is None:
                raise OstlerError("not_found", f"the ask {quoted(ask)} is not open: its turn has ended")
            try:
                steps = self.dialog.answer(ask, kind, message)
            except OstlerError:
                await turn.answered(ask, "cancelled", "the agent")
                raise
            try:
                await turn.answered(ask, kind, by, message if kind.startswith("reject") else "")
            except OstlerError as error:  # the store is full: the agent would wait for ever
                self._fail(Problem.of(error))
                raise
            for step in steps:
                await self._step(step)
            await turn.stop_asking()

    async def _withdrawn(self, ask: str) -> None:
        self._calls.cancel(ask)
        turn = self._turn
        if turn is not None and turn.asks.settled(ask, "the agent"):
            await turn.answered(ask, "cancelled", "the agent")
            await turn.stop_asking()

    # -- calls

    async def _reply(self, call: str, result: dict[str, Any] | None, problem: Problem | None) -> None:
        await self._do(lambda: self.dialog.reply(call, result, problem))

    async def _stumbled(self, error: Exception) -> None:
        await self._add(self._errors().notices(error))

    # -- the process

    async def _shake_hands(self, attempt: Attempt) -> None:
        self._pumps = [asyncio.create_task(self._read_stdout()), asyncio.create_task(self._read_stderr())]
        exit = asyncio.create_task(self.process.wait())
        try:
            await self._do(self.dialog.open)
            waits: list[asyncio.Future[Any]] = [exit, self._ready]
            limit = attempt.turn.limits.first_record or HANDSHAKE
            await asyncio.wait(waits, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if self._ready.done():
                self._ready.result()
                return
            if exit.done():
                await asyncio.wait(self._pumps, timeout=CLOSE)
                if self._ready.done():
                    self._ready.result()
                if problem := self.dialog.startup_error(self.process.exit, self._stderr_tail):
                    raise problem.raised()
                raise died_early(attempt.effective_turn, self.process.exit, self._stderr_tail)
            name = attempt.agent.name
            hint = "Try its command by hand, or `ostler doctor`"
            raise OstlerError("timed_out", f"{name} did not open a dialog within {limit:g} s", hint)
        finally:
            await cancel_all([exit])
            if self._ready.done() and not self._ready.cancelled():
                self._ready.exception()

    async def _read_stdout(self) -> None:
        assert self.process.stdout_fd is not None
        framer = LineFramer(cap=FRAME_CAP)
        async for chunk in chunks(self.process.stdout_fd):
            if self._turn is not None:
                self._turn.spoke = True
                self._turn.artifacts.raw("stdout", chunk)
            await self._take_lines(framer.feed(chunk))
        await self._take_lines(framer.close())

    async def _take_lines(self, lines: list[OutputLine]) -> None:
        """Carries out what the lines say, in order; events of neighbours are written together."""
        async with self._in_order:
            events: list[AnyEvent] = []
            for line in lines:
                for step in steps_of(self.dialog, line, self._errors):
                    if isinstance(step, Emit):
                        events += step.events
                        continue
                    await self._add(events)
                    events = []
                    await self._step(step)
            await self._add(events)

    def _errors(self) -> AdapterErrors:
        """Of the turn that runs: each is told once. Between turns they are only logged."""
        return self._turn.errors if self._turn is not None else AdapterErrors(self.name)

    async def _read_stderr(self) -> None:
        assert self.process.stderr_fd is not None
        async for chunk in chunks(self.process.stderr_fd):
            if self._turn is not None:
                self._turn.artifacts.raw("stderr", chunk)
            self._stderr_tail = (self._stderr_tail + chunk.decode("utf-8", "replace"))[-TAIL:]
