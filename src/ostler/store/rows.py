"""Rows of the tables as the nouns they stand for."""

import msgspec

from ostler.words import Envelope, Session, TerminalRow, Turn, TurnRow, TurnState

TURN = "SELECT id, session, state, turn, created_at, owner, ended_at, envelope, counters FROM turns"

read_session = msgspec.json.Decoder(Session).decode
read_terminal = msgspec.json.Decoder(TerminalRow).decode
_turn = msgspec.json.Decoder(Turn).decode
_envelope = msgspec.json.Decoder(Envelope).decode
_counters = msgspec.json.Decoder(dict[str, float]).decode


def turn_row(
    id: str,
    session: str,
    state: TurnState,
    turn: bytes,
    created_at: float,
    owner: str | None,
    ended_at: float | None,
    envelope: bytes | None,
    counters: bytes | None,
) -> TurnRow:
    """What the columns of `TURN` say."""
    return TurnRow(
        id=id,
        session=session,
        state=state,
        turn=_turn(turn),
        created_at=created_at,
        owner=owner,
        ended_at=ended_at,
        envelope=_envelope(envelope) if envelope else None,
        counters=_counters(counters) if counters else None,
    )
