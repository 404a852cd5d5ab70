"""The outbox: what is to be posted elsewhere, kept until it was taken. Bounded, and shared by all processes.

A row is claimed for a while by the process that sends it; when that one dies, another takes it over.
"""

import sqlite3
from collections.abc import Sequence

from msgspec import Struct

MOST = 10_000  # rows; the oldest go
BATCH = 100  # rows at a time
BATCH_BYTES = 512 * 1024

_FIELDS = "n, target, folder, session, turn, what, body, created_at, tries"


class OutboxRow(Struct, frozen=True, kw_only=True):
    """One thing to be told to `target`. `body` is JSON."""

    target: str
    folder: str  # whose settings say how
    session: str
    turn: str
    what: str
    body: bytes
    created_at: float
    n: int = 0
    tries: int = 0


def add(db: sqlite3.Connection, rows: Sequence[OutboxRow]) -> int:
    """How many old ones had to go."""
    db.executemany(
        "INSERT INTO outbox (target, folder, session, turn, what, body, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(r.target, r.folder, r.session, r.turn, r.what, r.body, r.created_at) for r in rows],
    )
    oldest = "SELECT n FROM outbox ORDER BY n DESC LIMIT -1 OFFSET ?"
    return db.execute(f"DELETE FROM outbox WHERE n IN ({oldest})", (MOST,)).rowcount


def claim(db: sqlite3.Connection, now: float, until: float) -> list[OutboxRow]:
    """The next batch for one target and session, in order, which nobody else gets before `until`; [] if none is due."""
    heads = "SELECT min(n) FROM outbox GROUP BY target, folder, session"
    due = f"FROM outbox WHERE n IN ({heads}) AND next_at <= ? ORDER BY next_at, n LIMIT 1"
    found = db.execute(f"SELECT target, folder, session {due}", (now,)).fetchone()
    if found is None:
        return []
    query = f"SELECT {_FIELDS} FROM outbox WHERE target = ? AND folder = ? AND session = ? ORDER BY n LIMIT ?"
    batch: list[OutboxRow] = []
    size = 0
    for values in db.execute(query, (*found, BATCH)).fetchall():
        row = OutboxRow(**dict(zip(_FIELDS.split(", "), values, strict=True)))
        size += len(row.body)
        if batch and size > BATCH_BYTES:
            break
        batch.append(row)
    db.executemany("UPDATE outbox SET next_at = ? WHERE n = ?", [(until, row.n) for row in batch])
    return batch


def settle(db: sqlite3.Connection, taken: Sequence[int], then: OutboxRow | None) -> None:
    """They were taken, or given up; `then` stands in their place."""
    db.executemany("DELETE FROM outbox WHERE n = ?", [(n,) for n in taken])
    if then is not None and db.execute("SELECT 1 FROM sessions WHERE id = ?", (then.session,)).fetchone():
        add(db, [then])


def put_off(db: sqlite3.Connection, rows: Sequence[int], next_at: float) -> None:
    """They are tried again then."""
    db.executemany("UPDATE outbox SET tries = tries + 1, next_at = ? WHERE n = ?", [(next_at, n) for n in rows])
