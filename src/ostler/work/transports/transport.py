"""The contract between a turn and what runs it: an attempt and its context go in, how it went comes out."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, structs

from ostler.agents import Agent, Reader
from ostler.agents.dialog import Dialog
from ostler.model import AnyEvent, Callback, Exit, Launch, Problem, Turn, Verdict, Wall
from ostler.process import Size
from ostler.settings import Settings
from ostler.store import Redactor
from ostler.work.transports.facts import AnyTransport
from ostler.work.transports.stop import Stop
from ostler.work.turns.artifacts import Artifacts

if TYPE_CHECKING:
    from ostler.work.hooks.hook_turn import HookTurn
    from ostler.work.walls import Enclosure

Add = Callable[[list[AnyEvent]], Awaitable[None]]
OutputSink = Callable[[str, bytes], None]  # a stream, and bytes of it
TAIL = 16 * 1024  # characters of a stream that are kept: of stderr, and of a command for its envelope


def nobody(stream: str, data: bytes) -> None:
    """For output that nobody is shown."""


class Attempt(Struct, frozen=True, kw_only=True):
    """One launch of a turn by one agent."""

    turn: Turn
    agent: Agent
    reader: Reader
    launch: Launch
    env: dict[str, str]
    served_by: str
    records_of: str  # the agent whose records come: on a cassette it may be another than the one that serves
    redactor: Redactor
    effective_turn: Turn  # the turn as the agent gets it: prompt with schema, attachments checked
    transport: AnyTransport
    dialog: Dialog | None = None  # the agent's side of the protocol, where the transport is a dialog
    trusted: bool = False  # the user trusts what the folder holds for the agent
    state: str = ""  # the state folder
    enclosure: "Enclosure | None" = None  # what its process is kept in
    callback: Callback | None = None  # where its hooks call
    adopts: tuple[AnyEvent, ...] | None = None  # what the journal has of a turn that is taken up again in its pane
    # Of a command:
    stdin: int | None = None  # a descriptor that it reads itself, instead of what the launch has for it
    shown: OutputSink | None = None  # who gets its output as it comes, masked
    size: Size | None = None  # of its terminal

    def __repr__(self) -> str:
        """Without the environment, which holds keys."""
        return f"<Attempt at turn {self.turn.id} by {self.served_by} ({self.transport})>"

    @property
    def wall(self) -> Wall | None:
        return self.enclosure.wall if self.enclosure else None

    @property
    def env_outside(self) -> dict[str, str]:
        """Its environment without its wall, which says where its state really lies: a shadow is one process's."""
        return {**self.env, **self.enclosure.outside} if self.enclosure else self.env


class TurnContext(Struct, frozen=True, kw_only=True):
    """What a transport gets of the turn that it runs."""

    add: Add  # commits events to the journal; raises OstlerError("store")
    artifacts: Artifacts
    stop: Stop
    settings: Settings  # of the turn's folder
    set_asking: Callable[[bool], Awaitable[None]]  # somebody is being asked, or no longer
    shown: OutputSink = nobody  # gets the raw output
    hooks: "HookTurn | None" = None  # what its hooks tell, where it has some

    @property
    def asking(self) -> bool:
        """A hook has put something to a person."""
        return self.hooks is not None and self.hooks.asking


class Carried(Struct, frozen=True, kw_only=True):
    """How an attempt went."""

    verdict: Verdict
    exit: Exit | None
    leaked: tuple[str, ...]
    worked: bool  # the agent did something that must not be done again by another


class Transport(Protocol):
    """Runs attempts at turns."""

    async def run(self, attempt: Attempt, context: TurnContext) -> Carried:
        """Runs the attempt to its end, or until `context.stop`; then nothing of it is left running.

        Raises OstlerError when it could not be started or its journal could not be written.
        """
        ...


def stopped_verdict(verdict: Verdict, problem: Problem) -> Verdict:
    """How a turn went that ostler ended, whatever the agent said of it then: some call that a success."""
    outcome: Any = {"cancelled": "cancelled", "timed_out": "timed_out"}.get(problem.kind, "failed")
    return structs.replace(verdict, outcome=outcome, error=problem)
