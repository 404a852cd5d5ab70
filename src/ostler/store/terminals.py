"""What is written and asked about terminals, each call within one transaction."""

import sqlite3
from collections.abc import Mapping
from typing import Any

import msgspec

from ostler.errors import OstlerError, quoted
from ostler.model import TerminalRow
from ostler.store import changes
from ostler.store.changes import need_session, refuse_closed
from ostler.store.rows import read_terminal

_encode = msgspec.json.Encoder().encode


def add_terminal(db: sqlite3.Connection, row: TerminalRow, limit: int | None) -> None:
    """`exists` for the name of a live terminal of the session, `too_many` when `limit` programs live there."""
    refuse_closed(need_session(db, row.session))
    turns = row.source == "turn" and limit is None  # one that shows a turn: neither its name nor their number matters
    live = [] if turns else [read_terminal(body) for (body,) in db.execute(f"{_LIVE} AND session = ?", (row.session,))]
    if row.source != "turn" and any(other.name == row.name for other in live):
        hint = "Choose another name, or use that one"
        raise OstlerError("exists", f"session {row.session} already has a live terminal {quoted(row.name)}", hint)
    if limit is not None and sum(other.source == "pty" for other in live) >= limit:
        raise OstlerError(
            "too_many",
            f"session {row.session} already has {limit} live terminals, which is the limit",
            "End one, or raise `terminals` in your settings",
        )
    added = db.execute(
        "INSERT INTO terminals (id, session, name, source, state, turn, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO NOTHING",
        (row.id, row.session, row.name, row.source, row.state, row.turn, _encode(row)),
    )
    if not added.rowcount:
        raise OstlerError("exists", f"terminal {row.id} already exists")


def change_terminal(db: sqlite3.Connection, id: str, fields: Mapping[str, Any]) -> TerminalRow:
    """The row as it is now. One that has ended stays as it ended."""
    row = need_terminal(db, id)
    return row if row.state == "ended" else _save(db, msgspec.structs.replace(row, **fields))


def end_terminal(db: sqlite3.Connection, id: str, fields: Mapping[str, Any]) -> bool:
    """False, and nothing done, if it had ended or is gone."""
    found = db.execute("SELECT body FROM terminals WHERE id = ? AND state = 'live'", (id,)).fetchone()
    if found is None:
        return False
    before = read_terminal(found[0])
    _save(db, msgspec.structs.replace(before, **fields, state="ended", held_by=""), before)
    return True


def remove_terminal(db: sqlite3.Connection, id: str) -> None:
    db.execute("DELETE FROM terminals WHERE id = ?", (id,))


def close_for_removal(db: sqlite3.Connection, session: str) -> None:
    """As for turns: from here on none can be opened in it. `busy` while one lives."""
    if db.execute(f"{_LIVE} AND session = ? LIMIT 1", (session,)).fetchone():
        raise OstlerError("busy", f"session {session} has a live terminal", "End it first")
    changes.close_for_removal(db, session)


def need_terminal(db: sqlite3.Connection, id: str) -> TerminalRow:
    found = db.execute("SELECT body FROM terminals WHERE id = ?", (id,)).fetchone()
    if found is None:
        raise OstlerError("not_found", f"there is no terminal {id}", "See: ostler terminals")
    return read_terminal(found[0])


def select(session: str | None, live: bool) -> tuple[str, tuple[str, ...]]:
    """The query for terminals, newest first, and its values."""
    conditions = [*(["session = ?"] if session is not None else []), *(["state = 'live'"] if live else [])]
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    return f"SELECT body FROM terminals {where}ORDER BY n DESC", (session,) if session is not None else ()


_LIVE = "SELECT body FROM terminals WHERE state = 'live'"


def _save(db: sqlite3.Connection, row: TerminalRow, before: TerminalRow | None = None) -> TerminalRow:
    """`before`: as it is stored; an index is written only where what it holds has changed."""
    if before is not None and (before.name, before.source, before.turn) == (row.name, row.source, row.turn):
        db.execute("UPDATE terminals SET state = ?, body = ? WHERE id = ?", (row.state, _encode(row), row.id))
        return row
    db.execute(
        "UPDATE terminals SET name = ?, source = ?, state = ?, turn = ?, body = ? WHERE id = ?",
        (row.name, row.source, row.state, row.turn, _encode(row), row.id),
    )
    return row
