"""What sessions need of the process that they live in."""

from collections.abc import Callable

from msgspec import Struct

from ostler.store import Store
from ostler.work.terminals.context import TerminalContext
from ostler.work.transports.resources import TransportResources
from ostler.work.turns.control import TurnControl
from ostler.work.turns.live_turns import Turns
from ostler.work.turns.setup import Setup


class SessionContext(Struct, frozen=True):
    store: Store
    owner: str  # this process's id as an owner
    setup_in: Callable[[str], Setup]  # what holds in a folder
    start_warden: Callable[[], object]  # early, while the turn is still being prepared
    services: TransportResources
    turns: Turns
    control: TurnControl
    terminal: TerminalContext
    warms: bool = False  # it stays long enough to keep agents started for sessions to come
