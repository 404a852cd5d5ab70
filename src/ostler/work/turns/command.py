"""A shell command as a turn: `ostler exec`. Its exit code is the proof."""

import os
import shutil
from collections.abc import Mapping, Sequence

from msgspec import structs

from ostler.agents import Agent
from ostler.agents.adapter import State
from ostler.agents.failures import spoken
from ostler.agents.plain import TextReader
from ostler.errors import OstlerError
from ostler.model import AnyEvent, Exit, Host, Launch, Problem, Turn, Verdict
from ostler.process import Size
from ostler.settings import Settings
from ostler.store import Redactor
from ostler.work.transports.choose import command_transport
from ostler.work.transports.facts import TRANSPORT_FACTS
from ostler.work.transports.transport import TAIL, Attempt, OutputSink
from ostler.work.turns.environment import secrets
from ostler.work.walls import wall_around, why_no_wall


class CommandReader(TextReader):
    """Keeps the end of both streams for the envelope."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._tail = ""

    def read_line(self, line: bytes) -> list[AnyEvent]:
        self._tail += line.decode("utf-8", "replace") + "\n"
        if len(self._tail) > 2 * TAIL:
            self._tail = self._tail[-TAIL:]
        return super().read_line(line)

    def end(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        tails = {"stdout": self._tail[-TAIL:], "stderr": stderr_tail[-TAIL:]}
        if exit is not None and exit.ok:
            return structs.replace(self._verdict("done", None), **tails)
        self.evidence.append("the command did not end" if exit is None else spoken(exit))
        return structs.replace(self._verdict("failed", self.no_result(exit, stderr_tail)), **tails)

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        how = "did not end" if exit is None else f"ended with {spoken(exit)}"
        return Problem(kind="crashed", message=f"`{self.turn.prompt}` {how}")


def _launch(turn: Turn, host: Host) -> Launch:
    return Launch(argv=(host.executable,))


COMMAND = Agent(
    name="exec",
    title="a command",
    binaries=(),
    install="",
    launch=_launch,
    reader=CommandReader,
    resumes=False,
    state=State(),
)


def is_empty(argv: Sequence[str]) -> bool:
    """A command without a word in it: there is nothing to run."""
    return not any(word.strip() for word in argv)


def command_attempt(
    turn: Turn,
    argv: Sequence[str],
    environ: Mapping[str, str],
    redact: Sequence[str] = (),
    stdin: bytes | int = b"",
    shown: OutputSink | None = None,
    size: Size | None = None,
) -> Attempt:
    """The attempt at it, with the user's own environment; `redact` are further variables that are secret.

    Raises missing. `argv` may be empty. With `size` it runs in a terminal.
    """
    env = {name: value for name, value in environ.items() if not name.startswith("OSTLER_")}
    if argv:
        _check_program(argv, turn.folder, env.get("PATH"))
    return Attempt(
        turn=turn,
        agent=COMMAND,
        reader=COMMAND.reader(turn),
        launch=Launch(argv=tuple(argv), stdin=stdin if isinstance(stdin, bytes) else b""),
        env=env,
        served_by="exec",
        records_of="exec",
        redactor=Redactor(secrets(environ, env, redact)),
        effective_turn=turn,
        transport=command_transport(empty=not argv, in_terminal=size is not None),
        stdin=stdin if isinstance(stdin, int) else None,
        shown=shown,
        size=size,
    )


def walled_command(attempt: Attempt, settings: Settings, state: str) -> Attempt:
    """The attempt behind the wall of its access. Raises denied where there is no wall: nothing else would keep it."""
    turn = attempt.turn
    if turn.access == "full" or not TRANSPORT_FACTS[attempt.transport].starts_process:
        return attempt
    walled = wall_around(settings, COMMAND, turn.access, turn.folder, state=state, environ=attempt.env)
    if walled is None:
        why = why_no_wall(settings, COMMAND, turn.access, ())
        raise OstlerError("denied", f"a command cannot be kept to --access {turn.access}: {why}", "Use --access full")
    env = {**attempt.env, **walled.env}
    return structs.replace(
        attempt, enclosure=walled, env=env, state=state, turn=structs.replace(turn, env={**turn.env, **walled.env})
    )


def _check_program(argv: Sequence[str], folder: str, path: str | None) -> None:
    program = argv[0]
    if shutil.which(os.path.join(folder, program) if "/" in program else program, path=path) is None:
        hint = "Check the spelling and PATH"
        if len(argv) > 1 and any(c.isspace() for c in program):
            hint = "Put a shell line last, as one argument, after ostler's own flags"
        raise OstlerError("missing", f"`{program}` is not a command that can be run", hint)
