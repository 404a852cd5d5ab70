"""What can be set, as frozen structs, and how durations are written."""

import math
import re
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from ostler.access import Access
from ostler.errors import quoted
from ostler.model import HookMode, Limits, McpTransport, PlainAgent, PoolLimits, TurnDefaults


class Profile(TurnDefaults, frozen=True, kw_only=True, omit_defaults=True):
    """An agent under a name of its own. What is None or empty falls back to the settings around it."""

    agent: str = ""
    description: str = ""
    color: str = ""
    done_pattern: str = ""
    account: str = ""  # whose quota and limit its turns share; empty: the agent's
    mcp: tuple[str, ...] = ()  # names of MCP servers that go with its turns


class McpEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An MCP server under a name. It is only defined here: a turn or a profile chooses it."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    transport: McpTransport | None = None  # None: by what it has, stdio or http


Ruling = Literal["allow", "deny", "ask"]


class AskRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How asks are answered that fit all of its patterns (globs; empty fits all). The first rule that fits counts."""

    answer: Ruling
    agent: str = ""
    tool: str = ""  # the agent's own name of a tool, or ostler's word (shell, edit, web …)
    command: str = ""  # of a shell tool; an allowed command must be a plain one, without `;`, `|`, `$(…)` …
    path: str = ""  # of the files it is about, relative to the folder


class TokenSource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token for somebody else: as it stands, in a variable, or printed by a command. None of them: none is sent."""

    token: str = ""
    token_env: str = ""
    token_command: tuple[str, ...] = ()
    allow_private: bool = False  # the address may be one of this machine, or of a private network


class Forward(TokenSource, frozen=True, kw_only=True, omit_defaults=True):
    """A backend that is told what happens."""

    url: str = ""  # its `/api/sessions/ID/events` is posted to; empty: nobody is told
    what: tuple[Literal["hooks", "results", "journal"], ...] = ("hooks", "results")
    wait: float = 60.0  # longest wait, in seconds, of a turn with wait_for=forwarded


class Notify(TokenSource, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody who is told when a person is needed: by a command, or by a POST."""

    on: tuple[Literal["asked", "ended", "failed"], ...] = ("asked", "ended", "failed")
    command: tuple[str, ...] = ()  # gets JSON on stdin
    url: str = ""
    shape: Literal["json", "ntfy", "slack"] = "json"


class SharedSpending(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Dollars of all machines together."""

    day: float | None = None  # of all turns together
    profiles: dict[str, float] = {}  # a profile, or an agent → of its turns


class Spending(SharedSpending, frozen=True, kw_only=True, omit_defaults=True):
    """Dollars after which no further turn begins on the same day. Turns of which no cost is known count nothing."""

    shared: SharedSpending = SharedSpending()


class ScheduleEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pipeline that `ostler up` runs at the times of a cron line, by the clock on the wall."""

    cron: str
    pipeline: str  # a file, from the folder on, or an example
    folder: str
    inputs: dict[str, str] = {}


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
    agents: dict[str, PlainAgent] = {}  # a name → a command line that works as an agent
    mcp: dict[str, McpEntry] = {}  # a name → an MCP server that turns can be given
    state: str = "user"  # "user", "project" or a path
    ttl_days: float = 30.0
    config: Literal["user", "private"] = "user"
    lean: bool = False
    hooks: HookMode | None = None  # agents' hooks call ostler back; None: in their own screens alone
    agent_flags: dict[str, tuple[str, ...]] = {}  # agent → further flags of its CLI
    forward: Forward = Forward()
    notify: tuple[Notify, ...] = ()
    asks: tuple[AskRule, ...] = ()  # answered without a person; the first that fits
    ask_limit: float | None = 300.0  # seconds after which an ask is denied
    dialog_idle: float = 300.0  # seconds after which a dialog that nobody uses is closed
    dialog_receipt: float = 30.0  # seconds in which it must take a prompt up
    tui_idle: float = 1800.0  # seconds after which an agent's own screen that no turn uses is closed
    tui_start: float = 60.0  # seconds in which it must be ready for a prompt
    tui_receipt: float = 15.0  # seconds in which it must show a prompt, and then take it up
    tmux: Literal["own", "user"] = "own"  # whose server panes are made in
    tmux_shows: Literal["tui", "output"] = "tui"  # in a pane: the agent's own screen, or a command's output
    loose: tuple[str, ...] = ()  # agents whose access may be wider than it says (see `Agent.unpromised`)
    walls: Literal["auto", "off", "required"] = "auto"  # around turns, where the kernel can build them
    wall_paths: tuple[str, ...] = ()  # further paths that can be written behind a wall
    wall_sockets: tuple[str, ...] = ()  # agents (or exec) that may open unix sockets behind a wall
    read_secrets: bool = True  # whether keys, logins of others and browser profiles can be read behind a wall
    terminals: int = 10  # that may live at once in a session
    recording_mb: float = 64.0  # what the recording of a terminal may take on disk
    schedules: dict[str, ScheduleEntry] = {}  # a name → a pipeline that the server runs at certain times
    pool: PoolLimits = PoolLimits()  # how many turns may run at once
    spending: Spending = Spending()  # after which no further turn begins
    delegation_depth: int = 2  # how deep turns may be nested that agents begin through `ostler mcp`; 0: none
    port: int = 0  # of the server; 0: the last one if it is free, else any

    # From the environment and flags alone.
    home: str = ""
    only: str = ""
    scenario: str = ""
    profile_files: dict[str, str] = {}  # a profile → the file that has it

    @property
    def own_tokens(self) -> tuple[str, ...]:
        """Secrets that the settings themselves hold."""
        return tuple(each.token for each in (self.forward, *self.notify) if each.token)


class Loaded(Struct, frozen=True, kw_only=True):
    """Settings, what the user should know about them, and where each key came from."""

    settings: Settings
    notices: tuple[str, ...] = ()
    folder_notices: tuple[str, ...] = ()  # those of them that are about the folder's own file
    sources: dict[str, str] = {}


TYPES: dict[str, Any] = {field.name: field.type for field in fields(Settings)}
NOT_IN_FILES = frozenset(("home", "only", "scenario", "profile_files"))
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
        raise ValueError(f"{quoted(value)} is not a valid duration: write 90, 90s, 5m or 1h30m")
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    return positive(sum(float(n) * units[u] for n, u in re.findall(r"(\d+(?:\.\d+)?)([smhd])", value)))


def positive(number: float) -> float:
    if not (math.isfinite(number) and number > 0):
        raise ValueError("it must be more than 0")
    return number
