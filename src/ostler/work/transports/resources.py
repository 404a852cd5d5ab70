"""What transports are made of, and the one place that makes them all."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from ostler.process import Warden
from ostler.work.transports.facts import AnyTransport
from ostler.work.transports.keepers import Keepers
from ostler.work.transports.transport import Attempt, Carried, Transport, TurnContext

if TYPE_CHECKING:
    from ostler.work.forward.sender import Sender
    from ostler.work.hooks.callbacks import Callbacks
    from ostler.work.terminals.terminals import Terminals
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

    async def run(self, attempt: Attempt, context: TurnContext) -> Carried:
        await self._close_others(attempt.turn.session)
        return await self._transport.run(attempt, context)
