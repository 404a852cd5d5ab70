"""What terminals need of the process that they live in. Imports little: every turn has a terminal."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from ostler.process import Warden
from ostler.store import Store
from ostler.work.turns.setup import Setup
from ostler.work.turns.unwritten import Unwritten

if TYPE_CHECKING:
    from ostler.terminal.screen.screens import Screens
    from ostler.work.terminals.terminal import Source


class TerminalContext(Struct, frozen=True):
    store: Store
    owner: str  # this process's id as an owner
    home: str  # the user's
    setup_in: Callable[[str], Setup]  # what holds in a folder
    warden: Callable[[], Awaitable[Warden]]
    screens: "Callable[[], Screens]"  # started when somebody looks
    unwritten: Unwritten
    end_orphaned: Callable[[], Awaitable[object]]  # ends what dead processes left
    of_turns: "dict[str, Source]"  # what the turns of this process say, by terminal
