"""What of one turn is told to others: rows of the outbox, and waiting for them where that is wanted."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import AnyEvent, Envelope, Session, Turn, TurnRow
from ostler.settings import Settings
from ostler.store import Store

if TYPE_CHECKING:
    from ostler.store.outbox import OutboxRow
    from ostler.work.forward.sender import Sender

# The shapes and the sender are imported where somebody is told: most turns forward nothing.

_log = logging.getLogger(__name__)


def is_forwarded(settings: Settings) -> bool:
    """Whether these settings name anybody to be told."""
    return bool(settings.forward.url or settings.notify)


class TurnForwarding:
    """Forwards one turn, by the settings of its folder. Nothing of it ever changes how the turn ends."""

    def __init__(self, settings: Settings, store: Store, sender: "Callable[[], Sender]") -> None:
        self._settings, self._store, self._sender = settings, store, sender
        self._on = is_forwarded(settings)

    async def add(self, session: Session, events: list[AnyEvent]) -> None:
        """Puts into the outbox what others are to be told of these events, which are committed."""
        if not self._on:
            return
        from ostler.work.forward.shapes import rows_of_events

        if rows := rows_of_events(self._settings, session, events):
            try:
                await self._store.add_to_outbox(rows)
            except OstlerError as error:
                _log.warning("session %s: nobody else is told: %s", session.id, error)
            self._sender().wake()

    def rows_of_end(self, session: Session, last: list[AnyEvent], envelope: Envelope) -> "list[OutboxRow]":
        """What others are told of the end; it is committed with the end itself."""
        if not self._on:
            return []
        from ostler.work.forward.shapes import rows_of_end, rows_of_events

        return [
            *rows_of_events(self._settings, session, last),
            *rows_of_end(self._settings, session, envelope, clock.now()),
        ]

    async def deliver(self, turn: Turn) -> None:
        """Sends what the turn has left, and waits for the backend where the turn asks for that."""
        if not self._on:
            return
        sender, forward = self._sender(), self._settings.forward
        sender.wake()
        if turn.wait_for == "forwarded" and forward.url and not await sender.delivered(turn.id, forward.wait):
            _log.warning("turn %s: the backend has not taken its result yet", turn.id)


async def forward_orphaned(store: Store, settings: Settings, orphaned: TurnRow) -> bool:
    """Tells others of a turn that was ended for an ostler that is gone. False: nobody is to be told."""
    session, ended = store.session(orphaned.session), store.turn(orphaned.id)
    if session is None or ended is None or ended.envelope is None or not is_forwarded(settings):
        return False
    from ostler.work.forward.shapes import rows_of_end

    await store.add_to_outbox(rows_of_end(settings, session, ended.envelope, clock.now()))
    return True
