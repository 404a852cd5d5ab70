"""Requests between ostler processes: each comes back as it was sent, and nothing else is understood."""

import msgspec
import pytest

from ostler.errors import OstlerError
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import Type
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.owner_requests import (
    AnswerAsk,
    CancelTurn,
    CloseSession,
    MoveSession,
    OwnerRequest,
    SteerTurn,
    read_request,
)
from ostler.work.terminals.requests import (
    KillTerminal,
    LeaseTerminal,
    ReadTerminalText,
    SnapshotTerminal,
    TypeIntoTerminal,
    ViewTerminal,
)

ANNA = Author("Anna", "person", "anna:1")


@pytest.mark.parametrize(
    "request_",
    [
        CancelTurn(turn="s-1"),
        CancelTurn(turn="s-1", signal="KILL"),
        AnswerAsk(turn="s-1", answer=AskAnswer(ask="a1", option="allow", by="Anna", message="go")),
        SteerTurn(turn="s-1", text="and now?", by="Anna"),
        CloseSession(session="s"),
        MoveSession(session="s", to="pty"),
        ViewTerminal(terminal="t-1", author=ANNA, rights="type", offset=7),
        SnapshotTerminal(terminal="t-1", history=True),
        ReadTerminalText(terminal="t-1", limit=10),
        TypeIntoTerminal(terminal="t-1", author=ANNA, message=Type(text="ls\n"), take=True),
        LeaseTerminal(terminal="t-1", author=ANNA, action="release"),
        KillTerminal(terminal="t-1"),
        KillTerminal(terminal="t-1", signal="HUP"),
    ],
    ids=lambda request: type(request).__name__,
)
def test_each_request_comes_back_as_it_was_sent(request_: OwnerRequest) -> None:
    assert read_request(msgspec.json.encode(request_) + b"\n") == request_


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[1]",
        b"{broken",
        b"\xff\xff",
        b'{"turn":"s-1"}',
        b'{"op":"dance"}',
        b'{"op":"cancel"}',
        b'{"op":"cancel","turn":7}',
        b'{"op":"cancel","turn":"s-1","harder":true}',
        b'{"op":"cancel","turn":"s-1","signal":"STOP"}',
        b'{"op":"view","terminal":"t-1","author":{"name":"x"},"rights":"all"}',
        b'{"op":"terminal_lease","terminal":"t-1","author":{"name":"x"},"action":"steal"}',
        b"[" * 100_000,
    ],
)
def test_anything_else_is_a_bad_request(line: bytes) -> None:
    with pytest.raises(OstlerError) as caught:
        read_request(line)
    assert caught.value.kind == "bad_request"
