"""What machines tell of themselves in the directory. Nothing of a journal, and nothing secret, is among it."""

from typing import Literal

from msgspec import Struct

from ostler.model import SessionState

ANY = "any"  # instead of a machine's name: whichever fits
MachineState = Literal["live", "draining", "unreachable", "gone"]


class MachineAgent(Struct, frozen=True, kw_only=True):
    """An agent that is installed on a machine."""

    name: str
    version: str = ""
    login: str = "unknown"


class MachineFolder(Struct, frozen=True, kw_only=True):
    """A folder that a machine has worked in. `remote` is its repository as `host/owner/name`; "" without one."""

    path: str
    remote: str = ""


class MachineLoad(Struct, frozen=True, kw_only=True):
    """What a machine does at this moment."""

    running: int = 0  # turns
    waiting: int = 0
    cpus: int = 1
    load: float = 0.0  # of the last minute
    free_memory_mb: float | None = None


class MachineFacts(Struct, frozen=True, kw_only=True):
    version: str = ""  # of ostler
    workflows: str = ""  # the version of what it does for pipelines: it goes on with runs of this one
    labels: tuple[str, ...] = ()
    folders: tuple[MachineFolder, ...] = ()
    agents: tuple[MachineAgent, ...] = ()
    load: MachineLoad = MachineLoad()


class MachineRow(Struct, frozen=True, kw_only=True):
    """A machine as the directory has it. `epoch` grows with each start: an older one must not speak for it."""

    id: str
    epoch: int
    name: str
    url: str  # where other machines reach it
    public_key: bytes
    beat: int  # grows as long as it lives
    age: float  # seconds since it was last heard of, by the clock of the directory
    joined_at: float
    draining: bool = False
    left: bool = False
    facts: MachineFacts = MachineFacts()
    lease: int = 0  # grows when its lease was ended because it was silent: what it held is no longer its own
    fenced: bool = False  # that happened, and it has not been heard of since


class SessionEntry(Struct, frozen=True, kw_only=True):
    """A session in the directory's index: enough to find it, and to list it while its machine is away."""

    machine: str
    id: str
    agent: str
    folder: str
    state: SessionState
    created_at: float
    used_at: float
    name: str | None = None
    turns: int = 0
