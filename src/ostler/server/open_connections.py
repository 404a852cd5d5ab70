"""Who has which connection open, so that it ends with the login that opened it.

Whatever comes in by a login is known here from the moment it is let in: WebSockets, streams, uploads and downloads,
requests that wait. When the login is over they are ended; a change that has arrived whole is carried out.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from ostler.server.auth import SignedLogin

GOING_AWAY, LOGGED_OUT = 1001, 4401  # codes of a WebSocket's close

Task = asyncio.Task[Any]


class OpenConnection:
    def __init__(self, kind: str) -> None:
        self.kind = kind  # http or websocket
        self.login: SignedLogin | None = None  # by which it came in, once that is known
        self.stays = False  # a WebSocket or an event stream that has begun
        self.is_change = False  # has arrived whole, and changes something: it is not broken off halfway
        self.ended: int | None = None  # the code by which we end it


class OpenConnections:
    """Each connection is one task. Ending it is to cancel the task, which says goodbye by the code given here."""

    def __init__(self) -> None:
        self._open: dict[Task, OpenConnection] = {}

    def add(self, task: Task, kind: str) -> OpenConnection:
        self._open[task] = OpenConnection(kind)
        return self._open[task]

    def remove(self, task: Task) -> None:
        self._open.pop(task, None)

    def count(self, kind: str) -> int:
        """How many WebSockets (`websocket`) or streams (`http`) are open."""
        return sum(each.stays and each.kind == kind for each in self._open.values())

    @property
    def logged_in(self) -> int:
        return sum(each.login is not None for each in self._open.values())

    def end_all(self) -> None:
        """The server stops: every WebSocket and every stream ends."""
        self._end((task for task, each in self._open.items() if each.stays), GOING_AWAY)

    def end_logins(self, is_good: Callable[[SignedLogin], bool]) -> None:
        """Ends what was opened by logins that are not good any more."""
        held = [(task, each.login) for task, each in self._open.items() if not each.is_change]
        self._end((task for task, login in held if login is not None and not is_good(login)), LOGGED_OUT)

    def _end(self, tasks: Iterable[Task], code: int) -> None:
        for task in list(tasks):
            if self._open[task].ended is None:
                self._open[task].ended = code
                task.cancel()
