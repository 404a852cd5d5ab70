"""Processes that are started before their sessions come: which there are, and whose they become.

What a spare is, a dialog or an agent's own screen, is its keeper's business; how many there are to be is said by
`sessions/warm.py`.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from msgspec import Struct

from ostler.access import Access
from ostler.model import TransportName, Turn
from ostler.store.files import turn_path
from ostler.work.transports.stop import Stop
from ostler.work.transports.transport import Attempt
from ostler.work.turns.artifacts import remove_files

LONG_AGO = 1e-9  # a spare was last used then: it is closed before all that somebody has used


class WarmKeeper(Protocol):
    """Who keeps processes of one transport, and can start one before its session comes."""

    async def warm(self, attempt: Attempt, folder: str, seconds: float, stop: Stop) -> None:
        """Starts it for the session of this attempt, and closes it after this time, unless a turn uses it. Raises why
        it cannot. `folder` is that of the attempt, which is no turn: `remove_spare_folder` once it is closed.
        """
        ...

    def holds(self, session: str) -> bool: ...


class SpareKind(Struct, frozen=True):
    """What a new session must have in common with a spare. What else its turns want may still not fit."""

    who: str  # the profile; without one, the agent
    folder: str
    access: Access

    @classmethod
    def of(cls, turn: Turn) -> "SpareKind":
        return cls(turn.profile or turn.agent, turn.folder, turn.access)


class Spares:
    """Those of one ostler process, of all transports that have some."""

    def __init__(self, keeper: Callable[[TransportName], WarmKeeper]) -> None:
        self._keeper = keeper
        self._turns: dict[str, Turn] = {}  # by the session to come: what it was started for
        self.starting = asyncio.Lock()  # one after the other

    async def start(self, attempt: Attempt, seconds: float, stop: Stop) -> None:
        """Raises why it cannot be started."""
        turn = attempt.turn
        folder = turn_path(attempt.state, turn.session, turn.id)
        try:
            await self._keeper(turn.transport).warm(attempt, folder, seconds, stop)
        except BaseException:
            remove_spare_folder(folder)
            raise
        self._turns[turn.session] = turn

    def find(self, kind: SpareKind, transport: TransportName | None = None) -> list[str]:
        """The sessions to come of this kind, the oldest first; None: whatever their transport is."""
        self._turns = {id: turn for id, turn in self._turns.items() if self._keeper(turn.transport).holds(id)}
        fit = {id: turn for id, turn in self._turns.items() if SpareKind.of(turn) == kind}
        return [id for id, turn in fit.items() if transport in (None, turn.transport)]

    def take(self, kind: SpareKind, transport: TransportName | None = None) -> str | None:
        """The id of such a session to come, which is the caller's from now on."""
        found = self.find(kind, transport)
        if found:
            del self._turns[found[0]]
        return found[0] if found else None


def remove_spare_folder(folder: str) -> None:
    """Removes what a spare was prepared with, and its session's folder where nothing else is in it."""
    remove_files((folder,))
    session = os.path.dirname(folder)
    with suppress(OSError):  # its session came, and has something there
        with suppress(FileNotFoundError):  # a dialog has no terminal
            os.rmdir(os.path.join(session, "terminals"))
        os.rmdir(session)
