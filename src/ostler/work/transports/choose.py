"""The one place that chooses among the transports."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, get_args

from ostler.agents import Agent
from ostler.agents.dialog import DialogFace
from ostler.errors import OstlerError
from ostler.model import TransportName
from ostler.work.transports.facts import TRANSPORT_FACTS, AnyTransport

if TYPE_CHECKING:
    from ostler.agents.tui import TuiFace


def choose_transport(wanted: TransportName, named: Agent, server: Agent, agents: Iterable[Agent]) -> TransportName:
    """How a turn of the agent `named` is run, which `server` serves. Raises unsupported.

    An agent that has no process for one turn alone is run in a dialog; `agents` are named where this one cannot.
    """
    name: TransportName = "dialog" if wanted == "pipe" and not (named.one_shot and server.one_shot) else wanted
    check_transport(name, server, agents)
    return name


def check_transport(name: TransportName, server: Agent, agents: Iterable[Agent]) -> None:
    """Raises `unsupported`, with those that have it, where this agent lacks the transport."""
    facts = TRANSPORT_FACTS[name]
    if not facts.has(server):
        able = ", ".join(agent.name for agent in agents if facts.has(agent))
        raise OstlerError("unsupported", facts.lacks.format(agent=server.name), facts.instead.format(able=able))


def transports_of(agent: Agent) -> tuple[TransportName, ...]:
    """Those that a turn of this agent can have."""
    return tuple(name for name in get_args(TransportName) if TRANSPORT_FACTS[name].has(agent))


def best_transport(server: Agent) -> TransportName:
    """For somebody who is there to answer: in a dialog the agent can ask before it acts."""
    return "dialog" if server.dialog is not None else "pipe"


def face_of(agent: Agent, transport: TransportName) -> DialogFace | None:
    """How the agent holds a dialog, where that is the transport."""
    return agent.dialog if TRANSPORT_FACTS[transport].is_dialog else None


def tui_of(agent: Agent, transport: TransportName, tmux_shows: str = "tui") -> "TuiFace | None":
    """How the agent's own screen is driven, where that is the transport; in a pane its output may be shown instead."""
    shown = transport != "tmux" or tmux_shows == "tui"
    return agent.tui if TRANSPORT_FACTS[transport].has_own_screen and shown else None


def command_transport(empty: bool, in_terminal: bool) -> AnyTransport:
    """How a command is run."""
    if empty:
        return "nothing"
    return "terminal" if in_terminal else "pipe"
