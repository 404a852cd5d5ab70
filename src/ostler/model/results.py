"""How a turn ended: its verdict and its envelope, with what they are made of."""

from typing import Any, Literal, Self

from msgspec import Struct

from ostler.access import Access
from ostler.errors import ErrorKind, OstlerError

Outcome = Literal["done", "failed", "cancelled", "timed_out", "unproven", "crashed"]


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

    @classmethod
    def of(cls, error: OstlerError) -> Self:
        """The error as a value."""
        return cls(kind=error.kind, message=error.message, hint=error.hint, retry_at=error.retry_at)

    def raised(self) -> OstlerError:
        """The value as an error again."""
        return OstlerError(self.kind, self.message, self.hint, self.retry_at)


class Denial(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something the agent was refused, and the access that would allow it."""

    tool: str
    target: str = ""  # the path or command
    access: Access | None = None
    reason: str = ""


class FileChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    path: str
    change: Literal["add", "update", "delete", "move"] = "update"


SignalName = Literal["INT", "TERM", "KILL", "HUP", "QUIT"]


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
    stdout: str | None = None  # of a command: the end of what it wrote
    stderr: str | None = None


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
    planted: tuple[FileChange, ...] = ()  # under `write`: what could run programs later, or widen what agents may
    stdout: str | None = None  # of a command (`exec`): the end of what it wrote; the artifacts have all of it
    stderr: str | None = None  # None in a terminal, where there is one stream
    handed_from: str | None = None  # the session whose work its session goes on with
    handed_to: str | None = None  # the session in which another agent goes on, since the quota ended

    @property
    def ok(self) -> bool:
        return self.status == "ok"
