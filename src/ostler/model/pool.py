"""The pool: what a turn needs to run, who runs and who waits, and what was decided about it."""

from typing import Literal

from msgspec import Struct

PRIORITIES = (-10, 10)
COMMAND = "exec"  # what stands for the agent of a command


class Claim(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a turn asks of the pool; kept with its row."""

    agent: str = ""
    account: str = ""  # whose quota it uses: named by its profile, else the agent itself
    profile: str = ""
    folder: str = ""
    priority: int = 0
    memory_mb: float = 0.0  # what its processes are expected to take
    nested: bool = False  # begun by the agent of another turn, which waits for it: it takes no slot


class PoolTurn(Struct, frozen=True, kw_only=True):
    """A turn that runs or waits."""

    id: str
    session: str
    n: int  # in the order in which they came
    claim: Claim
    since: float  # when it came, or when it began to run
    owner: str | None = None
    runs: bool = False
    folder_served: float = 0.0  # when a turn of its folder last began; 0: not lately
    session_served: float = 0.0  # the same of its session


class SharedLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many turns may run at once on all machines that have joined each other."""

    total: int | None = None
    agents: dict[str, int] = {}
    accounts: dict[str, int] = {}
    profiles: dict[str, int] = {}


class SharedSlots(Struct, frozen=True, kw_only=True):
    """What this machine may run of the limits that hold over all machines: its server has agreed on it with the others.

    It stands in the store, where every process of the machine reads it.
    """

    held: dict[str, int] = {}  # `agent:claude` → turns
    until: float = 0.0  # from then on nothing that they count may start: others may have been given the slots
    spent: dict[str, float] = {}  # dollars of the other machines on `day`, by profile or agent
    day: str = ""


class PoolLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many turns may run at once on this machine, from all ostler processes together."""

    total: int | None = None
    agents: dict[str, int] = {}
    accounts: dict[str, int] = {}
    profiles: dict[str, int] = {}
    memory_mb: float | None = None  # what the agents may take together, by what was measured of each
    free_memory_mb: float = 256.0  # what must stay free of the machine's memory
    retries: int = 0  # of a turn whose agent's server is in trouble before anything was done
    warm: dict[str, int] = {}  # a profile or agent → dialogs and screens kept started for sessions to come
    warm_seconds: float = 600.0  # after which one that nobody took is closed
    shared: SharedLimits = SharedLimits()  # over all machines


class PoolState(Struct, frozen=True, kw_only=True):
    """All that a decision depends on."""

    now: float
    turns: tuple[PoolTurn, ...]
    limits: PoolLimits = PoolLimits()
    shared: SharedSlots | None = None  # None: this machine is alone, and only its own limits count
    parked: dict[str, float] = {}  # an account → when its quota is back
    held: dict[str, str] = {}  # a session that must not begin a turn now → why
    available_mb: float | None = None  # of the machine's memory; None: not known
    me: str | None = None  # the process that decides
    room: int | None = None  # turns for which this process has file descriptors left; None: enough
    idle: tuple["IdleProcess", ...] = ()  # what this process keeps for later


class IdleProcess(Struct, frozen=True, kw_only=True):
    """A dialog or screen that no turn uses."""

    session: str
    memory_mb: float
    since: float
    kept_until: float | None = None  # it is recycled then


WaitKind = Literal["session", "limit", "shared", "memory", "files", "quota", "held"]


class Waiting(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a turn does not run yet, and its place among those that wait."""

    turn: str
    position: int
    kind: WaitKind
    reason: str  # "claude 3/3 busy"
    until: float | None = None  # when it can begin at the earliest, where that is known


class PoolDecision(Struct, frozen=True, kw_only=True):
    """Which turns may start now, why the others wait, and which idle processes are to end (by session)."""

    start: tuple[str, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    end: tuple[str, ...] = ()
