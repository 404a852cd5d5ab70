"""What an adapter is: a frozen description, a launch function, and a reader of records.

Pure: no I/O, no clock, no environment. An adapter cannot hold watchdogs, retries or rendering;
those live in `work`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from ostler.errors import ErrorKind, OstlerError
from ostler.words import (
    Access,
    AnyEvent,
    Attachment,
    Denial,
    Exit,
    Host,
    Launch,
    Problem,
    Raw,
    Started,
    Text,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
    Verdict,
)

if TYPE_CHECKING:
    from ostler.agents.dialog import DialogFace

Record = dict[str, Any]


class Conversation(Struct, frozen=True, kw_only=True):
    """A conversation that the CLI keeps by itself and that ostler can adopt."""

    id: str
    folder: str = ""
    title: str = ""


class Agent(Struct, frozen=True, kw_only=True):
    """One coding agent: what to run and how to read it."""

    name: str
    title: str
    binaries: tuple[str, ...]  # names to look for on PATH, first found wins
    install: str  # the command a person types to install it
    launch: Callable[[Turn, Host], Launch]
    reader: Callable[[Turn], "Reader"]

    models: tuple[str, ...] = ()  # glob patterns of model names that mean this agent
    needs: tuple[str, ...] = ()  # flags without which no launch is possible; probed in the help texts
    help: tuple[tuple[str, ...], ...] = (("--help",),)  # argument lists whose output tells the flags
    env: tuple[str, ...] = ()  # glob patterns of variables that pass through to this agent
    drop: tuple[str, ...] = ()  # variables that must not reach it
    keys: tuple[str, ...] = ()  # variables that hold a key: one of them set is a login
    login_files: tuple[str, ...] = ()  # relative to HOME: one of them existing is a login
    login_elsewhere: bool = False  # it may also be logged in where ostler cannot look (keychain, config)
    programs: tuple[str, ...] = ()  # helper programs a launch wants to know of (bwrap …)
    folder_names: tuple[str, ...] = ()  # names in the folder a launch wants to know of (AGENTS.md)
    prompt_limit: int | None = None  # bytes of prompt the CLI takes

    access: Mapping[Access, str] = {}  # by which flags, for the docs
    unconfined: Mapping[Access, str] = {}  # what that access does not confine, for the docs
    unpromised: Mapping[Access, str] = {}  # an access that it cannot keep, and why: refused unless accepted
    tools: Mapping[str, tuple[str, ...]] = {}  # ostler's word for a tool → the agent's names
    # Abilities, for the table in the README and for checks before a launch.
    resumes: bool = True
    forks: bool = False
    chooses_id: bool = False
    schema: Literal["native", "extracted"] = "extracted"
    system: Literal["flag", "file", "prompt"] = "prompt"
    tool_lists: bool = False
    images: Literal["native", "path", "no"] = "path"
    deltas: bool = False
    tokens: bool = True
    cost: bool = False
    mcp: tuple[str, ...] = ()  # the transports of MCP servers that a turn of one process takes

    dialog: "DialogFace | None" = None  # one process for many turns, where the agent can
    one_shot: bool = True  # it has turns of one process each; if not, dialogs carry all of them

    # Adoption: globs under HOME, and a pure look at one file's path and first records.
    conversations: tuple[str, ...] = ()
    conversation: Callable[[str, Sequence[Record]], Conversation | None] | None = None


class Reader:
    """Reads one turn's records. Subclasses write `read`; `end` is the rule of proof.

    `result` stays None until the agent itself says how the turn ended.
    """

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.agent_session: str | None = None
        self.model: str | None = None
        self.text = ""  # the final answer so far
        self.structured: Any = None
        self.usage: Usage | None = None
        self.cost_usd: float | None = None
        self.cumulative = False
        self.steps: int | None = None
        self.denied: list[Denial] = []
        self.evidence: list[str] = []
        self.result: Literal["ok", "error"] | None = None
        self.problem: Problem | None = None
        self.open_tools: dict[str, ToolStarted] = {}

    def read(self, record: Record) -> list[AnyEvent]:
        """Events of one record. Unknown records give [Raw(record=record)]."""
        raise NotImplementedError

    def read_line(self, line: bytes) -> list[AnyEvent]:
        """Events of one line of stdout. Text between the records is kept as it is."""
        record = decode(line)
        if isinstance(record, dict):
            return self.read(record)
        return [Raw(line=line.decode("utf-8", "replace"))] if line.strip() else []

    def read_stderr(self, line: str) -> list[AnyEvent]:
        """Events of one line of stderr: most agents only log there."""
        return []

    def flush(self) -> list[AnyEvent]:
        """Events still owed when the stream ends: whole texts of deltas, tools that never ended."""
        return [self.tool_ended(ToolEnded(id=id, ok=False, output="")) for id in list(self.open_tools)]

    def end(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        """The verdict; `exit` is None when the process had to be ended after its result."""
        error = self._error(exit, stderr_tail)
        if error is None:
            return self._verdict("done", None)
        return self._verdict(OUTCOMES.get(error.kind, "failed"), error)

    # -- for subclasses

    def started(self) -> Started:
        return Started(
            agent=self.turn.agent,
            agent_session=self.agent_session,
            model=self.model,
            folder=self.turn.folder,
        )

    def whole(self, text: str, id: str = "") -> Text:
        self.text = text
        return Text(text=text, id=id)

    def tool_started(self, event: ToolStarted) -> ToolStarted:
        self.open_tools[event.id] = event
        return event

    def tool_ended(self, event: ToolEnded) -> ToolEnded:
        self.open_tools.pop(event.id, None)
        return event

    def succeed(self, evidence: str) -> None:
        self.result = "ok"
        self.evidence.append(evidence)

    def fail(self, evidence: str, kind: ErrorKind, message: str, hint: str = "") -> None:
        self.result = "error"
        self.evidence.append(evidence)
        self.problem = Problem(kind=kind, message=message or kind, hint=hint)

    # -- the rule of proof

    def _error(self, exit: Exit | None, stderr_tail: str) -> Problem | None:
        turn = self.turn
        if self.result == "error":
            return self.problem
        if self.result is None:
            return self.no_result(exit, stderr_tail)
        if turn.resume and not turn.fork and self.agent_session not in (None, turn.agent_session):
            # Several CLIs answer a bad resume id with a new conversation and exit 0.
            return Problem(
                kind="not_found",
                message=f"asked {turn.agent} to resume {turn.agent_session}, it began {self.agent_session}",
                hint="Start a new session",
            )
        if exit is not None and not exit.ok:
            return Problem(kind="crashed", message=f"{turn.agent} reported success but ended with {spoken(exit)}")
        return None

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        """The process ended and the agent never said how the turn went."""
        said = last_line(stderr_tail)
        if exit is None or exit.ok:
            return Problem(
                kind="unproven",
                message=f"{self.turn.agent} ended without a result" + (f": {said}" if said else ""),
            )
        if exit.signal is not None:
            return Problem(kind="crashed", message=f"{self.turn.agent} was ended by {spoken(exit)}")
        kind = kind_of(None, stderr_tail)
        return Problem(kind=kind, message=said or f"{self.turn.agent} ended with {spoken(exit)} and no result")

    def _verdict(self, outcome: Any, error: Problem | None) -> Verdict:
        return Verdict(
            outcome=outcome,
            error=error,
            evidence=tuple(self.evidence),
            text=self.text,
            structured=self.structured,
            agent_session=self.agent_session,
            model=self.model,
            usage=self.usage,
            cost_usd=self.cost_usd,
            cumulative=self.cumulative,
            steps=self.steps,
            denied=tuple(self.denied),
        )


OUTCOMES: dict[ErrorKind, str] = {
    "crashed": "crashed",
    "unproven": "unproven",
    "cancelled": "cancelled",
    "timed_out": "timed_out",
}


# -- decoding ---------------------------------------------------------------------------------------

_decode = msgspec.json.Decoder().decode


def decode(line: bytes) -> Any:
    """The JSON value of a line, or None where it is not JSON (then it is a raw event)."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return _decode_leniently(line)


def _decode_leniently(line: bytes) -> Any:
    """A second look: invalid UTF-8 and lone surrogates must not cost a whole record."""
    if line.lstrip()[:1] != b"{":
        return None
    text = line.decode("utf-8", "replace")
    text = re.sub(r"\\u[dD][89aAbB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])", r"\\ufffd", text)
    text = re.sub(r"(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}", r"\\ufffd", text)
    try:
        return _decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return None


# -- words about failures ---------------------------------------------------------------------------

_STATUS_IN_TEXT = re.compile(r"(?:status|error|code|HTTP)\D{0,20}\b([45]\d\d)\b|\b([45]\d\d)\b", re.I)
_PHRASES: tuple[tuple[ErrorKind, re.Pattern[str]], ...] = (
    (
        "unauthenticated",
        re.compile(
            r"not logged in|please (run /)?log ?in|unauthori[sz]ed|authenticat|invalid (api|x-api)[ -]?key"
            r"|api key .*(missing|not set|invalid)|missing .*api key|no credentials|missing environment variable",
            re.I,
        ),
    ),
    ("limited", re.compile(r"rate.?limit|quota|too many requests|usage limit|resource.?exhausted", re.I)),
    (
        "overloaded",
        re.compile(r"overloaded|high demand|unavailable|ECONNREFUSED|connection refused|fetch failed", re.I),
    ),
    (
        "bad_request",
        re.compile(
            r"unknown (option|argument|flag)|unexpected argument|invalid[ _](request|argument|value)|bad request",
            re.I,
        ),
    ),
)


def kind_of(status: int | None, text: str) -> ErrorKind:
    """The error kind of a model server's status or, failing that, of what a CLI printed."""
    if status is None and (found := _STATUS_IN_TEXT.search(text)):
        status = int(found[1] or found[2])
    if status in (401, 403):
        return "unauthenticated"
    if status == 429:
        return "limited"
    if status is not None and status >= 500:
        return "overloaded"
    if status is not None and status >= 400:
        return "bad_request"
    return next((kind for kind, phrase in _PHRASES if phrase.search(text)), "crashed")


def spoken(exit: Exit) -> str:
    return f"signal {exit.signal}" if exit.signal is not None else f"exit code {exit.code}"


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""


# -- for launches -----------------------------------------------------------------------------------


def literal(turn: Turn, marks: str = "/") -> str:
    """The prompt, kept from being read as a command: a leading newline makes `/exit` text."""
    if not turn.command and turn.prompt[:1] in tuple(marks):
        return "\n" + turn.prompt
    return turn.prompt


def confirm(turn: Turn, host: Host, flags: Sequence[str]) -> None:
    """Raises unsupported for a flag that the CLI's help does not name. `--x[-file]` names `--x-file` too."""
    own = flags[: flags.index("--")] if "--" in flags else flags
    for flag in (f.partition("=")[0].removesuffix("-file") for f in own if f.startswith("--")):
        if host.help and not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", host.help):
            raise OstlerError("unsupported", f"{turn.agent} {host.version} has no {flag}", f"Update {turn.agent}")


def with_attachments(prompt: str, attachments: Sequence[Attachment]) -> str:
    """The prompt with its attachments as text: inline content in full, other files by path."""
    paths = [a.path for a in attachments if a.content is None]
    parts = [prompt] if prompt else []
    if paths:
        parts.append("Attached files:\n" + "\n".join(f"- {path}" for path in paths))
    for a in attachments:
        if a.content is not None:
            parts.append(f'<file name="{a.name}">\n{a.content}\n</file>')
    return "\n\n".join(parts)


def tool_names(agent: Agent, words: Sequence[str]) -> tuple[str, ...]:
    """The agent's own names for ostler's words; names that are not such words pass as they are."""
    return tuple(name for word in words for name in agent.tools.get(word, (word,)))


def refuse_tool_lists(turn: Turn) -> None:
    if turn.tools_allowed or turn.tools_denied:
        raise OstlerError(
            "unsupported",
            f"{turn.agent} cannot be given a list of tools",
            "Leave out --allow-tool and --deny-tool, or choose another agent",
        )


def title_of(name: str, input: Any) -> str:
    """One line for people: the command, path or pattern that a tool call is about."""
    if isinstance(input, dict):
        for key in (
            "command",
            "cmd",
            "file_path",
            "filePath",
            "path",
            "absolute_path",
            "pattern",
            "query",
            "url",
        ):
            value = input.get(key)
            if isinstance(value, list):
                value = " ".join(str(part) for part in value)
            if isinstance(value, str) and value.strip():
                return value.strip().splitlines()[0][:200]
        for key in ("description", "prompt", "title"):
            if isinstance(value := input.get(key), str) and value.strip():
                return value.strip().splitlines()[0][:200]
    return ""
