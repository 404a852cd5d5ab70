"""What the store keeps: sessions, turns, asks, terminals, and the processes that own them."""

from typing import Literal

from msgspec import Struct

from ostler.access import Access
from ostler.model.events import Asked
from ostler.model.pool import Claim
from ostler.model.results import Envelope, Exit
from ostler.model.turn import SystemMode, TransportName, Turn

TurnState = Literal["queued", "starting", "running", "asking", "ended"]
SessionState = Literal["idle", "queued", "busy", "asking", "closed"]
TerminalSource = Literal["pty", "turn", "tmux", "acp"]  # a program of its own; a headless turn's output; …


class AskRow(Struct, frozen=True, kw_only=True):
    """An ask as the store keeps it. Who asked is the turn that `asked` names; open while `answered_at` is None."""

    session: str
    asked: Asked
    answered_at: float | None = None
    option: str = ""  # the kind of the option that was chosen, or "cancelled"
    by: str = ""


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
    system_mode: SystemMode = "append"
    turns: int = 0
    cost_usd: float | None = None
    expires_at: float | None = None
    title: str = ""  # the first line of the first prompt
    primary: str | None = None  # the terminal that was chosen to be followed; None: the newest live one
    handed_from: str | None = None  # the session whose work it goes on with
    fork_of: str | None = None  # the agent's own id of the conversation that the first turn copies
    transport: TransportName | None = None  # of its turns; None: its profile says, else it is a pipe
    moving_to: TransportName | None = None  # the one that it gets when the turn that runs has ended

    @property
    def label(self) -> str:
        """What people call it: its name, or its id where it has none."""
        return self.name or self.id


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
    claim: Claim | None = None  # what it asks of the pool; None: nothing


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
    tui: bool = False  # it is the agent's own screen, in which turns of the session are run
    held_by: str = ""  # the person who has its keyboard
    title: str = ""  # what the program called itself
    bells: int = 0  # that it rang so far
    owner: str | None = None
    pid: int | None = None
    ended_at: float | None = None
    exit: Exit | None = None
    size: int = 0  # bytes of output, known at the end; not of a turn that is drawn for those who look
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
