"""What is asked for: a turn, its options, and how an agent is launched for it."""

from typing import Any, Literal

from msgspec import Struct

from ostler.access import Access

TransportName = Literal["pipe", "dialog", "visible", "pty", "tmux"]
# What a person is told of a session that has one of them.
TRANSPORT_MEANS: dict[TransportName, str] = {
    "pipe": "each of its turns has a process of its own",
    "dialog": "one process serves its turns, and can ask",
    "visible": "its turns run as a command in a terminal",
    "pty": "its turns run in the agent's own screen",
    "tmux": "its turns run in a pane of tmux",
}
McpTransport = Literal["stdio", "http", "sse"]
SystemMode = Literal["append", "replace"]  # to the agent's own system prompt, or instead of it
WaitFor = Literal["ended", "forwarded"]
HookMode = bool | Literal["ask"]  # "ask": a tool call that a hook tells of waits for a rule or a person
MAX_PROMPT = 64 * 1024 * 1024  # bytes, where the agent has no limit of its own
# What a tool does, in one word for all agents: in rules, lists of tools, views. Others keep their agent's own name.
TOOL_WORDS = ("shell", "read", "edit", "write", "search", "web", "mcp", "plan", "agent")


class Attachment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file or image that goes with a prompt: by path, or inline `content` under a `name`."""

    path: str = ""
    name: str = ""
    content: str | None = None
    type: str = ""  # of a file: its media type, such as image/png; empty: what its first bytes say
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
    transport: McpTransport = "stdio"
    headers: dict[str, str] = {}


class PlainAgent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command line that works as an agent. In its arguments `{prompt}`, `{prompt_file}`, `{model}` and `{folder}`
    stand for those of a turn; where neither of the first two is named, the prompt goes to stdin.
    """

    command: tuple[str, ...]
    title: str = ""
    description: str = ""
    proof: Literal["exit", "pattern"] | None = None  # None: "pattern" where there is one, else "exit"
    done_pattern: str = ""  # a line of stdout that matches it says that the work is done
    models: tuple[str, ...] = ()  # globs of model names that mean this agent
    env: dict[str, str] = {}
    env_pass: tuple[str, ...] = ()  # globs of variables that pass to it


class TurnDefaults(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Options that may hold for many turns: of a profile, or of a session as it was opened. None: not said.

    The `first_` lists hold for the first turn of a session, instead of the others. An empty list is no list.
    """

    access: Access | None = None
    model: str | None = None
    system: str | None = None
    system_mode: SystemMode | None = None
    tools_allowed: tuple[str, ...] | None = None
    tools_denied: tuple[str, ...] | None = None
    first_tools_allowed: tuple[str, ...] | None = None
    first_tools_denied: tuple[str, ...] | None = None
    env: dict[str, str] | None = None  # variables that the agent gets besides
    limits: Limits | None = None
    fallback: tuple[str, ...] | None = None  # who takes the turn if the agent cannot begin it, or its quota ends
    mcp: tuple[McpServer | str, ...] | None = None  # a name is one of the settings
    hooks: HookMode | None = None  # the agent's hooks call ostler back
    agent_flags: tuple[str, ...] | None = None  # further flags of the agent's CLI: `--name` or `--name=value`
    transport: TransportName | None = None  # None: a process of its own, where the agent has that
    priority: int | None = None  # among turns that wait, from -10 to 10; None: 0


# The options that a session is opened with, and keeps. Its turns may say otherwise.
OF_SESSION = ("access", "model", "system", "system_mode")


class TurnOptions(TurnDefaults, frozen=True, kw_only=True, omit_defaults=True):
    """All options of a turn. Every door has them: command line, HTTP, ACP, Python and profiles.

    What is None falls back to the session, its profile, the settings.
    """

    attachments: tuple[Attachment | str, ...] = ()  # a text is a path
    schema: dict[str, Any] | None = None  # the answer is JSON that matches it
    command: bool = False  # the prompt is a slash command of the agent, not text
    mode: str | None = None  # one of the agent's own, in a dialog
    wait_for: WaitFor | None = None  # "forwarded": its handle is done once the backend has taken the result


StepStatus = Literal["pending", "active", "done"]


class PlanStep(Struct, frozen=True, kw_only=True):
    text: str
    status: StepStatus = "pending"
    id: str = ""  # the agent's own, where its steps have one


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
    system_mode: SystemMode = "append"
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
    transport: TransportName = "pipe"
    mode: str | None = None  # one of the agent's own, in a dialog; None: the one that its access begins with
    mcp: tuple[McpServer, ...] = ()
    hooks: HookMode | None = None  # None: nobody said anything
    agent_flags: tuple[str, ...] = ()
    wait_for: WaitFor = "ended"
    priority: int = 0  # among turns that wait
    asked_by: str | None = None  # the turn whose agent began it
    depth: int = 0  # how many turns stand above it, each begun by the agent of the one before
    done_pattern: str = ""  # without a line that matches it, a turn is not ok
    plan: tuple[PlanStep, ...] = ()  # the agent's to-do list before; for its adapter alone, never stored
    walled: bool = False  # the kernel keeps it, and all that it starts, to its access; for its adapter alone, as well


class Callback(Struct, frozen=True, kw_only=True):
    """Where the hooks of one launch call ostler: the token alone says which turn they belong to."""

    url: str  # on loopback
    token: str
    python: str  # the interpreter that a command hook is run with
    decides: bool = False  # a hook before a tool call is waited for, since it may be denied
    asks: bool = False  # a person decides about it, and without an answer it is denied
    patience: float | None = None  # seconds that it may take; None: as long as somebody thinks about it
    api_url: str = ""  # of the server, where one runs the turn
    # Pid and start time of the ostler that listens there, where an agent may outlive it: nobody else is called.
    listener: tuple[int, int] | None = None


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
    levels: tuple[str, ...] = ()  # the folder and those above it, up to the git root
    project_config: tuple[str, ...] = ()  # what is there of Agent.project_config, by path
    trusted: bool = False  # the user trusts all of that, as it is now
    callback: Callback | None = None  # where hooks call, if the turn has them

    @property
    def untrusted(self) -> bool:
        """The folder holds settings for the agent that must not count."""
        return bool(self.project_config) and not self.trusted


class Launch(Struct, frozen=True, kw_only=True):
    """argv, stdin, environment and private files for one turn."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    env: dict[str, str] = {}  # added to the allow-listed environment
    default_env: dict[str, str] = {}  # likewise, unless the environment sets them itself
    files: dict[str, bytes] = {}  # absolute path under Host.private → content; 0600, removed after the turn
    folder_files: dict[str, str] = {}  # name in the folder → content; O_EXCL, removed after the turn
    settings: dict[str, Any] = {}  # added to the agent's own, in a shadow of its state folder
    notices: tuple[str, ...] = ()  # what the user should know (e.g. what this access does not confine)


class Enforcement(Struct, frozen=True, kw_only=True):
    """By what an agent is kept to an access on this machine; `denied`: by nothing, so that it is refused."""

    by: Literal["wall", "sandbox", "flags", "denied"]
    why: str = ""  # there is no wall


class Wall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process, and all that it starts, is kept to by the kernel. Paths are absolute; all else is read-only."""

    writable: tuple[str, ...] = ()  # folders in which everything may be changed, and files
    editable: tuple[str, ...] = ()  # what exists there may be changed in place, nothing made or removed
    readable: tuple[str, ...] | None = None  # None: everything
    sockets: bool = False  # whether it may open unix sockets
