"""Old sessions: which they are, and their removal."""

import asyncio
import logging

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import Session
from ostler.store import Store
from ostler.work.sessions.filters import is_within

DAY = 86400.0
_FEW = 20  # that a command removes beside its own work
_LOOKED = "expiry:looked"  # when the expired ones were last removed

_log = logging.getLogger(__name__)


async def prune(store: Store, older_than: float | None, folder: str | None, dry_run: bool) -> list[Session]:
    """The sessions that were, or would be, removed."""
    old = [row for row in _removable(store) if is_old(row, clock.now(), older_than) and is_within(row, folder)]
    if not dry_run:
        for row in old:
            await store.remove_session(row.id)
    return old


def _removable(store: Store) -> list[Session]:
    """Those that nobody works in."""
    watched = {row.session for row in store.terminals(live=True)}
    return [row for row in store.sessions() if row.state in ("idle", "closed") and row.id not in watched]


async def remove_each_day(store: Store) -> None:
    """One round of a process that stays: now, and after a day again."""
    await _remove_expired(store, None)
    await asyncio.sleep(DAY)


async def remove_if_due(store: Store) -> None:
    """A command does so too, once a day; some at a time, since somebody waits for its end."""
    if clock.now() - (store.note(_LOOKED) or 0.0) >= DAY:
        await _remove_expired(store, _FEW)


async def _remove_expired(store: Store, most: int | None) -> None:
    now = clock.now()
    old = [row for row in _removable(store) if is_old(row, now, None)]
    for row in old[:most]:
        current = store.session(row.id)
        if current is not None and is_old(current, now, None):  # nobody has used it meanwhile
            await _remove(store, row)
    if most is None or len(old) <= most:
        await store.set_note(_LOOKED, now)


async def _remove(store: Store, row: Session) -> None:
    """Unless somebody begins to work in it just now, or another process removes it."""
    try:
        await store.remove_session(row.id)
        _log.info("removed session %s, which had expired", row.id)
    except OstlerError as error:
        if error.kind not in ("busy", "not_found"):
            raise
        _log.debug("session %s has expired and is not removed: %s", row.id, error)


def is_old(row: Session, now: float, older_than: float | None) -> bool:
    if older_than is not None:
        return row.used_at < now - older_than
    return row.expires_at is not None and row.expires_at < now
