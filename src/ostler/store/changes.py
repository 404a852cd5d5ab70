"""What can happen to sessions and turns, each a function to run inside a transaction.

A session's state is never set, it follows from its turns; only `closed` is a wish of its own.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ostler.errors import OstlerError
from ostler.words import EVENT_ENCODER, AnyEvent, Envelope, Owner, Session, SessionState, TurnRow, TurnState

Body = tuple[int, str, bytes]  # an event as it is stored: seq, turn, JSON

_encode = msgspec.json.Encoder().encode
_session = msgspec.json.Decoder(Session).decode

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
        raise OstlerError("exists", f"Session {session.id} exists already")
    if unique and session.name and db.execute("SELECT 1 FROM sessions WHERE name = ?", (session.name,)).fetchone():
        hint = f"Go on with --session {session.name}, or choose another name"
        raise OstlerError("exists", f"there is a session named {session.name!r} already", hint)
    _save(db, session)


def change_session(db: sqlite3.Connection, id: str, fields: Mapping[str, Any]) -> Session:
    """`state` may be "closed" (no turn may live) or "idle" (opens it again)."""
    changed = _changed(need_session(db, id), fields)
    if fields.get("state") == "closed" and _state(db, id) != "idle":
        raise busy(id)
    return _save(db, msgspec.structs.replace(changed, state=_state(db, id, closed=changed.state == "closed")))


def close_for_removal(db: sqlite3.Connection, id: str) -> None:
    """From here on nobody can begin a turn: its files may go, then its rows."""
    change_session(db, id, {"state": "closed"})


def delete_session(db: sqlite3.Connection, id: str) -> None:
    db.execute("DELETE FROM sessions WHERE id = ?", (id,))
    db.execute("DELETE FROM notes WHERE key > ? AND key < ?", (f"once:{id}:", f"once:{id};"))  # see once.py


def need_session(db: sqlite3.Connection, id: str) -> Session:
    found = db.execute("SELECT body FROM sessions WHERE id = ?", (id,)).fetchone()
    if found is None:
        raise OstlerError("not_found", f"There is no session {id}", "See: ostler sessions")
    return _session(found[0])


def busy(id: str) -> OstlerError:
    return OstlerError("busy", f"Session {id} is busy", "Wait for its turn to end, queue with --wait, or cancel it")


def _changed(session: Session, fields: Mapping[str, Any]) -> Session:
    if "id" in fields or fields.get("state", "idle") not in ("idle", "closed"):
        raise OstlerError("bad_request", "A session's id cannot change, and its state follows from its turns")
    try:
        return msgspec.structs.replace(session, **fields)
    except TypeError as error:
        raise OstlerError("bad_request", f"A session has no such field: {error}") from error


def _save(db: sqlite3.Connection, s: Session) -> Session:
    db.execute(
        "INSERT INTO sessions (id, name, agent, folder, state, used_at, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET name = excluded.name, agent = excluded.agent, folder = excluded.folder,"
        " state = excluded.state, used_at = excluded.used_at, body = excluded.body",
        (s.id, s.name, s.agent, s.folder, s.state, s.used_at, _encode(s)),
    )
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


def begin_turn(db: sqlite3.Connection, row: TurnRow) -> int:
    """Stores the turn as starting and returns the seq of its first event; `busy` if another turn lives."""
    session = need_session(db, row.session)
    refuse_closed(session)
    if _state(db, row.session) != "idle":
        raise busy(row.session)
    first = next_seq(db, row.session)
    _add_turn(db, msgspec.structs.replace(row, state="starting"), first)
    _settle(db, session, turns=session.turns + 1, used_at=max(session.used_at, row.created_at))
    return first


def queue_turn(db: sqlite3.Connection, row: TurnRow) -> None:
    session = need_session(db, row.session)
    refuse_closed(session)
    _add_turn(db, msgspec.structs.replace(row, state="queued"), 0)
    _settle(db, session, used_at=max(session.used_at, row.created_at))


def claim_turn(db: sqlite3.Connection, id: str, owner: str, now: float) -> int | None:
    """The seq of the turn's first event, if it is the next of its session to run; else None."""
    found = db.execute("SELECT session, state FROM turns WHERE id = ?", (id,)).fetchone()
    if found is None or found[1] != "queued":
        return None
    oldest = db.execute(
        f"SELECT id, state FROM turns WHERE session = ? AND state <> 'ended' {IN_LINE} LIMIT 1", (found[0],)
    ).fetchone()
    if oldest != (id, "queued"):
        return None
    session = need_session(db, found[0])
    first = next_seq(db, session.id)
    db.execute("UPDATE turns SET state = 'starting', owner = ?, first_seq = ? WHERE id = ?", (owner, first, id))
    _settle(db, session, turns=session.turns + 1, used_at=max(session.used_at, now))
    return first


def change_turn(db: sqlite3.Connection, id: str, state: TurnState) -> None:
    session, before = _need_turn(db, id)
    if before not in _BEFORE.get(state, ()):
        raise OstlerError("bad_request", f"Turn {id} is {before}: it cannot become {state}")
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
) -> bool:
    """Everything that makes a turn ended, or nothing and False if it already was."""
    session, before = _need_turn(db, id)
    if before == "ended":
        return False
    append(db, session, last)
    db.execute(
        "UPDATE turns SET state = 'ended', ended_at = ?, envelope = ?, counters = ? WHERE id = ?",
        (now, _encode(envelope), _encode(counters) if counters is not None else None, id),
    )
    change_session(db, session, session_changes)
    return True


def refuse_closed(session: Session) -> None:
    if session.state == "closed":
        raise OstlerError("bad_request", f"Session {session.id} is closed", "Begin a new session")


def _need_turn(db: sqlite3.Connection, id: str) -> tuple[str, TurnState]:
    found: tuple[str, TurnState] | None = db.execute("SELECT session, state FROM turns WHERE id = ?", (id,)).fetchone()
    if found is None:
        raise OstlerError("not_found", f"There is no turn {id}")
    return found


def _add_turn(db: sqlite3.Connection, row: TurnRow, first_seq: int) -> None:
    if db.execute("SELECT 1 FROM turns WHERE id = ?", (row.id,)).fetchone():
        raise OstlerError("exists", f"Turn {row.id} exists already")
    db.execute(
        "INSERT INTO turns (id, session, state, owner, created_at, first_seq, turn) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (row.id, row.session, row.state, row.owner, row.created_at, first_seq, _encode(row.turn)),
    )


def _settle(db: sqlite3.Connection, session: Session, **fields: Any) -> None:
    _save(db, msgspec.structs.replace(session, state=_state(db, session.id), **fields))


# -- events, owners, notes --------------------------------------------------------------------------


def bodies(events: Iterable[AnyEvent]) -> list[Body]:
    return [(event.seq, event.turn, EVENT_ENCODER.encode(event)) for event in events]


def append(db: sqlite3.Connection, session: str, events: Sequence[Body]) -> None:
    db.executemany(
        "INSERT INTO events (session, seq, turn, body) VALUES (?, ?, ?, ?)", [(session, *body) for body in events]
    )


def append_first(db: sqlite3.Connection, turn: str, session: str, events: Sequence[Body]) -> None:
    append(db, session, events)
    change_turn(db, turn, "running")


def next_seq(db: sqlite3.Connection, session: str) -> int:
    last: int = db.execute("SELECT coalesce(max(seq), 0) FROM events WHERE session = ?", (session,)).fetchone()[0]
    return last + 1


def add_owner(db: sqlite3.Connection, owner: Owner) -> None:
    db.execute("INSERT OR REPLACE INTO owners (id, body) VALUES (?, ?)", (owner.id, _encode(owner)))


def remove_owner(db: sqlite3.Connection, id: str) -> None:
    db.execute("DELETE FROM owners WHERE id = ?", (id,))


def set_note(db: sqlite3.Connection, key: str, value: bytes) -> None:
    db.execute("INSERT OR REPLACE INTO notes (key, value) VALUES (?, ?)", (key, value))


def bump(db: sqlite3.Connection, key: str) -> int:
    found = db.execute("SELECT value FROM notes WHERE key = ?", (key,)).fetchone()
    count = (msgspec.json.decode(found[0], type=int) if found else 0) + 1
    set_note(db, key, _encode(count))
    return count
