"""JSON-RPC both ways: whose id is whose, and what was asked and answered."""

from typing import Any

import pytest

from ostler.agents.acp.rpc import MAX_OPEN, Rpc, refusal
from ostler.agents.dialog import Write


def test_our_requests_are_numbered_and_answered_once() -> None:
    rpc = Rpc()
    first, second = rpc.request("initialize", {"a": 1}), rpc.request("session/new", {})
    assert first == Write({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"a": 1}})
    assert second == Write({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {}})
    assert rpc.waits_for("session/") and not rpc.waits_for("session/prompt")
    assert rpc.answered({"id": 2, "result": {}}) == "session/new"
    assert rpc.answered({"id": 2, "result": {}}) == ""
    assert not rpc.waits_for("session/") and rpc.waits_for("initialize")


@pytest.mark.parametrize("id", [None, "1", 1.0, True, [1], {}, 2, -1])
def test_only_the_very_id_is_an_answer(id: Any) -> None:
    rpc = Rpc()
    rpc.request("initialize", {})
    assert rpc.answered({"id": id}) == "" and rpc.answered({}) == ""
    assert rpc.waits_for("initialize")


def test_a_notification_has_no_id_and_waits_for_nothing() -> None:
    rpc = Rpc()
    assert rpc.notify("session/cancel", {"x": 1}) == Write(
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"x": 1}}
    )
    assert not rpc.waits_for("")


@pytest.mark.parametrize("id", [0, 1, "", "a", None, 1.5])
def test_their_requests_are_answered_under_their_id_once(id: Any) -> None:
    rpc = Rpc()
    name = rpc.take("ask", id)
    assert rpc.open() == [name]
    assert rpc.respond(name, {"ok": 1}) == [Write({"jsonrpc": "2.0", "id": id, "result": {"ok": 1}})]
    assert rpc.respond(name, {"ok": 1}) == [] and rpc.refuse(name, -1, "x") == [] and rpc.open() == []
    other = rpc.take("call", id)
    assert other != name  # the agent may use an id again
    assert rpc.refuse(other, -32800, "over") == [refusal(id, -32800, "over")]
    assert rpc.respond(other, {}) == []


def test_names_of_theirs_are_never_those_of_ours() -> None:
    rpc = Rpc()
    rpc.request("a", {})
    names = [rpc.take("ask", 1), rpc.take("ask", 1)]
    assert len(set(names)) == 2
    assert rpc.answered({"id": 2}) == ""


def test_too_many_are_not_taken() -> None:
    rpc = Rpc()
    names = [rpc.take("call", number) for number in range(MAX_OPEN + 1)]
    assert all(names[:-1]) and names[-1] == ""
    rpc.respond(names[0], {})
    assert rpc.take("call", 5) != ""


def test_ids_are_compared_with_their_type() -> None:
    rpc = Rpc()
    number, word, again = rpc.take("call", 1), rpc.take("ask", "1"), rpc.take("ask", 1)
    assert rpc.taken_back(1) == [number, again]
    assert rpc.taken_back("1") == [word]
    assert rpc.taken_back(True) == rpc.taken_back(1.0) == rpc.taken_back(None) == []


def test_a_refusal() -> None:
    error = {"code": -32601, "message": "no"}
    assert refusal("x", -32601, "no") == Write({"jsonrpc": "2.0", "id": "x", "error": error})
