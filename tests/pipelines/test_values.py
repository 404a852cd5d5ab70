"""What prompts and conditions can read."""

import pytest

from ostler.model import Envelope, Exit, Problem
from ostler.pipelines.expressions import BadExpression
from ostler.pipelines.model import Node, NodeResult
from ostler.pipelines.values import failed_expression, items_of, joined, readable, result_of, total_cost, values_of


def envelope(**fields: object) -> Envelope:
    plain = {"status": "ok", "outcome": "done", "summary": "s", "text": "t", "turn": "t1", "session": "k3"}
    return Envelope(
        **{**plain, "agent": "claude", "served_by": "script", "started_at": 1.0, "duration_ms": 5, **fields}
    )


def test_results_are_read_by_name() -> None:
    values = values_of({"task": "x"}, {"plan": NodeResult(state="done", text="t", structured={"a": 1})})
    assert values["inputs"] == {"task": "x"}
    assert (values["nodes"]["plan"]["text"], values["nodes"]["plan"]["ok"]) == ("t", True)
    assert readable(NodeResult(state="done", items=(NodeResult(state="failed"),)))["items"][0]["ok"] is False


def test_an_envelope_as_a_result() -> None:
    found = result_of(envelope(structured={"a": 1}, cost_usd=0.5, exit=Exit(code=0)), diff="d")
    assert (found.state, found.text, found.structured, found.diff, found.cost_usd, found.exit) == (
        "done",
        "t",
        {"a": 1},
        "d",
        0.5,
        0,
    )
    bad = result_of(envelope(status="error", outcome="failed", error=Problem(kind="limited", message="no more")))
    assert (bad.state, bad.error, bad.kind) == ("failed", "no more", "limited")
    assert result_of(envelope(status="error", outcome="cancelled")).state == "cancelled"


def test_items_are_a_list() -> None:
    node = Node(name="n", each="nodes.split.structured")
    assert items_of(node, {"nodes": {"split": {"structured": ["a", "b"]}}}) == ["a", "b"]
    with pytest.raises(BadExpression, match="is not a list"):
        items_of(node, {"nodes": {"split": {"structured": "a"}}})
    with pytest.raises(BadExpression, match="at most 1000"):
        items_of(node, {"nodes": {"split": {"structured": [0] * 1001}}})


def test_items_as_one_result() -> None:
    both = joined([NodeResult(state="done", text="a", cost_usd=1.0), NodeResult(state="failed", error="e", text="b")])
    assert (both.state, both.text, both.error, both.cost_usd, len(both.items)) == ("failed", "a\n\nb", "e", 1.0, 2)
    assert joined([]).ok


def test_costs_that_nobody_told_are_left_out() -> None:
    assert total_cost((None, 0.25, 0.5)) == 0.75
    assert total_cost((None, None)) is None


def test_an_expression_that_cannot_be_evaluated_is_a_failure() -> None:
    failed = failed_expression(BadExpression("'item[0]' cannot be evaluated"))
    assert (failed.state, failed.kind, failed.error) == ("failed", "bad_request", "'item[0]' cannot be evaluated")
