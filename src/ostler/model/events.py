"""What is told while a turn runs: one normalised fact each, as journals keep them."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from ostler.model.results import FileChange, Outcome, Problem, Usage
from ostler.model.turn import PlanStep


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
    """`name` is the agent's own word for the tool, `category` ostler's; `title` is one line for people."""

    id: str
    name: str
    category: str = ""  # one of TOOL_WORDS, else the agent's own name; filled by the owner
    title: str = ""
    input: Any = None
    files: tuple[FileChange, ...] = ()
    parent: str = ""  # the tool call (a subagent) within which this one runs


class ToolEnded(Event, frozen=True, kw_only=True, tag="tool_ended"):
    """`ok` False: it failed or was refused, or it ran when the turn was stopped: then the owner marks it `stopped`.

    `duration_ms` is filled by the owner where the agent is silent.
    """

    id: str
    ok: bool = True
    output: str = ""
    diff: str = ""
    files: tuple[FileChange, ...] = ()
    exit_code: int | None = None
    duration_ms: int | None = None
    denied: bool = False
    stopped: bool = False


class Plan(Event, frozen=True, kw_only=True, tag="plan"):
    """The agent's to-do list, whole, each time it changes."""

    steps: tuple[PlanStep, ...]


AskOptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class AskOption(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    name: str
    kind: AskOptionKind


class Asked(Event, frozen=True, kw_only=True, tag="asked"):
    """The agent wants to do something and waits. `title` is one line for people, `reason` the agent's own."""

    id: str
    tool: str  # the agent's own name
    category: str = ""  # ostler's word for it, as in ToolStarted
    title: str = ""
    input: Any = None
    diff: str = ""
    files: tuple[FileChange, ...] = ()
    options: tuple[AskOption, ...] = ()
    reason: str = ""
    expires_at: float | None = None  # then it is denied


TIME_LIMIT = "time limit"  # who denied what nobody answered


class Answered(Event, frozen=True, kw_only=True, tag="answered"):
    """`option` is the kind of the option that was chosen, or "cancelled"; `by` a person, a rule, the time limit.

    `message` is what the agent was told with it: why it was denied.
    """

    id: str
    option: str
    by: str
    message: str = ""


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


LimitedBy = Literal["limited", "overloaded", "unauthenticated"]


class Limited(Event, frozen=True, kw_only=True, tag="limited"):
    """The agent is held up by a quota, a rate limit or a server in trouble, and tries again."""

    error: LimitedBy = "limited"
    message: str = ""
    attempt: int | None = None
    retry_at: float | None = None  # absolute, seconds since the epoch
    retry_in: float | None = None  # seconds from now: adapters know no clock


class Notice(Event, frozen=True, kw_only=True, tag="notice"):
    """Something a person should know that is neither answer nor failure."""

    text: str
    code: str = ""  # stable, for programs: "lingered", "fallback", "diff_skipped" …


class Hook(Event, frozen=True, kw_only=True, tag="hook"):
    """A hook of the agent fired: one of ostler's own, or of the user's, as the agent tells of it.

    `late`: it came after its turn had ended and changed nothing; `of` is that turn, where another runs by then.
    """

    name: str
    payload: Any = None
    late: bool = False
    of: str = ""


class Forwarded(Event, frozen=True, kw_only=True, tag="forwarded"):
    """What a backend said to what it was told of a turn. It comes after `ended`: done here is not yet done there.

    `ok` False: it was given up; `answer` is what was said then, or why.
    """

    to: str  # scheme, host and port
    ok: bool
    status: int | None = None
    answer: str = ""
    tries: int = 1


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
    | Forwarded
    | TerminalOpened
    | TerminalClosed
    | Raw
    | Ended
)
EVENT_ENCODER = msgspec.json.Encoder()
EVENT_DECODER: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def json_head(kind: str) -> bytes:
    """How the JSON of an event or a frame of this kind begins: its tag is written first. Told without decoding."""
    return b'{"kind":"%s"' % kind.encode()


def event_heads(*events: type[Event]) -> tuple[bytes, ...]:
    return tuple(json_head(str(event.__struct_config__.tag)) for event in events)
