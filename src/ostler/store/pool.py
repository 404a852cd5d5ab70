"""What the store keeps for the pool: who runs and who waits, whose quota is used up, and what was spent."""

import sqlite3
from collections.abc import Callable
from math import inf

import msgspec
from msgspec.structs import replace

from ostler.model import TurnRow
from ostler.model.pool import Claim, PoolTurn, SharedSlots
from ostler.store.rows import read_claim


class PoolRows(msgspec.Struct, frozen=True):
    """What the store knows of the pool at one moment."""

    turns: tuple[PoolTurn, ...]  # those that run or wait
    parked: dict[str, float]  # accounts whose quota is used up, and until when
    shared: SharedSlots | None  # None: this machine has not joined others


StartCheck = Callable[[PoolRows, str], bool]
"""Whether a turn, which is among the rows, may start."""

SHARED = "pool:shared"  # the note of the slots that this machine has of limits over all machines

_LIVING = (
    "SELECT id, session, n, claim, state, owner, created_at, began_at FROM turns WHERE state <> 'ended' ORDER BY n"
)
_ENDED = "SELECT session, claim, began_at FROM turns WHERE ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT 100"
_LAST = 1 << 62  # a turn that is not stored yet comes after all others


def living(db: sqlite3.Connection) -> tuple[PoolTurn, ...]:
    """The turns that run or wait, in the order in which they came."""
    return _with_history(db, tuple(_pool_turn(*row) for row in db.execute(_LIVING)))


def _with_history(db: sqlite3.Connection, turns: tuple[PoolTurn, ...]) -> tuple[PoolTurn, ...]:
    """Those that wait know when their folder and their session were served, where two of them are to be compared."""
    if sum(not turn.runs for turn in turns) < 2:
        return turns
    folders, sessions = _served(db, turns)

    def known(turn: PoolTurn) -> PoolTurn:
        folder, session = folders.get(turn.claim.folder, 0.0), sessions.get(turn.session, 0.0)
        return replace(turn, folder_served=folder, session_served=session)

    return tuple(turn if turn.runs else known(turn) for turn in turns)


def _served(db: sqlite3.Connection, turns: tuple[PoolTurn, ...]) -> tuple[dict[str, float], dict[str, float]]:
    """When a turn last began in each folder, and in each session; of those that have ended, the last ones count."""
    folders: dict[str, float] = {}
    sessions: dict[str, float] = {}
    begun = [(session, read_claim(claim).folder, at) for session, claim, at in db.execute(_ENDED) if claim and at]
    begun += [(turn.session, turn.claim.folder, turn.since) for turn in turns if turn.runs]
    for session, folder, at in begun:
        sessions[session] = max(at, sessions.get(session, 0.0))
        folders[folder] = max(at, folders.get(folder, 0.0))
    return folders, sessions


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


def admits(db: sqlite3.Connection, row: TurnRow, gate: StartCheck) -> bool:
    """Whether a turn that is not stored yet may start now."""
    if row.claim is None:
        return True
    new = PoolTurn(id=row.id, session=row.session, n=_LAST, claim=row.claim, since=row.created_at, owner=row.owner)
    turns = tuple(_pool_turn(*each) for each in db.execute(_LIVING))
    return gate(PoolRows(_with_history(db, (*turns, new)), parked(db, -inf), shared(db)), row.id)


def admits_queued(db: sqlite3.Connection, id: str, gate: StartCheck) -> bool:
    return gate(PoolRows(living(db), parked(db, -inf), shared(db)), id)


def shared(db: sqlite3.Connection) -> SharedSlots | None:
    found = db.execute("SELECT value FROM notes WHERE key = ?", (SHARED,)).fetchone()
    return msgspec.json.decode(found[0], type=SharedSlots | None) if found else None


def change_shared(
    db: sqlite3.Connection, change: Callable[[tuple[PoolTurn, ...], SharedSlots | None], SharedSlots | None]
) -> tuple[tuple[PoolTurn, ...], SharedSlots | None]:
    """The turns, and the slots as they are then. No turn starts in between."""
    turns, before = living(db), shared(db)
    after = change(turns, before)
    if after != before:
        value = msgspec.json.encode(after)
        db.execute("INSERT OR REPLACE INTO notes (key, value) VALUES (?, ?)", (SHARED, value))
    return turns, after


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
