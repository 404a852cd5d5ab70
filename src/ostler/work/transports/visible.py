"""Runs an agent's command as it is in a terminal that people watch: its prompt comes from a private file.

There are no records to read. The turn is over when the process has exited and its last hook has come, or a grace is
over, since hooks are known not to fire (killed, interrupted, an error of the API); the evidence says which. What proves
that it went well is the hook by which the agent says that its turn is over.

The terminal stays for the session's next turns (`process/job_host`) that need the same environment and wall; what is
behind its wall stays as long.
"""

import asyncio
import logging
import math
import os
import secrets
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from ostler import clock
from ostler.agents.hooks import ANSWER
from ostler.model import AnyEvent, Exit, Problem, TerminalClosed, TerminalOpened, Verdict
from ostler.process import Size, job_host
from ostler.terminal.viewer_protocol import SendBytes
from ostler.work.dialogs.open_dialogs import Fingerprint, fingerprint
from ostler.work.hooks.hook_turn import HookTurn
from ostler.work.terminals.new_terminal import COLS, ROWS
from ostler.work.terminals.programs import ProgramOptions
from ostler.work.terminals.pty_terminal import PtyTerminal
from ostler.work.terminals.terminals import Terminals
from ostler.work.transports.launch_files import place_files, place_wall
from ostler.work.transports.tasks import cancel_all
from ostler.work.transports.transport import TAIL, Attempt, Carried, TurnContext, stopped_verdict
from ostler.work.tuis.typing import Typist
from ostler.work.turns.artifacts import keep_logins, remove_files

GRACE = 2.0  # seconds after the exit in which the last hook may come
PROMPT, JOB = "stdin.txt", "job.json"
_TEXT_LIMIT = 64 * 1024  # characters of its output that the envelope has
_LOOK = 0.05  # seconds between two looks for the end of a command

_log = logging.getLogger(__name__)


class JobEnd(Struct, frozen=True):
    """How a command ended, as its host tells it. `left`: names of what it left running."""

    code: int
    left: tuple[str, ...] = ()

    @property
    def exit(self) -> Exit:
        return Exit(signal=-self.code) if self.code < 0 else Exit(code=self.code)


class HostedTerminal(Struct, frozen=True):
    """A terminal that waits for the next command of its session, and what it was made for."""

    made_for: Fingerprint
    fleeting: dict[str, int]  # folders of the agent's that its wall leaves open, as they were then
    program: PtyTerminal
    behind: tuple[str, ...] = ()  # what was put behind its wall

    def can_take(self, attempt: Attempt) -> bool:
        return (
            not self.program.ending
            and self.made_for == fingerprint(attempt)
            and self.fleeting.keys() >= {*(attempt.enclosure.fleeting if attempt.enclosure else ())}
            and _inodes(self.fleeting) == self.fleeting  # a turn in another process may have removed them since
        )


class VisibleTransport:
    """Agents' own commands in terminals, at most one for each session."""

    def __init__(self, terminals: Callable[[], Terminals]) -> None:
        self._terminals = terminals
        self._kept: dict[str, HostedTerminal] = {}

    async def run(self, attempt: Attempt, context: TurnContext) -> Carried:
        """Whatever happens, no process of the command is left, and no file."""
        folder, launch, nonce = context.artifacts.folder, attempt.launch, secrets.token_hex(16)
        prompt, job = str(folder / PROMPT), str(folder / JOB)
        env = _of_the_turn(attempt)
        order = {"name": attempt.turn.id, "argv": launch.argv, "stdin": prompt, "env": env, "nonce": nonce}
        files = {**launch.files, prompt: launch.stdin, job: msgspec.json.encode(order)}
        attempt = structs.replace(attempt, launch=structs.replace(launch, files=files))
        placed = place_files(structs.replace(attempt, enclosure=None))
        try:
            return await self._run(attempt, context, job, nonce)
        finally:
            if (kept := self._kept.get(attempt.turn.session)) is not None:
                keep_logins(kept.behind)
            remove_files(placed)

    async def _run(self, attempt: Attempt, context: TurnContext, job: str, nonce: str) -> Carried:
        program, since = await self._begun(attempt, context, job)
        result = _HookResult(context.hooks)
        try:
            context.artifacts.paths["recording"] = program.row.recording
            await context.add([TerminalOpened(terminal=program.row.id, title=program.row.name)])
            end, problem = await _until_over(program, job, nonce, since, attempt, context)
            if problem is None:
                await result.the_last_one(GRACE)
        except BaseException:
            await self._end(attempt, program)
            raise
        finally:
            await result.close()
        if end is None:
            await self._end(attempt, program, context)
        shown = await self._terminals().text(program.row.id, _TEXT_LIMIT, since)
        exit = end.exit if end is not None else program.exit
        await context.add([*result.conclude(attempt), *_closed(program)])
        verdict: Verdict = attempt.reader.end(exit, shown)
        verdict = structs.replace(verdict, stdout=shown[-TAIL:], stderr=None)
        if problem is not None:
            verdict = stopped_verdict(verdict, problem)
        return Carried(verdict=verdict, exit=exit, leaked=end.left if end else program.leaked, worked=True)

    async def _begun(self, attempt: Attempt, context: TurnContext, job: str) -> tuple[PtyTerminal, int]:
        """The terminal in which the job begins, and where its output does."""
        session = attempt.turn.session
        kept = self._kept.get(session)
        if kept is not None and kept.can_take(attempt):
            since = kept.program.live.log.end
            await _name(kept.program, session, job)
            if await _taken(kept.program, attempt, since, job, context.settings.tui_receipt):
                return kept.program, since
        if kept is not None:
            await kept.program.end()
        behind = place_wall(attempt)
        try:
            program = await self._open(attempt, context.settings.tui_idle, job)
        except BaseException:
            remove_files(behind)
            raise
        fleeting = _inodes(attempt.enclosure.fleeting if attempt.enclosure else ())
        self._kept[session] = HostedTerminal(fingerprint(attempt), fleeting, program, behind)
        program.done.add_done_callback(lambda _: self._forget(session, program, behind))
        return program, 0

    async def _open(self, attempt: Attempt, idle: float, job: str) -> PtyTerminal:
        size = attempt.size or Size(COLS, ROWS)
        options = ProgramOptions(
            (sys.executable, "-IS", str(Path(job_host.__file__)), f"{idle:g}", job),
            folder=attempt.turn.folder,
            base={},
            env={**attempt.env, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            cols=size.cols,
            rows=size.rows,
            called=attempt.agent.name,
            wall=attempt.wall,
        )
        return await self._terminals().open_program(attempt.turn.session, options)

    async def _end(self, attempt: Attempt, program: PtyTerminal, context: TurnContext | None = None) -> None:
        """Ends the terminal with all that runs in it: nothing else stops a command for sure."""
        self._forget(attempt.turn.session, program)
        if not program.done.done():
            await program.end(context.stop.signal if context is not None else None)

    def _forget(self, session: str, program: PtyTerminal, behind: tuple[str, ...] = ()) -> None:
        remove_files(behind)
        if session in self._kept and self._kept[session].program is program:
            del self._kept[session]


def _inodes(folders: Iterable[str]) -> dict[str, int]:
    """Which folders these are by now; 0 where one is gone."""
    return {path: os.stat(path).st_ino if os.path.isdir(path) else 0 for path in folders}


async def _name(program: PtyTerminal, session: str, job: str) -> None:
    """Names the job to the host."""
    typist = Typist(program.live, session)
    async with typist.at_keyboard():
        typist.send(SendBytes(data=job_host.FORGET + job_host.PREFIX + job.encode() + b"\n"))


async def _taken(program: PtyTerminal, attempt: Attempt, since: int, job: str, seconds: float) -> bool:
    """Removes the job when its host has read it, and with that lets it begin; False if it does not read it in time."""
    mark = f"\x1b]{job_host.OSC};{attempt.turn.id}\x07".encode()
    deadline = clock.monotonic() + seconds
    while mark not in program.live.log.read(since)[1]:
        if program.ending or program.done.done() or clock.monotonic() > deadline:
            return False
        await asyncio.sleep(_LOOK)
    os.unlink(job)
    return True


def _of_the_turn(attempt: Attempt) -> dict[str, str]:
    """What of its environment is new in each turn: no secret but the token of its hooks."""
    new = {*attempt.launch.env, *attempt.launch.default_env, "OSTLER_CALLBACK_URL", "OSTLER_CALLBACK_TOKEN"}
    return {"OSTLER_TURN": attempt.turn.id, **{name: attempt.env[name] for name in new if name in attempt.env}}


async def _until_over(
    program: PtyTerminal, job: str, nonce: str, since: int, attempt: Attempt, context: TurnContext
) -> tuple[JobEnd | None, Problem | None]:
    """How the command ended, None if its terminal did or ostler has to; and what made ostler end it."""
    limit = attempt.turn.limits.total
    ended = asyncio.create_task(_ended(program, attempt, job, nonce, since))
    stopping = asyncio.create_task(context.stop.wait())
    try:
        await asyncio.wait((ended, program.done, stopping), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            return ended.result(), None
        if program.done.done():
            return None, None
        if stopping.done():
            return None, context.stop.problem
        late = f"the turn took longer than {limit:g} s"
        return None, Problem(kind="timed_out", message=late, hint="Raise --timeout")
    finally:
        await cancel_all([ended, stopping])


async def _ended(program: PtyTerminal, attempt: Attempt, job: str, nonce: str, since: int) -> JobEnd:
    """Looks for the word of its host, which the command cannot forge: it does not know the nonce."""
    if os.path.exists(job):  # in a new terminal, whose host reads it first
        await _taken(program, attempt, since, job, math.inf)
    mark, found = f"\x1b]{job_host.OSC};{nonce};".encode(), None
    while found is None:
        await asyncio.sleep(_LOOK)
        since, data = program.live.log.read(since)
        found, seen = _end_in(data, mark)
        since += seen
    return found


def _end_in(data: bytes, mark: bytes) -> tuple[JobEnd | None, int]:
    """The end that is told in the output, and how much of the output need not be looked at again."""
    at = data.find(mark)
    stop = data.find(b"\x07", at) if at >= 0 else -1
    if stop >= 0:
        return msgspec.json.decode(data[at + len(mark) : stop], type=JobEnd), stop
    return None, at if at >= 0 else max(0, len(data) - len(mark))


def _closed(program: PtyTerminal) -> list[AnyEvent]:
    if not program.done.done():
        return []
    return [TerminalClosed(terminal=program.row.id, exit_code=program.exit.code if program.exit else None)]


class _HookResult:
    """What the hooks said that decides about the turn."""

    def __init__(self, hooks: HookTurn | None) -> None:
        self._hooks = hooks
        self._left = asyncio.Event()
        self._over: dict[str, Any] | None = None  # what the agent said when its turn was over
        self._over_by = ""
        self._session = ""
        self._used_tool = False
        self._task = asyncio.create_task(self._listen()) if hooks is not None else None

    async def _listen(self) -> None:
        assert self._hooks is not None
        async for fired in self._hooks.events():
            if fired.starts:
                self._session = str(fired.payload.get("session_id") or "")
            self._used_tool = self._used_tool or fired.uses_tool
            if fired.ends:
                self._over, self._over_by = fired.payload, fired.name
            if fired.leaves:
                self._left.set()

    async def the_last_one(self, seconds: float) -> None:
        """Waits for it, after the exit."""
        if self._task is not None:
            waiting = asyncio.create_task(self._left.wait())
            try:
                await asyncio.wait([waiting], timeout=seconds)
            finally:
                await cancel_all([waiting])

    async def close(self) -> None:
        if self._task is not None:
            await cancel_all([self._task])

    def conclude(self, attempt: Attempt) -> list[AnyEvent]:
        """Tells the reader what is known; the answer as an event."""
        reader, face = attempt.reader, attempt.agent.hooks
        reader.agent_session = self._session or None
        reader.acted = reader.acted or self._used_tool
        last = face.leaves if face else "the last hook"
        came = f"{last} came" if self._left.is_set() else f"no {last} within {GRACE:g} s"
        reader.evidence.append(f"the process exited, {came}")
        if self._over is None or (face and self._over_by not in face.proves):
            return []
        answer = self._over.get(ANSWER)
        events: list[AnyEvent] = [reader.whole(answer)] if isinstance(answer, str) and answer else []
        reader.succeed(f"hook {self._over_by}")
        return events
