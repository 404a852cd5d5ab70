"""The one place that knows all transports, and chooses among them."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from ostler.agents import Agent
from ostler.agents.dialog import DialogFace
from ostler.errors import OstlerError
from ostler.model import TransportName
from ostler.process import Warden
from ostler.work.transports.keepers import Keepers
from ostler.work.transports.transport import AnyTransport, Transport

if TYPE_CHECKING:
    from ostler.agents.tui import TuiFace
    from ostler.work.forward.sender import Sender
    from ostler.work.hooks.callbacks import Callbacks
    from ostler.work.terminals.terminals import Terminals
    from ostler.work.transports.transport import Attempt, Carried, TurnContext
    from ostler.work.transports.visible import VisibleTransport


class TransportResources(Struct, frozen=True, kw_only=True):
    """What transports work with: one for all turns of an ostler process."""

    warden: Callable[[], Awaitable[Warden]]
    keepers: Keepers
    callbacks: "Callable[[], Callbacks]"
    sender: "Callable[[], Sender]"
    terminals: "Callable[[], Terminals]"
    visible: "Callable[[], VisibleTransport]"


# Imported when first used: a turn in a process of its own needs nothing of terminals.
def _pipe(services: TransportResources) -> Transport:
    from ostler.work.transports.pipe import PipeTransport

    return PipeTransport(services.warden)


def _dialog(services: TransportResources) -> Transport:
    return services.keepers.dialogs


def _pty(services: TransportResources) -> Transport:
    return services.keepers.tuis


def _tmux(services: TransportResources) -> Transport:
    return services.keepers.panes


def _terminal(services: TransportResources) -> Transport:
    from ostler.work.transports.terminal import TerminalTransport

    return TerminalTransport(services.terminals())


def _visible(services: TransportResources) -> Transport:
    return services.visible()


def _nothing(services: TransportResources) -> Transport:
    from ostler.work.transports.nothing import NothingTransport

    return NothingTransport()


TRANSPORTS: dict[AnyTransport, Callable[[TransportResources], Transport]] = {
    "pipe": _pipe,
    "dialog": _dialog,
    "visible": _visible,
    "pty": _pty,
    "tmux": _tmux,
    "terminal": _terminal,
    "nothing": _nothing,
}


def transport_of(name: AnyTransport, services: TransportResources) -> Transport:
    return _Alone(TRANSPORTS[name](services), partial(services.keepers.close, but=name))


class _Alone:
    """A transport, once what another one keeps for the session is closed: one process at a time has a conversation."""

    def __init__(self, transport: Transport, close_others: Callable[[str], Awaitable[None]]) -> None:
        self._transport, self._close_others = transport, close_others

    async def run(self, attempt: "Attempt", context: "TurnContext") -> "Carried":
        await self._close_others(attempt.turn.session)
        return await self._transport.run(attempt, context)


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
        raise OstlerError("unsupported", f"{server.name} can only run in dialogs", f"Agents that have a pipe: {able}")
    if name == "dialog" and server.dialog is None:
        able = ", ".join(agent.name for agent in agents if agent.dialog)
        raise OstlerError("unsupported", f"{server.name} does not support dialogs", f"Agents that do: {able}")
    if name == "visible" and server.in_terminal is None:
        able = ", ".join(agent.name for agent in agents if agent.in_terminal)
        raise OstlerError("unsupported", f"{server.name} does not support visible turns", f"Agents that do: {able}")
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
