"""Columns as the nouns they stand for."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from ostler.model import TerminalRow, TurnRow
from ostler.store.rows import TURN, read_session, read_terminal, turn_row

encode = msgspec.json.encode


def columns(row: TurnRow, **changes: Any) -> TurnRow:
    values = structs.asdict(row) | {
        "turn": encode(row.turn),
        "envelope": encode(row.envelope) if row.envelope else None,
        "counters": encode(row.counters) if row.counters is not None else None,
    }
    return turn_row(**(values | changes))


def test_a_turn_that_runs_and_one_that_has_ended(make: SimpleNamespace) -> None:
    running = make.row("t1", state="running", owner="me")
    assert columns(running) == running
    ended = make.row("t1", state="ended", ended_at=9.0, envelope=make.envelope("t1"), counters={"input_tokens": 5.0})
    assert columns(ended) == ended


def test_no_counters_are_not_counters_of_nothing(make: SimpleNamespace) -> None:
    assert columns(make.row("t1")).counters is None
    assert columns(make.row("t1"), counters=b"{}").counters == {}


def test_columns_stand_in_the_order_of_the_question() -> None:
    names = TURN.removeprefix("SELECT ").partition(" FROM ")[0].split(", ")
    assert names == [*turn_row.__annotations__][:-1]


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b'{"id": "t1"}', b"\xff"])
def test_a_row_that_is_broken_is_no_turn(make: SimpleNamespace, broken: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, UnicodeError)):
        columns(make.row("t1"), turn=broken)


def test_sessions_and_terminals(make: SimpleNamespace) -> None:
    session = make.session(name="barn", state="asking", fork_of="x")
    assert read_session(encode(session)) == session
    terminal = TerminalRow(id="t", session="k3", name="n", source="acp", cols=80, rows=24, created_at=1.0)
    assert read_terminal(encode(terminal)) == terminal


def test_what_a_later_ostler_added_is_passed_over(make: SimpleNamespace) -> None:
    wider = msgspec.json.decode(encode(make.session())) | {"mood": "good"}
    assert read_session(encode(wider)) == make.session()
