"""Rows of the tables as the nouns they stand for."""

import msgspec

from ostler.model import Envelope, Session, TerminalRow, Turn, TurnRow, TurnState
from ostler.model.pool import Claim

TURN = "SELECT id, session, state, turn, created_at, owner, ended_at, envelope, counters, claim FROM turns"

read_session = msgspec.json.Decoder(Session).decode
read_terminal = msgspec.json.Decoder(TerminalRow).decode
read_claim = msgspec.json.Decoder(Claim).decode
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
    claim: bytes | None,
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
        claim=read_claim(claim) if claim else None,
    )
