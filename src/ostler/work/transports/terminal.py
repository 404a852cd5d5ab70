"""Runs a command as a turn in its own terminal: `ostler exec --tty`."""

import asyncio

from msgspec import structs

from ostler.model import Exit, Problem, TerminalClosed, TerminalOpened, Verdict
from ostler.work.terminals.programs import ProgramOptions
from ostler.work.terminals.pty_terminal import PtyTerminal
from ostler.work.terminals.terminals import Terminals
from ostler.work.transports.launch_files import place_files
from ostler.work.transports.stop import Stop
from ostler.work.transports.tasks import cancel_all
from ostler.work.transports.transport import TAIL, Attempt, Carried, TurnContext, stopped_verdict
from ostler.work.turns.artifacts import remove_files

_TEXT_LIMIT = 64 * 1024  # characters of its output that the envelope has


class TerminalTransport:
    """A program in a terminal that people can watch and type into."""

    def __init__(self, terminals: Terminals) -> None:
        self._terminals = terminals

    async def run(self, attempt: Attempt, context: TurnContext) -> Carried:
        """The command to its end; whatever happens, no process of it is left. What it is to read is typed."""
        placed = place_files(attempt)
        try:
            return await self._run(attempt, context)
        finally:
            remove_files(placed)

    async def _run(self, attempt: Attempt, context: TurnContext) -> Carried:
        turn, size, terminals = attempt.turn, attempt.size, self._terminals
        assert size is not None
        options = ProgramOptions(
            attempt.launch.argv,
            folder=turn.folder,
            env=turn.env,
            cols=size.cols,
            rows=size.rows,
            turn=turn.id,
            wall=attempt.wall,
        )
        program = await terminals.open_program(turn.session, options)
        source = attempt.launch.stdin if attempt.stdin is None else attempt.stdin
        typing = [asyncio.create_task(program.type_in(source))] if source != b"" else []
        try:
            context.artifacts.paths["recording"] = program.row.recording
            await context.add([TerminalOpened(terminal=program.row.id, title=program.row.name)])
            problem = await until_over(program, context.stop, turn.limits.total)
        finally:
            await cancel_all(typing)
            if not program.done.done():
                await program.end(context.stop.signal)
        text = attempt.reader.whole(await terminals.text(program.row.id, _TEXT_LIMIT))
        closed = TerminalClosed(terminal=program.row.id, exit_code=program.exit.code if program.exit else None)
        await context.add([text, closed] if text.text else [closed])
        verdict = structs.replace(_verdict(attempt, program.exit, problem), stdout=text.text[-TAIL:], stderr=None)
        return Carried(verdict=verdict, exit=program.exit, leaked=program.leaked, worked=True)


async def until_over(program: PtyTerminal, stop: Stop, limit: float | None) -> Problem | None:
    """Waits for the program's end; what made ostler end it, or None."""
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait((program.done, stopping), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_all([stopping])
    if program.done in done:
        return None
    if stopping in done:
        return stop.problem
    return Problem(kind="timed_out", message=f"the turn took longer than {limit:g} s", hint="Raise --timeout")


def _verdict(attempt: Attempt, exit: Exit | None, problem: Problem | None) -> Verdict:
    verdict = attempt.reader.end(exit, "")
    return verdict if problem is None else stopped_verdict(verdict, problem)
