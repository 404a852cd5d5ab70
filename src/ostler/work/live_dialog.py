"""One dialog process at work: reads what it says, carries out the steps, takes one turn after the other."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct, structs

from ostler.agents import decode
from ostler.agents.dialog import AnswerKind, Ask, Call, Fail, Over, Ready, Step, Tell, Withdrawn, Write
from ostler.errors import OstlerError
from ostler.process import Line, LineFramer, Process, Warden, chunks
from ostler.process.tree import Member
from ostler.words import Answered, AnyEvent, Asked, Notice, Problem, Raw, Turn, Verdict
from ostler.work.artifacts import Artifacts, remove_files
from ostler.work.asks import Answer, Asks, Decide
from ostler.work.call_terminals import CallTerminals
from ostler.work.calls import LASTING, Calls
from ostler.work.carry import Attempt, Carried, Clock, Stop, cancel_all, is_progress, place, until_first

HANDSHAKE = 90.0  # where the turn has no limit; opencode takes 4 s, a cold start on a busy machine much more
INTERRUPT = 5.0  # after which an interrupted turn is given up
GIVE_UP = 1.0  # and its process ended
CLOSE = 2.0
FRAME_CAP = 64 * 1024 * 1024
UNREAD_CAP = 64 * 1024 * 1024  # of what we wrote and the process did not read
_TAIL = 16 * 1024
_encode = msgspec.json.Encoder().encode


class Around(Struct, frozen=True, kw_only=True):
    """What a dialog needs of the turn that it carries."""

    add: Callable[[list[AnyEvent]], Awaitable[None]]
    artifacts: Artifacts
    stop: Stop
    asking: Callable[[bool], Awaitable[None]]  # somebody is being asked, or no longer
    decide: Decide
    ask_limit: float | None
    calls: Calls


class _Turn:
    """The turn that a dialog carries just now."""

    def __init__(self, attempt: Attempt, around: Around, asks: Asks) -> None:
        self.attempt, self.asks = attempt, asks
        self.add, self.artifacts, self.asking, self.calls = around.add, around.artifacts, around.asking, around.calls
        self.clock = Clock(attempt.turn.limits)
        self.over = asyncio.Event()
        self.problem: Problem | None = None  # why the dialog failed
        self.beneath: set[Member] = set()  # what ran beneath the process when the turn began
        self.worked = False


class LiveDialog:
    """A process that holds a dialog. Made by `start`; `close` ends it with all that it started."""

    def __init__(self, attempt: Attempt, process: Process, placed: tuple[str, ...]) -> None:
        assert attempt.dialog is not None
        self.dialog = attempt.dialog
        self.process = process
        self.model = attempt.turn.model
        self._placed = placed
        self._turn: _Turn | None = None
        self._failed: Problem | None = None
        self._ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        self._in_order = asyncio.Lock()  # what the process says and what people want, one after the other
        self._stderr_tail = ""
        self._pumps: list[asyncio.Task[None]] = []
        self._calls: dict[asyncio.Task[None], Call] = {}
        self._served: Calls | None = None  # of the turn that runs, or of the last one
        self.terminals: CallTerminals | None = None  # where it has us run commands
        self._rest: asyncio.TimerHandle | None = None
        self._closed = False

    @classmethod
    async def start(cls, attempt: Attempt, warden: Warden) -> "LiveDialog":
        """Starts the process and shakes hands. Raises what went wrong, and leaves nothing behind."""
        placed = place(attempt)
        try:
            process = await warden.spawn(
                attempt.launch.argv,
                cwd=attempt.turn.folder,
                env=attempt.env,
                mark=attempt.turn.session,
                stdin=attempt.launch.stdin,
                keep_stdin=True,
                remove=placed,
            )
        except BaseException:
            remove_files(placed)
            raise
        self = cls(attempt, process, placed)
        try:
            await self._shake_hands(attempt)
        except BaseException:
            await self.close()
            raise
        return self

    @property
    def usable(self) -> bool:
        return not self._closed and self._failed is None and self.process.exit is None

    @property
    def turn_id(self) -> str | None:
        return self._turn.attempt.turn.id if self._turn else None

    # -- turns

    async def carry(
        self,
        attempt: Attempt,
        around: Around,
    ) -> Carried:
        """Runs one turn to its end. The process stays for the next one, unless it died or would not stop."""
        asks = Asks(around.decide, self._give, around.ask_limit)
        turn = self._turn = _Turn(attempt, around, asks)
        self._served = turn.calls
        if self.dialog.leaves_commands:
            turn.beneath = self.process.beneath()
        if self.terminals is not None:
            turn.calls.terminals = self.terminals
            self.terminals.begin(attempt.turn, around.add, attempt.redactor)
        try:
            await self._do(lambda: self.dialog.prompt(attempt.told))
            ended_by_us = await self._until_over(turn, around.stop)
            await turn.add(self._flush())
            return Carried(
                verdict=self._verdict(turn, ended_by_us),
                exit=self.process.exit,
                leaked=(),
                worked=turn.worked,
            )
        finally:
            asks.close()
            await cancel_all([task for task, call in self._calls.items() if call.name not in LASTING])
            if self.terminals is not None:
                await self.terminals.pause()
            self._turn = None

    async def answer(self, answer: Answer) -> None:
        if self._turn is None:
            raise OstlerError("not_found", f"the ask {answer.ask!r} is not open: no turn runs")
        await self._turn.asks.answer(answer)

    async def steer(self, text: str, by: str) -> None:
        """Tells the running turn more; the journal has it. Raises unsupported, not_found."""
        told = Notice(code="steered", text=f"told on the way by {by}: {text}")
        await self._do(lambda: [*self.dialog.steer(text), Tell([told])])

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
        self._closed = True
        self.stay()
        try:
            await self._leave()
        finally:
            if self.terminals is not None:
                await self.terminals.close()
            await cancel_all([*self._pumps, *self._calls])
            self.process.release()
            remove_files(self._placed)

    async def _leave(self) -> None:
        try:
            if self.process.exit is None and self._failed is None:
                with contextlib.suppress(OstlerError, TimeoutError):
                    await asyncio.wait_for(self._do(self.dialog.close), CLOSE)
                self.process.close_stdin()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.process.wait(), CLOSE)
        finally:
            if self.process.exit is None:
                await self.process.end()
            await self.process.sweep()

    # -- the way of one turn

    async def _until_over(self, turn: _Turn, stop: Stop) -> Problem | None:
        """Waits until the turn is over; what made ostler end it, or None."""
        over = asyncio.create_task(turn.over.wait())
        exit = asyncio.create_task(self.process.wait())
        wish = asyncio.create_task(stop.wait())
        limit = asyncio.create_task(turn.clock.limit(lambda: self._busy_elsewhere(turn)))
        waits: list[asyncio.Task[Any]] = [over, exit, wish, limit]
        try:
            await until_first(waits, self._pumps)
            if over.done():
                return None
            if exit.done():
                await asyncio.wait(self._pumps, timeout=CLOSE)  # the last words of a process that died
                return None
            problem: Problem = (wish if wish.done() else limit).result()
            stops = [self.terminals.stop()] if self.terminals else []
            await asyncio.gather(self._interrupt(turn, problem), *stops)
            if self.dialog.leaves_commands and self.process.exit is None:
                await self.process.end_since(turn.beneath)
            return problem
        finally:
            await cancel_all(waits)

    def _busy_elsewhere(self, turn: _Turn) -> bool:
        """Whether silence is no wonder: a tool runs, or somebody is being asked."""
        return bool(len(turn.asks) or (self.dialog.reader and self.dialog.reader.open_tools))

    async def _interrupt(self, turn: _Turn, problem: Problem) -> None:
        """Ends the turn, not the process; one that does not obey is ended."""
        await turn.asks.cancel(problem.kind)
        for wish, grace in ((self.dialog.interrupt, INTERRUPT), (self.dialog.give_up, GIVE_UP)):
            with contextlib.suppress(OstlerError):
                await self._do(wish)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(turn.over.wait(), grace)
                return
        await turn.add([Notice(code="not_interrupted", text=f"{turn.attempt.agent.name} did not stop; it was ended")])
        await self.process.end()

    def _verdict(self, turn: _Turn, ended_by_us: Problem | None) -> Verdict:
        verdict = self.dialog.verdict(None if turn.over.is_set() else self.process.exit, self._stderr_tail)
        problem = ended_by_us or turn.problem
        if problem is None and verdict.outcome == "crashed" and verdict.error and not turn.over.is_set():
            hint = verdict.error.hint or "The next turn starts it again and goes on with the conversation"
            return structs.replace(verdict, error=structs.replace(verdict.error, hint=hint))
        if problem is None or (verdict.outcome == "done" and ended_by_us is not None):
            return verdict
        outcome: Any = {"cancelled": "cancelled", "timed_out": "timed_out"}.get(problem.kind, "failed")
        return structs.replace(verdict, outcome=outcome, error=problem)

    def _flush(self) -> list[AnyEvent]:
        return self.dialog.reader.flush() if self.dialog.reader else []

    # -- steps

    async def _do(self, wish: Callable[[], list[Step]]) -> None:
        """Carries out the steps of a wish or a record, in order, before anything else is read or wanted."""
        async with self._in_order:
            for step in wish():
                await self._step(step)

    async def _step(self, step: Step) -> None:
        match step:
            case Write(record):
                await self._write(record)
            case Tell(events):
                await self._tell(events)
            case Ready():
                if not self._ready.done():
                    self._ready.set_result(step)
            case Ask(asked):
                await self._asked(asked)
            case Withdrawn(ask):
                await self._withdrawn(ask)
            case Over():
                if self._turn is not None:
                    self._turn.over.set()
            case Call(name="terminal_show"):
                if self.terminals is not None:
                    await self.terminals.show(step.params)
            case Call():
                self._call(step)
            case Fail(problem):
                self._fail(problem)

    async def _write(self, record: Any) -> None:
        """Queued, not awaited: an agent that writes before it reads must not stop us from reading."""
        self.process.put(_encode(record) + b"\n")
        if self.process.unread > UNREAD_CAP:
            hint = "Its process was ended: try again"
            self._fail(Problem(kind="undelivered", message="the agent does not read what it is told", hint=hint))

    async def _tell(self, events: list[AnyEvent]) -> None:
        turn = self._turn
        if turn is None or not events:
            return
        turn.clock.heard(events)
        turn.worked = turn.worked or is_progress(events)
        await turn.add(events)

    def _fail(self, problem: Problem) -> None:
        self._failed = problem
        if not self._ready.done():
            self._ready.set_exception(OstlerError(problem.kind, problem.message, problem.hint, problem.retry_at))
        if self._turn is not None:
            self._turn.problem = problem
            self._turn.over.set()

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
            await turn.asking(True)
            await self._tell([asked])
            return
        kind, by = ruled
        await self._tell([asked, Answered(id=asked.id, option=kind, by=by)])  # at once: nobody is to answer it
        for step in self.dialog.answer(asked.id, kind, f"denied by {by}" if kind.startswith("reject") else ""):
            await self._step(step)

    async def _give(self, ask: str, kind: AnswerKind, by: str, message: str) -> None:
        """An answer of a person or the time limit, on its way to the agent. Journaled before it is given."""
        async with self._in_order:
            turn = self._turn
            if turn is None:
                raise OstlerError("not_found", f"the ask {ask!r} is not open: its turn is over")
            try:
                steps = self.dialog.answer(ask, kind, message)
            except OstlerError:
                await self._answered(turn, ask, "cancelled", "the agent")
                raise
            await self._answered(turn, ask, kind, by)
            for step in steps:
                await self._step(step)
            if not len(turn.asks):
                await turn.asking(False)

    async def _answered(self, turn: _Turn, ask: str, kind: AnswerKind, by: str) -> None:
        await turn.add([Answered(id=ask, option=kind, by=by)])
        turn.clock.heard([])

    async def _withdrawn(self, ask: str) -> None:
        for task in [task for task, call in self._calls.items() if call.id == ask]:
            task.cancel()
        turn = self._turn
        if turn is not None and turn.asks.settled(ask, "the agent"):
            await self._answered(turn, ask, "cancelled", "the agent")
            if not len(turn.asks):
                await turn.asking(False)

    # -- calls

    def _call(self, call: Call) -> None:
        """What the agent wants done is done beside the reading: it may take long, and be cancelled."""
        task = asyncio.create_task(self._serve(call))
        self._calls[task] = call
        task.add_done_callback(self._calls.pop)

    async def _serve(self, call: Call) -> None:
        result: dict[str, Any] | None = None
        problem: Problem | None = None
        try:
            if self._served is None or (self._turn is None and call.name not in LASTING):
                raise OstlerError("bad_request", "no turn runs")
            result = await self._served.serve(call)
        except asyncio.CancelledError:
            if not self._closed:
                cancelled = Problem(kind="cancelled", message="the turn is over")
                await self._do(lambda: self.dialog.reply(call.id, None, cancelled))
            raise
        except OstlerError as error:
            problem = Problem(kind=error.kind, message=error.message, hint=error.hint)
        except OSError as error:
            problem = Problem(kind="store", message=str(error))
        await self._do(lambda: self.dialog.reply(call.id, result, problem))

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
                if problem := self.dialog.unborn(self.process.exit, self._stderr_tail):
                    raise OstlerError(problem.kind, problem.message, problem.hint)
                raise died(attempt.told, self.process, self._stderr_tail)
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
                self._turn.artifacts.raw("stdout", chunk)
            await self._heard(framer.feed(chunk))
        await self._heard(framer.close())

    async def _heard(self, lines: list[Line]) -> None:
        """Carries out what the lines say, in order; events of neighbours are written together."""
        async with self._in_order:
            told: list[AnyEvent] = []
            for line in lines:
                for step in self._read(line.data, line.cut):
                    if isinstance(step, Tell):
                        told += step.events
                        continue
                    await self._tell(told)
                    told = []
                    await self._step(step)
            await self._tell(told)

    def _read(self, line: bytes, cut: bool) -> list[Step]:
        """An adapter that stumbles costs one record, never the dialog."""
        if cut:
            return self.dialog.read_cut(line[:1000].decode("utf-8", "replace"))
        try:
            record = decode(line)
            if isinstance(record, dict):
                return self.dialog.read(record)
            return self.dialog.read_noise(line.decode("utf-8", "replace"))
        except Exception as error:  # any bug of any adapter ends here
            return [Tell([Raw(line=line.decode("utf-8", "replace") or f"{type(error).__name__}: {error}")])]

    async def _read_stderr(self) -> None:
        assert self.process.stderr_fd is not None
        async for chunk in chunks(self.process.stderr_fd):
            if self._turn is not None:
                self._turn.artifacts.raw("stderr", chunk)
            self._stderr_tail = (self._stderr_tail + chunk.decode("utf-8", "replace"))[-_TAIL:]


def died(turn: Turn, process: Process, stderr_tail: str) -> OstlerError:
    """Why a process that ended before it was ready did so."""
    from ostler.agents.adapter import kind_of, last_line, spoken

    said = last_line(stderr_tail)
    how = spoken(process.exit) if process.exit else "an unknown end"
    kind = kind_of(None, stderr_tail) if said else "crashed"
    message = f"{turn.agent} ended with {how} before it could talk" + (f": {said}" if said else "")
    return OstlerError(kind, message, "Try its command by hand, or `ostler doctor`")
