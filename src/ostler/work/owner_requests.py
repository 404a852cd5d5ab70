"""What ostler processes ask of each other, each request a struct of its own, told apart by `op`.

Those about terminals are in `terminals/requests.py`: a turn that nobody watches imports nothing of them.
"""

from functools import cache

import msgspec
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.model import SignalName, TransportName
from ostler.work.dialogs.asks import AskAnswer


class OwnerRequest(Struct, frozen=True, kw_only=True, tag_field="op", forbid_unknown_fields=True):
    """The base of every request: one line of JSON on the owner's socket."""


class CancelTurn(OwnerRequest, frozen=True, kw_only=True, tag="cancel"):
    turn: str
    signal: SignalName | None = None


class AnswerAsk(OwnerRequest, frozen=True, kw_only=True, tag="answer"):
    turn: str
    answer: AskAnswer


class SteerTurn(OwnerRequest, frozen=True, kw_only=True, tag="steer"):
    turn: str
    text: str
    by: str


class CloseSession(OwnerRequest, frozen=True, kw_only=True, tag="close"):
    """Ends the process that keeps the session's dialog."""

    session: str


class MoveSession(OwnerRequest, frozen=True, kw_only=True, tag="move"):
    """Ends what waits for the session's next turn, unless that is for the transport `to`."""

    session: str
    to: TransportName


def read_request(line: bytes) -> OwnerRequest:
    """Raises `bad_request` for what is not exactly one of the requests."""
    try:
        return _decoder().decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise OstlerError("bad_request", f"unknown request: {error}") from error


@cache
def _decoder() -> "msgspec.json.Decoder[OwnerRequest]":
    from ostler.work.terminals.requests import AnyTerminalRequest

    return msgspec.json.Decoder(CancelTurn | AnswerAsk | SteerTurn | CloseSession | MoveSession | AnyTerminalRequest)
