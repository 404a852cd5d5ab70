"""Carries a command as a turn in a terminal of its own: `ostler exec --tty`."""

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ostler.process import Size
from ostler.words import Exit, Problem, TerminalClosed, TerminalOpened, Verdict
from ostler.work.artifacts import Artifacts
from ostler.work.carry import Add, Attempt, Carried, Stop

if TYPE_CHECKING:
    from ostler.work.pty_terminal import PtyTerminal
    from ostler.work.terminals import Terminals

_TEXT_LIMIT = 64 * 1024  # characters of its output that the envelope has


async def carry_tty(
    terminals: "Terminals", size: Size, attempt: Attempt, add: Add, artifacts: Artifacts, stop: Stop
) -> Carried:
    """Runs the command to its end; whatever happens, no process of it is left."""
    turn = attempt.turn
    terminal = await terminals.open(
        turn.session,
        attempt.launch.argv,
        folder=turn.folder,
        env=turn.env,
        cols=size.cols,
        rows=size.rows,
        turn=turn.id,
    )
    program = terminals.program(terminal.row.id)
    try:
        artifacts.paths["recording"] = terminal.row.recording
        await add([TerminalOpened(terminal=terminal.row.id, title=terminal.row.name)])
        problem = await _until_over(program, stop, turn.limits.total)
    finally:
        if not program.done.done():
            await program.kill()
    text = attempt.reader.whole(await terminals.text(terminal.row.id, _TEXT_LIMIT))
    closed = TerminalClosed(terminal=terminal.row.id, exit_code=program.exit.code if program.exit else None)
    await add([text, closed] if text.text else [closed])
    return Carried(
        verdict=_verdict(attempt, program.exit, problem), exit=program.exit, leaked=program.leaked, worked=True
    )


async def _until_over(program: "PtyTerminal", stop: Stop, limit: float | None) -> Problem | None:
    """Waits for the program's end; what made ostler end it, or None."""
    wish = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait((program.done, wish), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    finally:
        wish.cancel()
        await asyncio.gather(wish, return_exceptions=True)
    if program.done in done:
        return None
    if wish in done:
        return stop.problem
    return Problem(kind="timed_out", message=f"the turn took longer than {limit:g} s", hint="Raise --timeout")


def _verdict(attempt: Attempt, exit: Exit | None, problem: Problem | None) -> Verdict:
    verdict = attempt.reader.end(exit, "")
    if problem is None or verdict.outcome == "done":
        return verdict
    outcome: Any = {"cancelled": "cancelled", "timed_out": "timed_out"}.get(problem.kind, "failed")
    return structs.replace(verdict, outcome=outcome, error=problem)
