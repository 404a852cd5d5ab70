"""A shell command as a turn: `ostler exec`. Its exit code is the proof."""

from ostler.agents import Agent, Reader
from ostler.words import AnyEvent, Exit, Host, Launch, Problem, Raw, Started, TextDelta, Turn, Verdict

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
