"""A shell command as a turn: `ostler exec`. Its exit code is the proof."""

import os
import shutil
from collections.abc import Mapping, Sequence

from ostler.agents import Agent, Reader
from ostler.errors import OstlerError
from ostler.store import Redactor
from ostler.words import AnyEvent, Exit, Host, Launch, Problem, Raw, Started, TextDelta, Turn, Verdict
from ostler.work.carry import Attempt
from ostler.work.environment import secrets

_TEXT_LIMIT = 1024 * 1024


class CommandReader(Reader):
    """Each line of stdout is text, each line of stderr a raw event."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._lines: list[str] = []
        self._size = 0

    def read_line(self, line: bytes) -> list[AnyEvent]:
        text = line.decode("utf-8", "replace") + "\n"
        self._size += len(text)
        if self._size <= _TEXT_LIMIT:
            self._lines.append(text)
        return [TextDelta(text=text)]

    def read_stderr(self, line: str) -> list[AnyEvent]:
        return [Raw(line=line, stream="stderr")]

    def flush(self) -> list[AnyEvent]:
        return [self.whole("".join(self._lines))] if self._lines else []

    def end(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        if exit is not None and exit.ok:
            return self._verdict("done", None)
        self.evidence.append(str(exit))
        return self._verdict("failed", self.no_result(exit, stderr_tail))

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        how = "did not end" if exit is None else f"ended with {_spoken(exit)}"
        return Problem(kind="crashed", message=f"`{self.turn.prompt}` {how}")


def _spoken(exit: Exit) -> str:
    return f"exit code {exit.code}" if exit.signal is None else f"signal {exit.signal}"


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
)


def started(turn: Turn) -> Started:
    return Started(agent=turn.agent, folder=turn.folder)


def command_attempt(turn: Turn, argv: Sequence[str], environ: Mapping[str, str]) -> Attempt:
    """The attempt at it, with the user's own environment. Raises missing."""
    env = {name: value for name, value in environ.items() if not name.startswith("OSTLER_")}
    if shutil.which(os.path.join(turn.folder, argv[0]) if "/" in argv[0] else argv[0], path=env.get("PATH")) is None:
        raise OstlerError("missing", f"`{argv[0]}` is not a command that can be run", "Check the spelling and PATH")
    return Attempt(
        turn=turn,
        agent=COMMAND,
        reader=COMMAND.reader(turn),
        launch=Launch(argv=tuple(argv)),
        env=env,
        served_by="exec",
        records_of="exec",
        redactor=Redactor(secrets(environ, env, ())),
        told=turn,
    )
