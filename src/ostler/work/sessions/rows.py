"""New sessions as the store keeps them, and old ones found in it."""

import os
from collections.abc import Callable
from typing import Any

from ostler import clock
from ostler.errors import OstlerError, quoted
from ostler.model import Session, TurnRow
from ostler.settings import Settings
from ostler.store import Store
from ostler.store.sqlite import MACHINE_NOTE
from ostler.work.terminals.new_terminal import checked_name, random_letters
from ostler.work.turns.checked_types import check_types

SHORT_ID, LONG_ID = 4, 10  # letters; a long one is nobody else's on any machine


def new_session_row(store: Store, settings: Settings, **fields: Any) -> Session:
    """A session that is not stored yet; `settings` are those of its folder. Raises bad_request."""
    if isinstance(fields.get("name"), str):
        checked_name(fields["name"], "session")
    now = clock.now()
    least = LONG_ID if store.note(MACHINE_NOTE) else SHORT_ID
    id = new_session_id(lambda id: store.session(id) is not None, least)
    row = Session(id=id, created_at=now, used_at=now, expires_at=now + settings.ttl_days * 86400, **fields)
    check_types(row)
    return row


def new_session_id(taken: Callable[[str], bool], least: int = SHORT_ID) -> str:
    """A short id that people can type; longer when short ones run out."""
    for size in (least, least, least, least + 1, least + 1, least + 2, least + 4, least + 8):
        if not taken(id := random_letters(size)):
            return id
    return os.urandom(16).hex()


def find_session(store: Store, key: str) -> Session:
    """By id, name or unique beginning of an id. Raises not_found or bad_request (ambiguous)."""
    found = store.find(key) if key else []
    if not found:
        raise OstlerError("not_found", f"no session is called {quoted(key)}", "List them: ostler sessions")
    exact = [row for row in found if key in (row.id, row.name)]
    if len(found) > 1 and len(exact) != 1:
        ids = ", ".join(row.id for row in found[:5])
        raise OstlerError("bad_request", f"{quoted(key)} could be any of {ids}", "Give more of the id")
    return exact[0] if exact else found[0]


def find_turn(store: Store, id: str) -> TurnRow:
    """By its id. Raises not_found."""
    row = store.turn(id)
    if row is None:
        raise OstlerError("not_found", f"there is no turn {quoted(id)}")
    return row


def is_named(store: Store, name: str) -> bool:
    """Whether a session has this name."""
    return any(row.name == name for row in store.find(name))
