"""What the store keeps for the pool: who runs and who waits, whose quota is used up, and what was spent."""

import sqlite3
from collections.abc import Callable
from math import inf

from ostler.model import TurnRow
from ostler.model.pool import Claim, PoolTurn
from ostler.store.rows import read_claim

Gate = Callable[[tuple[PoolTurn, ...], dict[str, float], str], bool]
"""Whether a turn may start, given those that run or wait (itself among them) and the accounts that are parked."""

_LIVING = (
    "SELECT id, session, n, claim, state, owner, created_at, began_at FROM turns WHERE state <> 'ended' ORDER BY n"
)
_LAST = 1 << 62  # a turn that is not stored yet comes after all others


def living(db: sqlite3.Connection) -> tuple[PoolTurn, ...]:
    """The turns that run or wait, in the order in which they came."""
    return tuple(_pool_turn(*row) for row in db.execute(_LIVING))


def _pool_turn(
    id: str,
    session: str,
    n: int,
    claim: bytes | None,
    state: str,
    owner: str | None,
    created_at: float,
    began_at: float | None,
) -> PoolTurn:
    runs = state != "queued"
    return PoolTurn(
        id=id,
        session=session,
        n=n,
        claim=read_claim(claim) if claim else Claim(nested=True),  # none: it takes no slot
        since=(began_at if runs else None) or created_at,
        owner=owner,
        runs=runs,
    )


def admits(db: sqlite3.Connection, row: TurnRow, gate: Gate) -> bool:
    """Whether a turn that is not stored yet may start now."""
    if row.claim is None:
        return True
    new = PoolTurn(id=row.id, session=row.session, n=_LAST, claim=row.claim, since=row.created_at, owner=row.owner)
    return gate((*living(db), new), parked(db, -inf), row.id)


def admits_queued(db: sqlite3.Connection, id: str, gate: Gate) -> bool:
    return gate(living(db), parked(db, -inf), id)


def parked(db: sqlite3.Connection, now: float) -> dict[str, float]:
    return dict(db.execute("SELECT account, until FROM parked WHERE until > ?", (now,)))


def park(db: sqlite3.Connection, account: str, until: float, message: str) -> None:
    db.execute(
        "INSERT INTO parked (account, until, message) VALUES (?, ?, ?)"
        " ON CONFLICT (account) DO UPDATE SET until = excluded.until, message = excluded.message",
        (account, until, message),
    )


def unpark(db: sqlite3.Connection, account: str) -> bool:
    return db.execute("DELETE FROM parked WHERE account = ?", (account,)).rowcount > 0


def spent_since(db: sqlite3.Connection, since: float) -> dict[str, float]:
    query = (
        "SELECT coalesce(json_extract(CAST(turn AS TEXT), '$.profile'), json_extract(CAST(turn AS TEXT), '$.agent')),"
        " sum(json_extract(CAST(envelope AS TEXT), '$.cost_usd')) FROM turns"
        " WHERE ended_at >= ? GROUP BY 1 HAVING sum(json_extract(CAST(envelope AS TEXT), '$.cost_usd')) > 0"
    )
    return dict(db.execute(query, (since,)))
