"""Carries one attempt at a turn: a process, its records, its limits, its end.

Here agents and processes meet: bytes become lines, lines records, records events.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from msgspec import Struct, structs

from ostler.agents import Agent, Reader
from ostler.agents.dialog import Dialog
from ostler.process import LineFramer, Process, Warden, chunks
from ostler.store import Redactor
from ostler.store.files import create_exclusive, write_private
from ostler.words import (
    AnyEvent,
    Exit,
    Launch,
    Limited,
    Limits,
    Notice,
    Problem,
    Raw,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolStarted,
    Turn,
    UsageReport,
    Verdict,
)
from ostler.work.artifacts import Artifacts, remove_files

_PROGRESS = (Text, TextDelta, Thought, ThoughtDelta, ToolStarted)
_DRAIN = 1.0  # seconds of silence after which nobody will say anything more
_TAIL = 16 * 1024
_TICK = 0.25


class Attempt(Struct, frozen=True, kw_only=True):
    """One launch of a turn by one agent."""

    turn: Turn
    agent: Agent
    reader: Reader
    launch: Launch
    env: dict[str, str]
    served_by: str
    records_of: str  # the agent whose records come: on a cassette it may be another than the one that serves
    redactor: Redactor
    told: Turn  # the turn as the agent gets it: prompt with schema, attachments checked
    dialog: Dialog | None = None  # where the turn is carried by one
    in_terminal: "InTerminal | None" = None  # carries it instead, in a terminal of its own


Add = Callable[[list[AnyEvent]], Awaitable[None]]
Shown = Callable[[str, bytes], None]  # a stream, and bytes of it
InTerminal = Callable[[Attempt, Add, Artifacts, "Stop"], Awaitable["Carried"]]


def nothing(stream: str, data: bytes) -> None:
    """For a turn that nobody is shown."""


class Carried(Struct, frozen=True, kw_only=True):
    """How an attempt went."""

    verdict: Verdict
    exit: Exit | None
    leaked: tuple[str, ...]
    worked: bool  # the agent did something that must not be done again by another


class Stop:
    """The wish to end a turn, with its reason; the first reason stands."""

    def __init__(self) -> None:
        self.problem: Problem | None = None
        self._wished = asyncio.Event()

    def wish(self, problem: Problem) -> None:
        if self.problem is None:
            self.problem = problem
        self._wished.set()

    async def wait(self) -> Problem:
        await self._wished.wait()
        assert self.problem is not None
        return self.problem


async def carry(
    attempt: Attempt,
    warden: Warden,
    add: Add,
    artifacts: Artifacts,
    stop: Stop,
    shown: Shown = nothing,
) -> Carried:
    """Runs the attempt to its end; whatever happens, no process of it is left. `shown` gets its raw output.

    Raises OstlerError when it could not be started or its journal could not be written.
    """
    placed = place(attempt)
    try:
        process = await warden.spawn(
            attempt.launch.argv,
            cwd=attempt.turn.folder,
            env=attempt.env,
            mark=attempt.turn.id,
            stdin=attempt.launch.stdin,
            remove=placed,
        )
        try:
            return await _Carrying(attempt, process, add, artifacts, stop, shown).to_end()
        finally:
            if process.exit is None:
                await process.end()
            process.release()
    finally:
        remove_files(placed)


def place(attempt: Attempt) -> tuple[str, ...]:
    """Puts down the private files and those in the folder (never over an existing one)."""
    placed: list[str] = []
    try:
        for path, data in attempt.launch.files.items():
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            write_private(path, data)
            placed.append(path)
        for name, text in attempt.launch.folder_files.items():
            placed.append(str(create_exclusive(attempt.turn.folder, name, text.encode())))
    except BaseException:
        remove_files(tuple(placed))
        raise
    return tuple(placed)


class _Carrying:
    def __init__(
        self,
        attempt: Attempt,
        process: Process,
        add: Add,
        artifacts: Artifacts,
        stop: Stop,
        shown: Shown,
    ) -> None:
        self.attempt = attempt
        self.shown = shown
        self.process = process
        self.reader = attempt.reader
        self.add = add
        self.artifacts = artifacts
        self.stop = stop
        self.worked = False
        self.stderr_tail = ""
        self.taken = self.taking = 0  # chunks of output: dealt with, and in hand
        self.over = asyncio.Event()  # the agent said how the turn ended
        self.clock = Clock(attempt.turn.limits)

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
        limit = asyncio.create_task(self.clock.limit(lambda: bool(self.reader.open_tools)))
        over = asyncio.create_task(self.over.wait())
        waits: list[asyncio.Task[Any]] = [exit, stop, limit, over]
        try:
            await until_first(waits, pumps)
            if exit.done():
                return None
            if over.done():
                await until_first([exit, stop], pumps, timeout=self.attempt.turn.limits.linger)
                if not exit.done():
                    await self._end_lingering()
                return None
            problem = (stop if stop.done() else limit).result()
            await self.process.end()
            return problem
        finally:
            await cancel_all(waits)

    async def _end_lingering(self) -> None:
        await self.add([Notice(code="lingered", text=f"{self.attempt.agent.name} stayed after its result; ended")])
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
        if ended_by_us is None or verdict.outcome == "done":
            return verdict
        outcome: Any = {"cancelled": "cancelled", "timed_out": "timed_out"}.get(ended_by_us.kind, "failed")
        return structs.replace(verdict, outcome=outcome, error=ended_by_us)

    # -- the two streams

    async def _read_stdout(self) -> None:
        assert self.process.stdout_fd is not None
        framer = LineFramer()
        async for chunk in chunks(self.process.stdout_fd):
            with self._in_hand():
                self.artifacts.raw("stdout", chunk)
                self.shown("stdout", chunk)
                await self._take([event for line in framer.feed(chunk) for event in self._events(line.data, line.cut)])
        await self._take([event for line in framer.close() for event in self._events(line.data, line.cut)])

    async def _read_stderr(self) -> None:
        assert self.process.stderr_fd is not None
        framer = LineFramer(cap=1024 * 1024)
        async for chunk in chunks(self.process.stderr_fd):
            with self._in_hand():
                self.artifacts.raw("stderr", chunk)
                self.shown("stderr", chunk)
                self.stderr_tail = (self.stderr_tail + chunk.decode("utf-8", "replace"))[-_TAIL:]
                for line in framer.feed(chunk):
                    text = line.data.decode("utf-8", "replace")
                    await self._take(self._guard(lambda text=text: self.reader.read_stderr(text)))  # type: ignore[misc]

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
        return self._guard(lambda: self.reader.read_line(line), line)

    def _guard(self, read: Callable[[], list[AnyEvent]], line: bytes = b"") -> list[AnyEvent]:
        """An adapter that stumbles costs one record, never the turn."""
        try:
            return read()
        except Exception as error:  # any bug of any adapter ends here
            return [Raw(line=line.decode("utf-8", "replace") or f"{type(error).__name__}: {error}")]

    async def _take(self, events: list[AnyEvent]) -> None:
        self.clock.heard(events)
        if events:
            self.worked = self.worked or is_progress(events)
            await self.add(events)
        if self.reader.result is not None:
            self.over.set()


def is_progress(events: list[AnyEvent]) -> bool:
    """Whether the agent did something that must not be done again by another."""
    return any(isinstance(event, _PROGRESS) for event in events)


class Clock:
    """When a turn has taken too long, by the limits it was given."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.began = self.last = time.monotonic()
        self.spoke = False
        self.retrying: tuple[float, Limited] | None = None
        self.spent: float | None = None

    def heard(self, events: list[AnyEvent]) -> None:
        self.last = time.monotonic()
        self.spoke = True
        for event in events:
            if isinstance(event, Limited):
                self.retrying = self.retrying or (self.last, event)
            elif isinstance(event, _PROGRESS):
                self.retrying = None
            elif isinstance(event, UsageReport) and event.cost_usd is not None:
                self.spent = event.cost_usd

    async def limit(self, busy: Callable[[], bool]) -> Problem:
        """Returns once a limit is passed. While `busy` (a tool runs, a person is asked) silence is no wonder."""
        while (problem := self.passed(time.monotonic(), busy())) is None:
            await asyncio.sleep(_TICK)
        return problem

    def passed(self, now: float, busy: bool) -> Problem | None:
        limits = self.limits
        if limits.total is not None and now - self.began > limits.total:
            return _late(f"the turn took longer than {limits.total:g} s", "Raise --timeout")
        if not self.spoke and limits.first_record is not None and now - self.began > limits.first_record:
            return _late(f"no output within {limits.first_record:g} s", "Is the agent logged in? Try `ostler doctor`")
        if self.retrying and limits.retry is not None and now - self.retrying[0] > limits.retry:
            held = self.retrying[1]
            return Problem(
                kind=held.error,
                message=held.message or f"still {held.error} after {limits.retry:g} s of retries",
                retry_at=held.retry_at,
            )
        if busy:
            self.last = now
        if limits.idle is not None and now - self.last > limits.idle and self.spoke:
            return _late(f"no output for {limits.idle:g} s", "Raise --idle-timeout")
        if limits.cost_usd is not None and self.spent is not None and self.spent > limits.cost_usd:
            return Problem(kind="over_budget", message=f"spent ${self.spent:.4f}, allowed ${limits.cost_usd:.4f}")
        return None


def _late(message: str, hint: str) -> Problem:
    return Problem(kind="timed_out", message=message, hint=hint)


async def until_first(
    waits: list[asyncio.Task[Any]], pumps: list[asyncio.Task[None]], timeout: float | None = None
) -> None:
    """Waits for one of `waits`; a pump that fails (the store is full) raises here."""
    deadline = None if timeout is None else time.monotonic() + timeout
    pending: set[asyncio.Task[Any]] = {*waits, *pumps}
    while not any(task.done() for task in waits):
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return
        done, _ = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        for pump in done & set(pumps):
            pump.result()
            pending.discard(pump)


async def cancel_all(tasks: list[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
