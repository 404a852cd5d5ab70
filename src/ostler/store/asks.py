"""Asks as rows: who asked what, since when, and who answered. What is open is found by an index, not in journals.

They follow from the events, in the same transaction; what was asked stands in the journal alone.
"""

import sqlite3
from collections.abc import Sequence

from ostler.model import EVENT_DECODER, Answered, Asked, AskRow, event_heads

Body = tuple[int, str, bytes]  # an event as it is stored: seq, turn, JSON

ENDED = "the end of the turn"  # who answered what nobody did

_ASKS = event_heads(Asked, Answered)
_ADD = "INSERT OR REPLACE INTO asks (turn, id, session, seq, asked_at) VALUES (?, ?, ?, ?, ?)"
_OPEN = (
    "FROM asks a INDEXED BY asks_open JOIN events e ON e.session = a.session AND e.seq = a.seq"
    " WHERE a.answered_at IS NULL AND a.session = ? AND (?2 IS NULL OR a.turn = ?2)"
)
SELECT_OPEN = f"SELECT e.body {_OPEN} ORDER BY a.seq"
SELECT_NEWEST = f"SELECT e.body {_OPEN} ORDER BY a.seq DESC LIMIT 1"
COUNT_OPEN = "SELECT count(*) FROM asks INDEXED BY asks_open WHERE answered_at IS NULL AND session = ?"
_ROWS = (
    "SELECT e.body, a.session, a.answered_at, a.option, a.answered_by FROM asks a"
    " JOIN events e ON e.session = a.session AND e.seq = a.seq"
)
SELECT_ROWS_OF_SESSION = f"{_ROWS} WHERE a.session = ? AND a.asked_at >= ? ORDER BY a.seq DESC LIMIT ?"


def follow(db: sqlite3.Connection, session: str, events: Sequence[Body]) -> None:
    """What these events say of asks."""
    for seq, _, body in events:
        if body.startswith(_ASKS):  # by its first bytes: hardly any is one
            match EVENT_DECODER.decode(body):
                case Asked(turn=turn, id=id, at=at):
                    db.execute(_ADD, (turn, id, session, seq, at))
                case Answered(turn=turn, id=id, at=at, option=option, by=by):
                    _answer(db, at, option, by, "turn = ? AND id = ?", turn, id)


def close(db: sqlite3.Connection, turn: str, now: float) -> None:
    """Its turn has ended: nobody can answer any more."""
    _answer(db, now, "cancelled", ENDED, "turn = ?", turn)


def _answer(db: sqlite3.Connection, at: float, option: str, by: str, where: str, *values: str) -> None:
    change = f"UPDATE asks SET answered_at = ?, option = ?, answered_by = ? WHERE answered_at IS NULL AND {where}"
    db.execute(change, (at, option, by, *values))


def read_asked(body: bytes) -> Asked:
    asked = EVENT_DECODER.decode(body)
    assert isinstance(asked, Asked)
    return asked


def read_row(body: bytes, session: str, answered_at: float | None, option: str, by: str) -> AskRow:
    return AskRow(session=session, asked=read_asked(body), answered_at=answered_at, option=option, by=by)
