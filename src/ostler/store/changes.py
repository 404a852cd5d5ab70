"""What can happen to sessions and turns, each a function to run inside a transaction.

A session's state is never set, it follows from its turns; only `closed` is set by a request.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ostler.errors import OstlerError, quoted
from ostler.model import (
    EVENT_ENCODER,
    TRANSPORT_MEANS,
    AnyEvent,
    Envelope,
    Notice,
    Owner,
    Session,
    SessionState,
    TransportName,
    Turn,
    TurnRow,
    TurnState,
)
from ostler.store import asks, outbox, pool
from ostler.store.asks import Body
from ostler.store.pool import StartCheck
from ostler.store.rows import read_session


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A session to another transport. `later`: when the turn that runs has ended; `told`: the journal says so."""

    to: TransportName
    at: float
    later: bool = False
    announced: bool = True


_encode = msgspec.json.Encoder().encode

IN_LINE = "ORDER BY state = 'queued', n"  # what runs, then who waits, in order

# From which states a turn may come to a state; `ended` is reached by `end_turn` alone.
_BEFORE: dict[TurnState, tuple[TurnState, ...]] = {
    "starting": ("starting",),
    "running": ("starting", "running", "asking"),
    "asking": ("starting", "running", "asking"),
}


# -- sessions ---------------------------------------------------------------------------------------


def add_session(db: sqlite3.Connection, session: Session, unique: bool) -> None:
    """`exists` for an id that is taken; with `unique` for a name too."""
    if db.execute("SELECT 1 FROM sessions WHERE id = ?", (session.id,)).fetchone():
        raise OstlerError("exists", f"session {session.id} already exists")
    if unique:
        _refuse_taken(db, session.name)
    _save(db, session)


def _refuse_taken(db: sqlite3.Connection, name: str | None, but: str = "") -> None:
    if name and db.execute("SELECT 1 FROM sessions WHERE name = ? AND id <> ?", (name, but)).fetchone():
        hint = f"Continue it with --session {name}, or choose another name"
        raise OstlerError("exists", f"there is already a session named {quoted(name)}", hint)


def change_session(db: sqlite3.Connection, id: str, fields: Mapping[str, Any], spent: float | None = None) -> Session:
    """`state` may be "closed" (no turn may live) or "idle" (opens it again). `spent`: dollars, added to its cost."""
    before = need_session(db, id)
    changed = _changed(before, fields)
    if spent is not None:
        changed = msgspec.structs.replace(changed, cost_usd=(before.cost_usd or 0.0) + spent)
    if fields.get("state") == "closed" and _state(db, id) != "idle":
        raise busy(before)
    state = _state(db, id, closed=changed.state == "closed")
    return _update(db, before, msgspec.structs.replace(changed, state=state))


def rename_session(db: sqlite3.Connection, id: str, name: str | None) -> Session:
    """`exists` for the name of another one."""
    _refuse_taken(db, name, but=id)
    return change_session(db, id, {"name": name})


def move_session(db: sqlite3.Connection, id: str, move: Move) -> Session:
    """From its next turn on it has this transport. While a turn runs it is `busy`, or with `later` moves at its end."""
    session = need_session(db, id)
    refuse_closed(session)
    if _state(db, id) in ("idle", "queued"):
        return _move(db, session, move)
    if not move.later:
        raise busy(session)
    return _save(db, msgspec.structs.replace(session, moving_to=move.to))


def _move(db: sqlite3.Connection, session: Session, move: Move) -> Session:
    if move.announced:
        text = f"moved to {move.to}: {TRANSPORT_MEANS[move.to]}"
        notice = Notice(code="moved", text=text, at=move.at, seq=next_seq(db, session.id))
        append(db, session.id, bodies([notice]))
    return _save(db, msgspec.structs.replace(session, transport=move.to, moving_to=None))


def close_for_removal(db: sqlite3.Connection, id: str) -> None:
    """From here on nobody can begin a turn: its files may go, then its rows."""
    change_session(db, id, {"state": "closed"})


def delete_session(db: sqlite3.Connection, id: str) -> None:
    db.execute("DELETE FROM sessions WHERE id = ?", (id,))
    db.execute("DELETE FROM notes WHERE key > ? AND key < ?", (f"once:{id}:", f"once:{id};"))  # see once.py


def need_session(db: sqlite3.Connection, id: str) -> Session:
    found = db.execute("SELECT body FROM sessions WHERE id = ?", (id,)).fetchone()
    if found is None:
        raise OstlerError("not_found", f"there is no session {id}", "See: ostler sessions")
    return read_session(found[0])


def busy(session: Session) -> OstlerError:
    hint = "Wait for its turn to end, queue with --wait, or cancel it"
    return OstlerError("busy", f"session {session.label} is busy", hint)


def _changed(session: Session, fields: Mapping[str, Any]) -> Session:
    if "id" in fields or fields.get("state", "idle") not in ("idle", "closed"):
        raise OstlerError("bad_request", "a session's id cannot change, and its state follows from its turns")
    if unknown := next((name for name in fields if name not in Session.__struct_fields__), None):
        raise OstlerError("bad_request", f"a session has no field {unknown}")
    return msgspec.structs.replace(session, **fields)


def _save(db: sqlite3.Connection, s: Session) -> Session:
    db.execute(
        "INSERT INTO sessions (id, name, agent, folder, state, used_at, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET name = excluded.name, agent = excluded.agent, folder = excluded.folder,"
        " state = excluded.state, used_at = excluded.used_at, body = excluded.body",
        (s.id, s.name, s.agent, s.folder, s.state, s.used_at, _encode(s)),
    )
    return s


def _update(db: sqlite3.Connection, before: Session, s: Session) -> Session:
    """As `_save`, of a session that is there; an index is written only where what it holds has changed."""
    if (before.name, before.agent, before.folder) != (s.name, s.agent, s.folder):
        return _save(db, s)
    if before.used_at != s.used_at:
        change = "UPDATE sessions SET state = ?, body = ?, used_at = ? WHERE id = ?"
        db.execute(change, (s.state, _encode(s), s.used_at, s.id))
    else:
        db.execute("UPDATE sessions SET state = ?, body = ? WHERE id = ?", (s.state, _encode(s), s.id))
    return s


def _state(db: sqlite3.Connection, session: str, *, closed: bool = False) -> SessionState:
    """What the session's turns say; `closed` holds while none of them lives."""
    living = {state for (state,) in db.execute(_LIVING, (session,))}
    if "asking" in living:
        return "asking"
    if living - {"queued"}:
        return "busy"
    if living:
        return "queued"
    return "closed" if closed else "idle"


_LIVING = "SELECT state FROM turns WHERE session = ? AND state <> 'ended'"


# -- turns ------------------------------------------------------------------------------------------


def begin_turn(db: sqlite3.Connection, row: TurnRow, gate: StartCheck | None = None) -> int | None:
    """Stores the turn as starting and returns the seq of its first event; `busy` if another turn lives.

    None: the pool has no room for it, and it is queued.
    """
    session = need_session(db, row.session)
    refuse_closed(session)
    if _state(db, row.session) != "idle":
        raise busy(session)
    if gate is not None and not pool.admits(db, row, gate):
        queue_turn(db, row)
        return None
    first = next_seq(db, row.session)
    _add_turn(db, msgspec.structs.replace(row, state="starting"), first)
    _settle(db, session, turns=session.turns + 1, used_at=max(session.used_at, row.created_at))
    return first


def queue_turn(db: sqlite3.Connection, row: TurnRow) -> None:
    session = need_session(db, row.session)
    refuse_closed(session)
    _add_turn(db, msgspec.structs.replace(row, state="queued"), 0)
    _settle(db, session, used_at=max(session.used_at, row.created_at))


def claim_turn(db: sqlite3.Connection, id: str, owner: str, now: float, gate: StartCheck | None = None) -> int | None:
    """The seq of the turn's first event, if it is the next of its session to run and the pool has room; else None."""
    found = db.execute("SELECT session, state FROM turns WHERE id = ?", (id,)).fetchone()
    if found is None or found[1] != "queued":
        return None
    oldest = db.execute(
        f"SELECT id, state FROM turns WHERE session = ? AND state <> 'ended' {IN_LINE} LIMIT 1", (found[0],)
    ).fetchone()
    if oldest != (id, "queued") or (gate is not None and not pool.admits_queued(db, id, gate)):
        return None
    session = need_session(db, found[0])
    first = next_seq(db, session.id)
    begun = "UPDATE turns SET state = 'starting', owner = ?, first_seq = ?, began_at = ? WHERE id = ?"
    db.execute(begun, (owner, first, now, id))
    _settle(db, session, turns=session.turns + 1, used_at=max(session.used_at, now))
    return first


def adopt_turn(db: sqlite3.Connection, id: str, was: str | None, owner: str) -> bool:
    """A turn that runs gets another owner, if it still has the one that is gone. False: somebody was quicker."""
    done = db.execute(
        "UPDATE turns SET owner = ? WHERE id = ? AND owner IS ? AND state NOT IN ('queued', 'ended')", (owner, id, was)
    )
    return done.rowcount == 1


def renew_turn(db: sqlite3.Connection, turn: Turn) -> None:
    """Keeps a turn that was queued as it is now that it begins."""
    session, state = _need_turn(db, turn.id)
    if state != "starting":
        raise OstlerError("bad_request", f"turn {turn.id} is {state}: it can no longer change")
    db.execute("UPDATE turns SET turn = ? WHERE id = ?", (_encode(turn), turn.id))
    _settle(db, need_session(db, session))


def change_turn(db: sqlite3.Connection, id: str, state: TurnState) -> None:
    session, before = _need_turn(db, id)
    if before not in _BEFORE.get(state, ()):
        raise OstlerError("bad_request", f"turn {id} is {before}: it cannot become {state}")
    if before != state:
        db.execute("UPDATE turns SET state = ? WHERE id = ?", (state, id))
        _settle(db, need_session(db, session))


def end_turn(
    db: sqlite3.Connection,
    id: str,
    last: Sequence[Body],
    envelope: Envelope,
    counters: Mapping[str, float] | None,
    session_changes: Mapping[str, Any],
    now: float,
    outgoing: Sequence[outbox.OutboxRow] = (),
) -> Session | None:
    """Everything that makes a turn ended, and the session as it is then; or nothing, and None, if it already was.

    What it cost is added to what the session has cost by then, whoever ran its turns.
    """
    session, before = _need_turn(db, id)
    if before == "ended":
        return None
    append(db, session, last)
    asks.close(db, id, now)
    db.execute(
        "UPDATE turns SET state = 'ended', ended_at = ?, envelope = ?, counters = ? WHERE id = ?",
        (now, _encode(envelope), _encode(counters) if counters is not None else None, id),
    )
    now_idle = change_session(db, session, session_changes, envelope.cost_usd)
    if now_idle.moving_to is not None:
        now_idle = _move(db, now_idle, Move(to=now_idle.moving_to, at=now))
    if outgoing:
        outbox.add(db, outgoing)
    return now_idle


def refuse_closed(session: Session) -> None:
    if session.state == "closed":
        hint = f"Start a new session, or copy this one: ostler fork {session.label}"
        raise OstlerError("bad_request", f"session {session.label} is closed", hint)


def _need_turn(db: sqlite3.Connection, id: str) -> tuple[str, TurnState]:
    found: tuple[str, TurnState] | None = db.execute("SELECT session, state FROM turns WHERE id = ?", (id,)).fetchone()
    if found is None:
        raise OstlerError("not_found", f"there is no turn {id}")
    return found


def _add_turn(db: sqlite3.Connection, row: TurnRow, first_seq: int) -> None:
    claim = _encode(row.claim) if row.claim is not None else None
    began_at = row.created_at if first_seq else None
    added = db.execute(
        "INSERT INTO turns (id, session, state, owner, created_at, began_at, first_seq, turn, claim)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        (row.id, row.session, row.state, row.owner, row.created_at, began_at, first_seq, _encode(row.turn), claim),
    )
    if not added.rowcount:
        raise OstlerError("exists", f"turn {row.id} already exists")


def _settle(db: sqlite3.Connection, session: Session, **fields: Any) -> None:
    _update(db, session, msgspec.structs.replace(session, state=_state(db, session.id), **fields))


# -- events, owners, notes --------------------------------------------------------------------------


def bodies(events: Iterable[AnyEvent]) -> list[Body]:
    return [(event.seq, event.turn, EVENT_ENCODER.encode(event)) for event in events]


def append(db: sqlite3.Connection, session: str, events: Sequence[Body]) -> None:
    db.executemany(
        "INSERT INTO events (session, seq, turn, body) VALUES (?, ?, ?, ?)", [(session, *body) for body in events]
    )
    asks.follow(db, session, events)


def append_first(db: sqlite3.Connection, turn: str, session: str, events: Sequence[Body]) -> None:
    append(db, session, events)
    change_turn(db, turn, "running")


def append_late(db: sqlite3.Connection, session: str, event: AnyEvent) -> bool:
    """An event of a turn that has ended. False, and nothing done, while another one writes the journal."""
    found = db.execute("SELECT 1 FROM sessions WHERE id = ?", (session,)).fetchone()
    if found is None or _state(db, session) not in ("idle", "queued"):
        return False
    append(db, session, bodies([msgspec.structs.replace(event, seq=next_seq(db, session))]))
    return True


def next_seq(db: sqlite3.Connection, session: str) -> int:
    last: int = db.execute("SELECT coalesce(max(seq), 0) FROM events WHERE session = ?", (session,)).fetchone()[0]
    return last + 1


def add_owner(db: sqlite3.Connection, owner: Owner) -> None:
    db.execute("INSERT OR REPLACE INTO owners (id, body) VALUES (?, ?)", (owner.id, _encode(owner)))


def remove_owner(db: sqlite3.Connection, id: str) -> None:
    db.execute("DELETE FROM owners WHERE id = ?", (id,))


def set_note(db: sqlite3.Connection, key: str, value: bytes) -> None:
    db.execute("INSERT OR REPLACE INTO notes (key, value) VALUES (?, ?)", (key, value))
