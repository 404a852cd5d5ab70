"""The nouns of ostler as frozen structs. Facts only: behaviour lives in the rooms that use them.

Imports nothing of ostler but the error kinds.
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from ostler.errors import ErrorKind

Access = Literal["read", "write", "full"]
Outcome = Literal["done", "failed", "cancelled", "timed_out", "unproven", "crashed"]
TurnState = Literal["queued", "starting", "running", "asking", "ended"]
SessionState = Literal["idle", "queued", "busy", "asking", "closed"]
Transport = Literal["pipe", "dialog", "pty", "tmux"]
TerminalSource = Literal["pty", "turn", "tmux", "acp"]  # a program of its own; a headless turn's output; …

ACCESS_ORDER: tuple[Access, ...] = ("read", "write", "full")


# -- what is asked for ------------------------------------------------------------------------------


class Attachment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file or image that goes with a prompt: by path, or inline `content` under a `name`."""

    path: str = ""
    name: str = ""
    content: str | None = None
    image: bool = False
    data: str = ""  # of an image as a `data:` URL, for a dialog that carries it; never stored


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long (seconds) and how much a turn may take. None means no limit."""

    first_record: float | None = 90.0
    idle: float | None = 600.0  # silence; not counted while a tool runs
    total: float | None = None
    retry: float | None = 60.0  # the agent's own retries, without progress
    linger: float = 5.0  # a process that stays after its result
    cost_usd: float | None = None


class McpServer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An MCP server that goes with a turn: a program of this machine, or a `url`. Its values may be secrets."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    transport: Literal["stdio", "http", "sse"] = "stdio"
    headers: dict[str, str] = {}


class Turn(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One prompt, resolved: everything an adapter needs to know of it."""

    id: str
    session: str
    agent: str
    prompt: str
    folder: str
    access: Access = "read"
    model: str | None = None
    profile: str | None = None
    system: str | None = None
    tools_allowed: tuple[str, ...] = ()
    tools_denied: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    schema: dict[str, Any] | None = None
    env: dict[str, str] = {}
    limits: Limits = Limits()
    fallback: tuple[str, ...] = ()
    command: bool = False  # the prompt is a slash command of the agent, not literal text
    first: bool = True  # the first turn of its session
    agent_session: str | None = None  # the agent's own id: to resume, or (first turn) to choose
    resume: bool = False
    fork: bool = False  # resume into a new conversation that begins as a copy
    lean: bool = False  # skip the user's plugins, hooks and memory where the agent can
    transport: Transport = "pipe"
    mode: str | None = None  # one of the agent's own, in a dialog; None: the one that its access begins with
    mcp: tuple[McpServer, ...] = ()


class Host(Struct, frozen=True, kw_only=True):
    """What an adapter may know of the machine: found by ostler, handed in."""

    executable: str  # absolute path of the agent's binary
    version: str = ""
    help: str = ""  # what the binary printed on --help: a launch uses confirmed flags only
    private: str = ""  # an existing 0700 folder for this turn's private files
    root: bool = False
    home: str = ""
    programs: frozenset[str] = frozenset()  # which of Agent.programs are on PATH
    folder_names: frozenset[str] = frozenset()  # which of Agent.folder_names exist in the folder


class Launch(Struct, frozen=True, kw_only=True):
    """argv, stdin, environment and private files for one turn."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    env: dict[str, str] = {}  # added to the allow-listed environment
    files: dict[str, bytes] = {}  # absolute path under Host.private → content; 0600, removed after the turn
    folder_files: dict[str, str] = {}  # name in the folder → content; O_EXCL, removed after the turn
    notices: tuple[str, ...] = ()  # what the user should know (e.g. what this access does not confine)


# -- what is told -----------------------------------------------------------------------------------


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens of one turn. None where the agent does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None  # part of the input that was read from the cache
    reasoning_tokens: int | None = None


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as a value: in envelopes, events, HTTP answers."""

    kind: ErrorKind
    message: str
    hint: str = ""
    retry_at: float | None = None


class Denial(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something the agent was refused, and the access that would allow it."""

    tool: str
    target: str = ""  # the path or command
    access: Access | None = None
    reason: str = ""


class FileChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    path: str
    change: Literal["add", "update", "delete", "move"] = "update"


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """One normalised fact. `seq`, `at` and `turn` are given by the owner; adapters leave them out."""

    seq: int = 0
    at: float = 0.0
    turn: str = ""
    quiet: bool = False  # a view hides it by default


class Started(Event, frozen=True, kw_only=True, tag="started"):
    """The agent speaks: its own session id and model as it reports them."""

    agent: str = ""
    agent_session: str | None = None
    model: str | None = None
    folder: str = ""


class Text(Event, frozen=True, kw_only=True, tag="text"):
    """A whole piece of answer; follows its deltas."""

    text: str
    id: str = ""


class TextDelta(Event, frozen=True, kw_only=True, tag="text_delta"):
    text: str
    id: str = ""


class Thought(Event, frozen=True, kw_only=True, tag="thought"):
    text: str
    id: str = ""


class ThoughtDelta(Event, frozen=True, kw_only=True, tag="thought_delta"):
    text: str
    id: str = ""


class ToolStarted(Event, frozen=True, kw_only=True, tag="tool_started"):
    """`name` is the agent's own word for the tool; `title` is one line for people."""

    id: str
    name: str
    title: str = ""
    input: Any = None
    files: tuple[FileChange, ...] = ()
    parent: str = ""  # the tool call (a subagent) within which this one runs


class ToolEnded(Event, frozen=True, kw_only=True, tag="tool_ended"):
    """`ok` False: it failed or was refused. `duration_ms` is filled by the owner where the agent is silent."""

    id: str
    ok: bool = True
    output: str = ""
    diff: str = ""
    files: tuple[FileChange, ...] = ()
    exit_code: int | None = None
    duration_ms: int | None = None
    denied: bool = False


class PlanStep(Struct, frozen=True, kw_only=True):
    text: str
    status: Literal["pending", "active", "done"] = "pending"


class Plan(Event, frozen=True, kw_only=True, tag="plan"):
    """The agent's to-do list, whole, each time it changes."""

    steps: tuple[PlanStep, ...]


class AskOption(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class Asked(Event, frozen=True, kw_only=True, tag="asked"):
    """The agent wants to do something and waits. `title` is one line for people, `reason` the agent's own."""

    id: str
    tool: str
    title: str = ""
    input: Any = None
    diff: str = ""
    files: tuple[FileChange, ...] = ()
    options: tuple[AskOption, ...] = ()
    reason: str = ""
    expires_at: float | None = None  # then it is denied


class Answered(Event, frozen=True, kw_only=True, tag="answered"):
    """`option` is the kind of the option that was chosen, or "cancelled"; `by` a person, a rule, the time limit."""

    id: str
    option: str
    by: str


class Offer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A slash command, a model or a mode that an agent has: what to send, and what to show."""

    id: str
    name: str = ""
    description: str = ""


class Offered(Event, frozen=True, kw_only=True, tag="offered"):
    """What the agent of a dialog offers, whole, each time it changes; `model` and `mode` are the current ones."""

    commands: tuple[Offer, ...] = ()
    models: tuple[Offer, ...] = ()
    modes: tuple[Offer, ...] = ()
    model: str = ""
    mode: str = ""


class UsageReport(Event, frozen=True, kw_only=True, tag="usage"):
    """Tokens so far in this turn (replaces the one before)."""

    usage: Usage
    cost_usd: float | None = None


class Limited(Event, frozen=True, kw_only=True, tag="limited"):
    """The agent is held up by a quota, a rate limit or a server in trouble, and tries again."""

    error: Literal["limited", "overloaded", "unauthenticated"] = "limited"
    message: str = ""
    attempt: int | None = None
    retry_at: float | None = None  # absolute, seconds since the epoch
    retry_in: float | None = None  # seconds from now: adapters know no clock


class Notice(Event, frozen=True, kw_only=True, tag="notice"):
    """Something a person should know that is neither answer nor failure."""

    text: str
    code: str = ""  # stable, for programs: "lingered", "fallback", "diff_skipped" …


class Hook(Event, frozen=True, kw_only=True, tag="hook"):
    name: str
    payload: Any = None


class TerminalOpened(Event, frozen=True, kw_only=True, tag="terminal_opened"):
    """Told again for the same terminal when it becomes known which tool call it belongs to."""

    terminal: str
    title: str = ""
    tool: str = ""  # the tool call that it shows


class TerminalClosed(Event, frozen=True, kw_only=True, tag="terminal_closed"):
    terminal: str
    exit_code: int | None = None


class Raw(Event, frozen=True, kw_only=True, tag="raw"):
    """A record that was not understood: kept, never lost. `line` holds what was not JSON."""

    record: Any = None
    line: str = ""
    stream: Literal["stdout", "stderr"] = "stdout"


class Ended(Event, frozen=True, kw_only=True, tag="ended"):
    """The last event of every turn; the envelope says the rest."""

    outcome: Outcome
    error: Problem | None = None


AnyEvent = (
    Started
    | Text
    | TextDelta
    | Thought
    | ThoughtDelta
    | ToolStarted
    | ToolEnded
    | Plan
    | Asked
    | Answered
    | Offered
    | UsageReport
    | Limited
    | Notice
    | Hook
    | TerminalOpened
    | TerminalClosed
    | Raw
    | Ended
)


# -- how it ended -----------------------------------------------------------------------------------


class Exit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a process ended: exactly one of the two."""

    code: int | None = None
    signal: int | None = None

    @property
    def ok(self) -> bool:
        return self.code == 0


class Verdict(Struct, frozen=True, kw_only=True):
    """What a reader concludes once the process is gone."""

    outcome: Outcome
    error: Problem | None = None
    evidence: tuple[str, ...] = ()
    text: str = ""  # the final answer
    structured: Any = None  # what the agent's own schema mode returned
    agent_session: str | None = None
    model: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    cumulative: bool = False  # usage and cost count the whole agent session, not this turn
    steps: int | None = None
    denied: tuple[Denial, ...] = ()


class Envelope(Struct, frozen=True, kw_only=True):
    """The normalised result of a turn. Exists for every turn that began."""

    status: Literal["ok", "error"]
    outcome: Outcome
    summary: str
    text: str
    turn: str
    session: str
    agent: str
    served_by: str
    started_at: float
    duration_ms: int
    structured: Any = None
    denied: tuple[Denial, ...] = ()
    artifacts: dict[str, str] = {}
    agent_session: str | None = None
    name: str | None = None
    model: str | None = None
    folder: str = ""
    access: Access = "read"
    usage: Usage | None = None
    cost_usd: float | None = None
    steps: int | None = None
    exit: Exit | None = None
    error: Problem | None = None
    evidence: tuple[str, ...] = ()
    leaked: tuple[str, ...] = ()
    files: tuple[FileChange, ...] = ()  # what changed in the folder, where it was looked at

    @property
    def ok(self) -> bool:
        return self.status == "ok"


# -- what is kept -----------------------------------------------------------------------------------


class Session(Struct, frozen=True, kw_only=True):
    """An ordered series of turns with one agent in one folder."""

    id: str
    agent: str
    folder: str
    created_at: float
    used_at: float
    name: str | None = None
    served_by: str = ""
    agent_session: str | None = None  # the agent's own id, once it has confirmed it
    state: SessionState = "idle"
    access: Access = "read"
    model: str | None = None
    profile: str | None = None
    system: str | None = None
    turns: int = 0
    cost_usd: float | None = None
    expires_at: float | None = None
    title: str = ""  # the first line of the first prompt
    primary: str | None = None  # the terminal that was chosen to be followed; None: the newest live one
    fork_of: str | None = None  # the agent's own id of the conversation that the first turn copies


class TurnRow(Struct, frozen=True, kw_only=True):
    """A turn as the store keeps it."""

    id: str
    session: str
    state: TurnState
    turn: Turn
    created_at: float
    owner: str | None = None
    ended_at: float | None = None
    envelope: Envelope | None = None
    # What the agent's own counters stood at when the turn ended: the next turn subtracts it.
    counters: dict[str, float] | None = None


class TerminalRow(Struct, frozen=True, kw_only=True):
    """A terminal as the store keeps it, and as viewers are told of it."""

    id: str
    session: str
    name: str
    source: TerminalSource
    cols: int
    rows: int
    created_at: float
    state: Literal["live", "ended"] = "live"
    argv: tuple[str, ...] = ()
    folder: str = ""
    turn: str | None = None  # the turn whose output or program it shows
    typing: bool = False  # it takes keys; False: read-only
    title: str = ""  # what the program called itself
    owner: str | None = None
    pid: int | None = None
    ended_at: float | None = None
    exit: Exit | None = None
    size: int = 0  # bytes of output, known at the end
    recording: str = ""  # path of its asciicast file


class Owner(Struct, frozen=True, kw_only=True):
    """A long-lived ostler process: the pid alone is not an identity."""

    id: str
    pid: int
    start_time: int  # field 22 of /proc/PID/stat
    boot_id: str
    socket: str
    role: str  # "run", "up", "worker" …
    started_at: float


EVENT_ENCODER = msgspec.json.Encoder()
EVENT_DECODER: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
