"""A turn that must begin once, however often it is asked for: known by a key of the one who asks.

The key is kept in the same transaction as the turn, so ten requests at once, two servers or a restart
between them make no second one.
"""

import sqlite3

import msgspec
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.model import TurnRow
from ostler.store import changes
from ostler.store.pool import StartCheck


class Once(Struct, frozen=True, kw_only=True):
    """`digest` tells whether the same key asks for the same."""

    key: str
    digest: str


class Kept(Struct, frozen=True, kw_only=True):
    """What is noted of a key."""

    turn: str
    digest: str


def note(session: str, once: Once) -> str:
    return f"once:{session}:{once.key}"


def turn_of(kept: Kept, once: Once) -> str:
    """The turn that the key began; `exists` if it was for something else."""
    if kept.digest != once.digest:
        hint = "Use a new key for each new request"
        raise OstlerError(
            "exists", f"this Idempotency-Key was already used for a different request (turn {kept.turn})", hint
        )
    return kept.turn


def begin_turn(db: sqlite3.Connection, row: TurnRow, once: Once, gate: StartCheck | None = None) -> int | str | None:
    """As `changes.begin_turn`; or the id of the turn that the key began before."""
    if known := _known(db, row.session, once):
        return known
    seq = changes.begin_turn(db, row, gate)
    _keep(db, row, once)
    return seq


def queue_turn(db: sqlite3.Connection, row: TurnRow, once: Once) -> str | None:
    """None; or the id of the turn that the key began before."""
    if known := _known(db, row.session, once):
        return known
    changes.queue_turn(db, row)
    _keep(db, row, once)
    return None


def _known(db: sqlite3.Connection, session: str, once: Once) -> str | None:
    found = db.execute("SELECT value FROM notes WHERE key = ?", (note(session, once),)).fetchone()
    return turn_of(msgspec.json.decode(found[0], type=Kept), once) if found else None


def _keep(db: sqlite3.Connection, row: TurnRow, once: Once) -> None:
    changes.set_note(db, note(row.session, once), msgspec.json.encode(Kept(turn=row.id, digest=once.digest)))
