"""A run that takes over what another one did."""

import pytest

from ostler.errors import OstlerError
from ostler.pipelines.forks import forked_run
from ostler.pipelines.model import Node, NodeResult, NodeRow, Pipeline, RunRow

PIPELINE = Pipeline(
    name="flow",
    nodes=(
        Node(name="a", agent="claude", prompt="p"),
        Node(name="b", agent="claude", prompt="q", needs=("a",)),
        Node(name="c", command=("true",), needs=("b",)),
        Node(name="d", gate="?"),
    ),
)
RUN = RunRow(id="r1", pipeline=PIPELINE, folder="/w", created_at=1.0)
DONE = {name: NodeRow(run="r1", node=name, state="done", result=NodeResult(state="done", text=name)) for name in "abcd"}


def test_what_needs_the_node_runs_again_and_the_rest_is_taken_over() -> None:
    pipeline, given = forked_run(RUN, DONE, "b", "another {{ nodes.a.text }}")
    assert pipeline.node("b").prompt == "another {{ nodes.a.text }}"
    assert sorted(given) == ["a", "d"]
    assert sorted(forked_run(RUN, DONE, "a")[1]) == ["d"]


def test_what_its_own_condition_skipped_is_taken_over_and_stops_nothing() -> None:
    skipped = {**DONE, "a": NodeRow(run="r1", node="a", state="skipped", result=NodeResult(state="skipped"))}
    assert sorted(forked_run(RUN, skipped, "b")[1]) == ["a", "d"]


def test_what_was_skipped_since_another_one_failed_runs_again() -> None:
    failed = NodeRow(run="r1", node="a", state="failed", result=NodeResult(state="failed"))
    skipped = NodeResult(state="skipped", error="it needs a, which is failed")
    nodes = {**DONE, "a": failed, "b": NodeRow(run="r1", node="b", state="skipped", result=skipped)}
    assert sorted(forked_run(RUN, nodes, "d")[1]) == ["c"]
    with pytest.raises(OstlerError, match="c needs b, which did not end well"):
        forked_run(RUN, nodes, "c")


def test_what_cannot_be_forked() -> None:
    failed = {**DONE, "a": NodeRow(run="r1", node="a", result=NodeResult(state="failed"))}
    for nodes, node, prompt, kind in (
        (DONE, "x", None, "not_found"),
        (failed, "b", None, "bad_request"),
        (DONE, "c", "p", "bad_request"),
        (DONE, "b", "{{ nodes.d.text }}", "bad_request"),
    ):
        with pytest.raises(OstlerError) as raised:
            forked_run(RUN, nodes, node, prompt)
        assert raised.value.kind == kind
