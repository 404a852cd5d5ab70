"""Any command line as an agent (`[agents.NAME]` of the settings): for programs that write text and no records.

What it prints is its text. Its exit code proves that it succeeded, or a line of its output that matches
`done_pattern`. Nothing is known about what it does, so no access below `full` is promised.
"""

import re
from collections.abc import Sequence

from msgspec import structs

from ostler.access import ACCESS_ORDER
from ostler.agents import all_project_config, all_project_config_above
from ostler.agents.adapter import Agent, State
from ostler.agents.launches import ARGUMENT_LIMIT, literal, refuse_tool_lists, refuse_untrusted, with_attachments
from ostler.agents.reader import Reader
from ostler.errors import OstlerError, quoted
from ostler.model import AnyEvent, Exit, Host, Launch, PlainAgent, Raw, TextDelta, Turn, Verdict

TEXT_LIMIT = 1024 * 1024  # characters of output that the envelope keeps
UNCONFINED = "ostler does not know what the program does, and nothing confines it"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class TextReader(Reader):
    """Each line of stdout is text, each line of stderr a raw event."""

    joins_lines = True

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._lines: list[str] = []
        self._size = 0

    def read_line(self, line: bytes) -> list[AnyEvent]:
        text = line.decode("utf-8", "replace") + "\n"
        self._size += len(text)
        if self._size <= TEXT_LIMIT:
            self._lines.append(text)
        return [TextDelta(text=text)]

    def read_stderr(self, line: str) -> list[AnyEvent]:
        return [Raw(line=line, stream="stderr")]

    def flush(self) -> list[AnyEvent]:
        return [self.whole("".join(self._lines))] if self._lines else []


class PlainReader(TextReader):
    """Judges a turn by the exit code, or by a line that matches the turn's or else the agent's `done_pattern`."""

    silence_counts = True  # the user says what proves success

    def __init__(self, turn: Turn, done_pattern: str = "") -> None:
        super().__init__(turn)
        pattern = turn.done_pattern or done_pattern
        self._done = re.compile(pattern) if pattern else None

    def read_line(self, line: bytes) -> list[AnyEvent]:
        events = super().read_line(line)
        text = _ANSI.sub("", line.decode("utf-8", "replace"))
        if self.result is None and self._done is not None and self._done.search(text):
            self.succeed(f"line: {text.strip()[:200]}")
        return events

    def is_done(self) -> bool:
        return self.result == "ok"

    def end(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        if exit is not None and exit.ok:
            self._exit_0()
        verdict = super().end(exit, stderr_tail)
        if verdict.outcome == "crashed" and exit is not None and exit.signal is None:
            return structs.replace(verdict, outcome="failed")  # the program itself says so, by its exit code
        return verdict

    def _exit_0(self) -> None:
        if self._done is None:
            self.succeed("exit code 0")
        elif self.result is None:
            message = f"{self.turn.agent} printed no line that matches {quoted(self._done.pattern)}"
            self.fail("exit code 0", "unproven", message, "Check its output, or change done_pattern")


def plain_agent(name: str, plain: PlainAgent) -> Agent:
    """The agent of a command line."""
    return Agent(
        name=name,
        title=plain.title or name,
        description=plain.description,
        binaries=(plain.command[0],),
        install=f"install `{plain.command[0]}`, or fix agents.{name}.command in your settings",
        launch=lambda turn, host: _launch(turn, host, plain),
        reader=lambda turn: PlainReader(turn, "" if plain.proof == "exit" else plain.done_pattern),
        probed=False,
        models=plain.models,
        env=plain.env_pass,
        login_elsewhere=True,
        project_config=all_project_config(),  # nobody knows what it takes from a folder: whatever any agent would
        project_config_above=all_project_config_above(),
        without_git=True,
        prompt_limit=ARGUMENT_LIMIT if _names(plain.command, "prompt") else None,
        access=dict.fromkeys(ACCESS_ORDER, "nothing"),
        state=State(),  # nobody knows what it keeps where: `wall_paths` opens it
        unpromised=dict.fromkeys(("read", "write"), UNCONFINED),
        unconfined=dict.fromkeys(ACCESS_ORDER, "everything"),
        resumes=False,
        deltas=True,
        tokens=False,
    )


def _launch(turn: Turn, host: Host, plain: PlainAgent) -> Launch:
    refuse_tool_lists(turn)
    refuse_untrusted(turn, host)
    if plain.proof == "pattern" and not plain.done_pattern:  # settings of Python are not checked before
        raise OstlerError("bad_request", f'agents.{turn.agent}: proof = "pattern" needs done_pattern')
    if turn.model and not _names(plain.command, "model"):
        hint = f"Leave out --model, or put {{model}} into agents.{turn.agent}.command"
        raise OstlerError("unsupported", f"{turn.agent} cannot be given a model", hint)
    prompt, path = _prompt(turn), f"{host.private}/prompt.txt"
    values = {"prompt": prompt, "prompt_file": path, "model": turn.model or "", "folder": turn.folder}
    named = _names(plain.command, "prompt_file")
    return Launch(
        argv=(host.executable, *_filled(plain.command[1:], values)),
        stdin=b"" if named or _names(plain.command, "prompt") else prompt.encode(),
        env={key: value for key, value in plain.env.items() if key not in turn.env},
        files={path: prompt.encode()} if named else {},
    )


def _prompt(turn: Turn) -> str:
    """With the system prompt before it: each turn is a new conversation. `-x` must not be taken for an option."""
    text = with_attachments(literal(turn, "/!-"), turn.attachments)
    return f"{turn.system}\n\n{text}" if turn.system else text


def _names(command: Sequence[str], value: str) -> bool:
    return any(f"{{{value}}}" in word for word in command)


def _filled(words: Sequence[str], values: dict[str, str]) -> list[str]:
    """The arguments with their values; one that needs a model is left out where the turn has none."""
    kept = [word for word in words if values["model"] or "{model}" not in word]
    pattern = re.compile("{(" + "|".join(values) + ")}")
    return [pattern.sub(lambda found: values[found[1]], word) for word in kept]
