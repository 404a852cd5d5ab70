"""What can be set, as frozen structs, and how durations are written."""

import math
import re
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from ostler.words import Access, Limits


class Profile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent under a name of its own. What is None or empty falls back to the settings around it."""

    agent: str = ""
    model: str | None = None
    description: str = ""
    color: str = ""
    system: str | None = None
    access: Access | None = None
    limits: Limits | None = None
    tools_allowed: tuple[str, ...] = ()
    tools_denied: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    done_pattern: str = ""
    mcp: tuple[str, ...] = ()  # names of MCP servers that go with its turns


class McpEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An MCP server under a name. It is only defined here: a turn or a profile chooses it."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    transport: Literal["stdio", "http", "sse"] | None = None  # None: by what it has, stdio or http


class AskRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How asks are answered that fit all of its patterns (globs; empty fits all). The first rule that fits counts."""

    answer: Literal["allow", "deny", "ask"]
    agent: str = ""
    tool: str = ""  # the agent's own name of a tool, or ostler's word (shell, edit, web …)
    command: str = ""  # of a shell tool; an allowed command must be a plain one, without `;`, `|`, `$(…)` …
    path: str = ""  # of the files it is about, relative to the folder


class Settings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that can be set. `home` is the state folder, resolved; `project` the project's root."""

    default_agent: str = ""
    models: dict[str, str] = {}  # glob of model names → agent; before the agents' own patterns
    profiles: dict[str, Profile] = {}
    access: Access = "read"
    limits: Limits = Limits()
    tools_allowed: tuple[str, ...] = ()
    tools_denied: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    env_pass: tuple[str, ...] = ()  # globs of variables that pass to every agent
    env: dict[str, str] = {}
    redact: tuple[str, ...] = ()  # further variables whose values are secret
    commands: dict[str, tuple[str, ...]] = {}  # agent → argv that stands in for its binary
    acp: dict[str, tuple[str, ...]] = {}  # a name → argv of an ACP agent that ostler does not know
    mcp: dict[str, McpEntry] = {}  # a name → an MCP server that turns can be given
    state: str = "user"  # "user", "project" or a path
    ttl_days: float = 30.0
    config: Literal["user", "private"] = "user"
    lean: bool = False
    asks: tuple[AskRule, ...] = ()  # answered without a person; the first that fits
    ask_limit: float | None = 300.0  # seconds after which an ask is denied
    dialog_idle: float = 300.0  # seconds after which a dialog that nobody uses is closed
    loose: tuple[str, ...] = ()  # agents whose access may be wider than it says (see `Agent.unpromised`)
    terminals: int = 10  # that may live at once in a session
    recording_mb: float = 64.0  # what the recording of a terminal may take on disk
    port: int = 0  # of the server; 0: the last one if it is free, else any

    # From the environment and flags alone.
    home: str = ""
    only: str = ""
    scenario: str = ""
    project: str = ""


class Loaded(Struct, frozen=True, kw_only=True):
    """Settings, what the user should know about them, and where each key came from."""

    settings: Settings
    notices: tuple[str, ...] = ()
    sources: dict[str, str] = {}
    project_file: str = ""


TYPES: dict[str, Any] = {field.name: field.type for field in fields(Settings)}
NOT_IN_FILES = frozenset(("home", "only", "scenario", "project"))
FILE_KEYS = tuple(name for name in TYPES if name not in NOT_IN_FILES)


def seconds(value: str | float) -> float:
    """Seconds of `90`, `"90s"`, `"5m"`, `"1h30m"`, `"2d"`. Raises ValueError."""
    if isinstance(value, bool):
        raise ValueError("a duration is expected")
    if isinstance(value, int | float):
        return positive(float(value))
    if re.fullmatch(r"\d+(\.\d+)?", value, re.ASCII):
        return positive(float(value))
    if not re.fullmatch(r"(\d+(\.\d+)?[smhd])+", value, re.ASCII):
        raise ValueError(f"{value!r} is no duration: write 90, 90s, 5m or 1h30m")
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    return positive(sum(float(n) * units[u] for n, u in re.findall(r"(\d+(?:\.\d+)?)([smhd])", value)))


def positive(number: float) -> float:
    if not (math.isfinite(number) and number > 0):
        raise ValueError("it must be more than 0")
    return number
