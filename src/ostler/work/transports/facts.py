"""What is true of each transport: whoever treats one otherwise than another asks for a fact, not for its name."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from ostler.model import Host, Launch, TransportName, Turn

if TYPE_CHECKING:
    from ostler.agents import Agent


# Those that a turn can ask for, and those of a command: in its own terminal, or nothing at all to run.
AnyTransport = TransportName | Literal["terminal", "nothing"]


class TransportFacts(Struct, frozen=True, kw_only=True):
    """A transport. What an agent has to have for it, and what is said of one that lacks it, are of those for turns."""

    has: "Callable[[Agent], bool]" = lambda agent: False
    lacks: str = ""  # with the name of the `{agent}`
    instead: str = ""  # with the names of those that are `{able}`
    own_launch: "Callable[[Agent], Callable[[Turn, Host], Launch] | None]" = lambda agent: None  # of its own command
    starts_process: bool = True
    keeper: str = ""  # which of the `Keepers` keeps its process for the session's next turns
    can_be_warm: bool = False  # such a process can be started before its session comes
    survives: bool = False  # its turns go on when ostler ends, and another process of ostler takes them up
    is_dialog: bool = False  # by a protocol the agent tells and asks by itself, takes MCP servers, and can be steered
    has_own_screen: bool = False  # of the agent
    has_own_terminal: bool = False  # so that what its turns say is not drawn in one
    needs_hooks: bool = False  # nothing else tells how a turn ends
    asks_people: bool = False  # what the agent asks of its own accord is put to them
    can_be_recorded: bool = False  # the output of one process is what one turn said

    @property
    def stays(self) -> bool:
        """One process serves many turns: what holds for one of them alone cannot be in its flags."""
        return bool(self.keeper)


TRANSPORT_FACTS: dict[AnyTransport, TransportFacts] = {
    "pipe": TransportFacts(
        has=lambda agent: agent.one_shot,
        lacks="{agent} can only run in dialogs",
        instead="Agents that run without a dialog: {able}",
        can_be_recorded=True,
    ),
    "dialog": TransportFacts(
        has=lambda agent: agent.dialog is not None,
        lacks="{agent} does not support dialogs",
        instead="Agents that do: {able}",
        keeper="dialogs",
        can_be_warm=True,
        is_dialog=True,
        asks_people=True,
    ),
    "visible": TransportFacts(
        has=lambda agent: agent.in_terminal is not None,
        lacks="{agent} cannot run with --visible",
        instead="Agents that can: {able}",
        own_launch=lambda agent: agent.in_terminal,
        has_own_terminal=True,
        needs_hooks=True,
    ),
    "pty": TransportFacts(
        has=lambda agent: agent.tui is not None,
        lacks="ostler does not know the screen of {agent}",
        instead="Agents that can be run in their own screen: {able}",
        keeper="tuis",
        can_be_warm=True,
        has_own_screen=True,
        has_own_terminal=True,
        asks_people=True,
    ),
    "tmux": TransportFacts(
        has=lambda agent: agent.tui is not None or agent.one_shot,
        lacks="{agent} can only be run in a dialog, not in a pane",
        instead="Use --dialog",
        keeper="panes",
        survives=True,
        has_own_screen=True,
        has_own_terminal=True,
        asks_people=True,
    ),
    "terminal": TransportFacts(has_own_terminal=True),
    "nothing": TransportFacts(starts_process=False),
}
