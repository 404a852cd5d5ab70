"""Runs one attempt at a turn as a process of its own: its records, its limits, its end.

Here agents and processes meet: bytes become lines, lines records, records events.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ostler.model import AnyEvent, Notice, Problem, Raw, TextDelta, Verdict
from ostler.process import LineFramer, Process, Warden, chunks
from ostler.work.transports.limits import LimitClock, is_progress
from ostler.work.transports.spawn import spawn_attempt
from ostler.work.transports.stop import end_process
from ostler.work.transports.tasks import cancel_all, until_first
from ostler.work.transports.transport import TAIL, Attempt, Carried, TurnContext, stopped_verdict
from ostler.work.turns.adapter_errors import AdapterErrors
from ostler.work.turns.artifacts import remove_files

if TYPE_CHECKING:
    from ostler.work.panes.tailed import TailedProcess

_DRAIN = 1.0  # seconds of silence after which nobody will say anything more

_log = logging.getLogger(__name__)


class PipeTransport:
    """A process for one turn alone."""

    def __init__(self, warden: Callable[[], Awaitable[Warden]]) -> None:
        self._warden = warden

    async def run(self, attempt: Attempt, context: TurnContext) -> Carried:
        """The attempt from its spawn to its end; whatever happens, no process of it is left."""
        process, placed = await spawn_attempt(attempt, await self._warden(), mark=attempt.turn.id)
        try:
            return await PipeRun(attempt, process, context).to_end()
        finally:
            try:
                if process.exit is None:
                    await process.end()
                process.release()
            finally:
                remove_files(placed)


class PipeRun:
    """The records of a process that is there, to its end; in a pane, of the files that it writes."""

    def __init__(self, attempt: Attempt, process: "Process | TailedProcess", context: TurnContext) -> None:
        self.attempt = attempt
        self.process = process
        self.reader = attempt.reader
        self.add, self.stop = context.add, context.stop
        self.artifacts, self.shown = context.artifacts, context.shown
        self.context = context
        self.worked = False
        self.stderr_tail = ""
        self.taken = self.taking = 0  # chunks of output: dealt with, and in hand
        self.over = asyncio.Event()  # the agent said how the turn ended
        self.clock = LimitClock(attempt.turn.limits)
        self.errors = AdapterErrors(attempt.records_of)

    async def to_end(self) -> Carried:
        pumps = [asyncio.create_task(self._read_stdout()), asyncio.create_task(self._read_stderr())]
        try:
            ended_by_us = await self._until_over(pumps)
            leaked = await self._settle(pumps)
        finally:
            await cancel_all(pumps)
        await self.add(self._guard(self.reader.flush))
        return Carried(
            verdict=self._verdict(ended_by_us),
            exit=self.process.exit,
            leaked=leaked,
            worked=self.worked,
        )

    async def _until_over(self, pumps: list[asyncio.Task[None]]) -> Problem | None:
        """Waits until the process is gone; what made ostler end it, or None."""
        exit = asyncio.create_task(self.process.wait())
        stop = asyncio.create_task(self.stop.wait())
        limit = asyncio.create_task(self.clock.limit(self._waits))
        over = asyncio.create_task(self.over.wait())
        waits: list[asyncio.Task[Any]] = [exit, stop, limit, over]
        try:
            await until_first(waits, pumps)
            if exit.done():
                return None
            if over.done():
                _log.debug("turn %s: the agent is done, its process is waited for", self.attempt.turn.id)
                await until_first([exit, stop], pumps, timeout=self.attempt.turn.limits.linger)
                if not exit.done():
                    await self._end_lingering()
                return None
            problem = (stop if stop.done() else limit).result()
            why = self.attempt.redactor.text(problem.message)
            _log.info("turn %s: its process is ended (%s)", self.attempt.turn.id, why)
            await end_process(self.process, self.stop)
            return problem
        finally:
            await cancel_all(waits)

    def _waits(self) -> bool:
        """Whether silence is no wonder: a tool runs, or somebody is being asked."""
        return bool(self.reader.open_tools) or self.context.asking

    async def _end_lingering(self) -> None:
        await self.add(
            [
                Notice(
                    code="lingered", text=f"{self.attempt.agent.name} was still running after its result and was ended"
                )
            ]
        )
        self.reader.evidence.append("lingered")
        await self.process.end()

    async def _settle(self, pumps: list[asyncio.Task[None]]) -> tuple[str, ...]:
        """The last output, and what the process left running."""
        sweep = asyncio.create_task(self.process.sweep())
        await self._drain(pumps)
        leaked = await sweep
        await self._drain(pumps)
        for pump in pumps:
            if pump.done():
                pump.result()
        return leaked

    async def _drain(self, pumps: list[asyncio.Task[None]]) -> None:
        """Waits for the end of both streams, as long as something still comes or is being written."""
        while True:
            before = self.taken
            _, pending = await asyncio.wait(pumps, timeout=_DRAIN)
            if not pending or (self.taken == before and self.taking == 0):
                return

    def _verdict(self, ended_by_us: Problem | None) -> Verdict:
        lingered = "lingered" in self.reader.evidence
        verdict = self.reader.end(None if lingered else self.process.exit, self.stderr_tail)
        return verdict if ended_by_us is None else stopped_verdict(verdict, ended_by_us)

    # -- the two streams

    async def _read_stdout(self) -> None:
        assert self.process.stdout_fd is not None
        framer = LineFramer()
        async for chunk in chunks(self.process.stdout_fd):
            with self._in_hand():
                self.artifacts.raw("stdout", chunk)
                self.shown("stdout", chunk)
                events = [event for line in framer.feed(chunk) for event in self._events(line.data, line.cut)]
                await self._take(joined(events) if self.reader.joins_lines else events)
        await self._take([event for line in framer.close() for event in self._events(line.data, line.cut)])

    async def _read_stderr(self) -> None:
        assert self.process.stderr_fd is not None
        framer = LineFramer(cap=1024 * 1024)
        async for chunk in chunks(self.process.stderr_fd):
            with self._in_hand():
                self.artifacts.raw("stderr", chunk)
                self.shown("stderr", chunk)
                self.stderr_tail = (self.stderr_tail + chunk.decode("utf-8", "replace"))[-TAIL:]
                for line in framer.feed(chunk):
                    text = line.data.decode("utf-8", "replace")
                    kept = Raw(line=text, stream="stderr")
                    await self._take(self._guard(lambda text=text: self.reader.read_stderr(text), kept))  # type: ignore[misc]

    @contextlib.contextmanager
    def _in_hand(self) -> Iterator[None]:
        self.taking += 1
        try:
            yield
        finally:
            self.taking -= 1
            self.taken += 1

    def _events(self, line: bytes, cut: bool) -> list[AnyEvent]:
        if cut:
            return [
                Raw(line=line[:1000].decode("utf-8", "replace")),
                Notice(code="line_cut", text="a line of output was too long and was cut"),
            ]
        return self._guard(lambda: self.reader.read_line(line), Raw(line=line.decode("utf-8", "replace")))

    def _guard(self, read: Callable[[], list[AnyEvent]], record: Raw | None = None) -> list[AnyEvent]:
        """An adapter that stumbles costs one record, which is kept as it is, never the turn."""
        try:
            return read()
        except Exception as error:  # any bug of any adapter ends here
            return [*([record] if record else []), *self.errors.notices(error)]

    async def _take(self, events: list[AnyEvent]) -> None:
        self.clock.record(events)
        if events:
            self.worked = self.worked or is_progress(events)
            await self.add(events)
        if self.reader.result is not None:
            self.over.set()


def joined(events: list[AnyEvent]) -> list[AnyEvent]:
    """The same text in fewer events: pieces of one that came at once are one piece."""
    pieces: list[list[AnyEvent]] = []
    for event in events:
        before = pieces[-1][0] if pieces else None
        if isinstance(event, TextDelta) and isinstance(before, TextDelta) and before.id == event.id:
            pieces[-1].append(event)
        else:
            pieces.append([event])
    return [_one(each) for each in pieces]


def _one(pieces: list[AnyEvent]) -> AnyEvent:
    first = pieces[0]
    if len(pieces) == 1 or not isinstance(first, TextDelta):
        return first
    return structs.replace(first, text="".join(piece.text for piece in pieces if isinstance(piece, TextDelta)))
