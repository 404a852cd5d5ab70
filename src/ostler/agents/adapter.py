"""What an adapter is: a frozen description of an agent, with its launch function and its reader of records.

Pure: no I/O, no clock, no environment. An adapter cannot hold watchdogs, retries or rendering;
those live in `work`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from ostler.access import Access
from ostler.agents.reader import Reader
from ostler.agents.values import Record
from ostler.model import Host, Launch, Turn

if TYPE_CHECKING:
    from ostler.agents.dialog import DialogFace
    from ostler.agents.hooks import HookFace
    from ostler.agents.tui import TuiFace


class Conversation(Struct, frozen=True, kw_only=True):
    """A conversation that the CLI keeps by itself and that ostler can adopt."""

    id: str
    folder: str = ""
    title: str = ""


class OwnSandbox(Struct, frozen=True, kw_only=True):
    """The sandbox of a CLI's own that keeps it to an access on Linux, and how to try it without a model."""

    check: tuple[str, ...]  # ends with 0 where it works; "" stands for the agent's own command; () if there is none
    programs: tuple[str, ...] = ()  # programs that have to be on PATH
    needs: str = ""  # what to do where it does not work
    keeps: tuple[Access, ...] = ()  # accesses that it keeps: it cannot start behind a wall, so these have none


class State(Struct, frozen=True, kw_only=True):
    """What an agent writes outside of its folder, and how it gets on behind a wall. Paths are relative to HOME.

    A shadow is a throw-away folder in the place of the agent's own one: links to what is there, so that it can be read
    and not changed. Landlock knows no exception within what may be written, and in most of these folders a command
    could plant settings, hooks or programs for the next turn.
    """

    kept: tuple[str, ...] = ()  # folders of conversations: made if missing, and everything in them may be changed
    fleeting: tuple[str, ...] = ()  # the same, removed after the turn; `{session}` is the id of its conversation
    edited: tuple[str, ...] = ()  # files that are changed in place: databases; made if missing
    oauth: tuple[str, ...] = ()  # files that may be changed in place if they hold a login that is renewed
    shadowed: str = ""  # the folder that has a shadow; a variable of `Agent.homes` leads to it
    settings: str = ""  # the file with its settings in that folder: the shadow's has those of `Launch.settings`, too
    copied: tuple[str, ...] = ()  # names in that folder that are copied, where the others are linked
    anew: tuple[str, ...] = ()  # globs of names that the shadow leaves out: the agent makes new ones
    logins: Mapping[str, tuple[str, ...]] = {}  # files copied too → fields of each that are written back
    prepare: tuple[str, ...] = ()  # arguments of a command that makes `prepared` if missing, outside of the wall
    prepared: tuple[str, ...] = ()  # paths without which it cannot start behind a wall
    renew: tuple[str, ...] = ()  # arguments of a command that renews a login about to expire, outside of the wall
    expires: Callable[[bytes], float | None] = lambda data: None  # when the login in the first of `login_files` expires

    @property
    def is_known(self) -> bool:
        return bool(self.kept or self.edited)


class Agent(Struct, frozen=True, kw_only=True):
    """One coding agent: what to run and how to read it."""

    name: str
    title: str
    description: str = ""  # one line for people, where there is more to say than the title does
    binaries: tuple[str, ...]  # names to look for on PATH, first found wins
    module: str = ""  # the module of ostler's own that is the agent, instead of a binary
    monogram: str = ""  # two letters for the page; empty: the first two of its name
    hue: int | None = None  # 0 to 360: its colour on the page
    install: str  # the command a person types to install it
    launch: Callable[[Turn, Host], Launch]
    reader: Callable[[Turn], Reader]

    models: tuple[str, ...] = ()  # glob patterns of model names that mean this agent
    other_models: tuple[str, ...] = ()  # glob patterns of names that fit `models` and mean another agent
    probed: bool = True  # it answers --version and the arguments of `help`; if not, nothing is asked of it
    needs: tuple[str, ...] = ()  # flags without which no launch is possible; probed in the help texts
    tested: tuple[str, str] | None = None  # the oldest and the newest version that `make test-versions` runs
    help: tuple[tuple[str, ...], ...] = (("--help",),)  # argument lists whose output tells the flags
    env: tuple[str, ...] = ()  # glob patterns of variables that pass through to this agent
    drop: tuple[str, ...] = ()  # variables that must not reach it
    nested: tuple[str, ...] = ()  # variables that tell a program that it runs inside this agent: no agent gets them
    keys: tuple[str, ...] = ()  # variables that hold a key: one of them set is a login
    login_files: tuple[str, ...] = ()  # relative to HOME: one of them existing is a login
    login_command: str = ""  # what a person runs to log in
    homes: Mapping[str, str] = {}  # a variable → the folder of HOME that its value stands for, "" being HOME itself
    private: tuple[str, ...] = ()  # further paths of HOME that hold its logins or settings
    state: State | None = None  # what it needs behind a wall; None: it is not put behind one
    login_elsewhere: bool = False  # it may also be logged in where ostler cannot look (keychain, config)
    sandbox: OwnSandbox | None = None
    programs: tuple[str, ...] = ()  # helper programs: a launch under `write` is told which are there (bwrap …)
    folder_names: tuple[str, ...] = ()  # names in the folder, or paths: a launch is told which are there
    # Files and folders of a project that can make it run or send something. They count once the user trusts them.
    project_config: tuple[str, ...] = ()  # looked for from the folder up to the git root
    without_git: bool = False  # outside of git they are looked for in every folder above, too
    project_config_above: tuple[str, ...] = ()  # looked for in every folder above, too
    installs: tuple[str, ...] = ()  # packages that it installs there itself: nobody is asked to trust these
    guards: tuple[str, ...] = ()  # further names and globs that no edit under `write` may change
    left_out: str = ""  # how `project_config` is left out until it is trusted, for the docs
    # Where a launch leaves out the settings in a folder, its instructions are handed over as a system prompt.
    instructions: tuple[tuple[str, ...], ...] = ()  # of each group the first file that exists is used
    passes_over: Callable[[Turn, Host], bool] = lambda turn, host: not host.trusted  # the folder's settings
    prompt_limit: int | None = None  # bytes of prompt the CLI takes

    access: Mapping[Access, str] = {}  # by which flags, for the docs
    unconfined: Mapping[Access, str] = {}  # what that access does not confine, for the docs
    unpromised: Mapping[Access, str] = {}  # an access that it cannot keep, and why: refused unless accepted
    tools: Mapping[str, tuple[str, ...]] = {}  # ostler's word for a tool → the agent's names, or globs of them
    own_tools: tuple[str, ...] = ()  # those that fit none of ostler's words
    # Abilities, for the table in the README and for checks before a launch.
    resumes: bool = True
    forks: bool = False
    chooses_id: bool = False
    schema: Literal["native", "extracted"] = "extracted"
    system: Literal["flag", "file", "prompt"] = "prompt"
    replaces_system: bool = False  # a system prompt can stand instead of its own
    tool_lists: bool = False
    images: Literal["native", "path", "no"] = "path"
    deltas: bool = False
    tokens: bool = True
    cost: bool = False
    mcp: tuple[str, ...] = ()  # the transports of MCP servers that a turn of one process takes
    recalls_plan: bool = False  # its records tell changes of a to-do list that lasts for the conversation

    dialog: "DialogFace | None" = None  # one process for many turns, where the agent can
    in_terminal: Callable[[Turn, Host], Launch] | None = None  # one turn in a terminal that people watch
    flags_at: int | None = None  # where in its argv further flags stand, before its own, which count; None: nowhere
    refused_flags: tuple[str, ...] = ()  # those that would widen an access, or change what ostler reads
    hooks: "HookFace | None" = None  # it calls back while it works, where its launch is given a callback
    tui: "TuiFace | None" = None  # its own screen in a terminal, where ostler knows it
    one_shot: bool = True  # it has turns of one process each; if not, dialogs carry all of them

    # Adoption: globs under HOME, and a pure look at one file's path and first records.
    conversations: tuple[str, ...] = ()
    conversation: Callable[[str, Sequence[Record]], Conversation | None] | None = None


def located(agent: Agent, path: str, home: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Where the agent has what by default lies at a path of HOME: a folder, and the path within it."""
    for variable, folder in agent.homes.items():
        if environ.get(variable) and (not folder or path.startswith(f"{folder}/")):
            return environ[variable], path.removeprefix(f"{folder}/")
    return home, path


def state_path(agent: Agent, path: str, home: str, environ: Mapping[str, str]) -> str:
    """The absolute path of what by default lies at a path of HOME, be it one of the agent's folders itself."""
    base, rest = located(agent, f"{path}/", home, environ)
    return f"{base}/{rest}".rstrip("/")


def tool_names(agent: Agent, words: Sequence[str]) -> tuple[str, ...]:
    """The agent's own names for ostler's words; names that are not such words pass as they are."""
    return tuple(name for word in words for name in agent.tools.get(word, (word,)))
