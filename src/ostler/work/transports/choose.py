"""The one place that chooses among the transports."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ostler.agents import Agent
from ostler.agents.dialog import DialogFace
from ostler.errors import OstlerError
from ostler.model import TransportName
from ostler.work.transports.facts import AnyTransport

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
    if name == "pipe" and not server.one_shot:
        able = ", ".join(agent.name for agent in agents if agent.one_shot)
        hint = f"Agents that run without a dialog: {able}"
        raise OstlerError("unsupported", f"{server.name} can only run in dialogs", hint)
    if name == "dialog" and server.dialog is None:
        able = ", ".join(agent.name for agent in agents if agent.dialog)
        raise OstlerError("unsupported", f"{server.name} does not support dialogs", f"Agents that do: {able}")
    if name == "visible" and server.in_terminal is None:
        able = ", ".join(agent.name for agent in agents if agent.in_terminal)
        raise OstlerError("unsupported", f"{server.name} cannot run with --visible", f"Agents that can: {able}")
    if name == "pty" and server.tui is None:
        able = ", ".join(agent.name for agent in agents if agent.tui)
        message = f"ostler does not know the screen of {server.name}"
        raise OstlerError("unsupported", message, f"Agents that can be run in their own screen: {able}")
    if name == "tmux" and server.tui is None and not server.one_shot:
        raise OstlerError("unsupported", f"{server.name} can only be run in a dialog, not in a pane", "Use --dialog")


_HAS: dict[TransportName, Callable[[Agent], bool]] = {
    "pipe": lambda agent: agent.one_shot,
    "dialog": lambda agent: agent.dialog is not None,
    "visible": lambda agent: agent.in_terminal is not None,
    "pty": lambda agent: agent.tui is not None,
    "tmux": lambda agent: agent.tui is not None or agent.one_shot,
}


def transports_of(agent: Agent) -> tuple[TransportName, ...]:
    """Those that a turn of this agent can have."""
    return tuple(name for name, has in _HAS.items() if has(agent))


def best_transport(server: Agent) -> TransportName:
    """For somebody who is there to answer: in a dialog the agent can ask before it acts."""
    return "dialog" if server.dialog is not None else "pipe"


def face_of(agent: Agent, transport: TransportName) -> DialogFace | None:
    """How the agent holds a dialog, where that is the transport."""
    return agent.dialog if transport == "dialog" else None


def tui_of(agent: Agent, transport: TransportName, tmux_shows: str = "tui") -> "TuiFace | None":
    """How the agent's own screen is driven, where that is the transport; in a pane its output may be shown instead."""
    return agent.tui if transport == "pty" or (transport == "tmux" and tmux_shows == "tui") else None


def command_transport(empty: bool, in_terminal: bool) -> AnyTransport:
    """How a command is run."""
    if empty:
        return "nothing"
    return "terminal" if in_terminal else "pipe"
