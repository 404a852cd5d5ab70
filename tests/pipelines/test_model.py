"""The graph of a pipeline."""

from ostler.pipelines.model import Node, NodeResult, Pipeline


def test_what_comes_after_a_node() -> None:
    nodes = (
        Node(name="a", gate="?"),
        Node(name="b", gate="?", needs=("a",)),
        Node(name="c", gate="?", needs=("b",)),
        Node(name="d", gate="?"),
    )
    pipeline = Pipeline(name="p", nodes=nodes)
    assert pipeline.after("a") == {"b", "c"} and pipeline.after("c") == set()
    assert pipeline.node("b") is nodes[1]


def test_only_done_is_ok() -> None:
    assert NodeResult(state="done").ok and not NodeResult(state="skipped").ok


def test_who_does_a_node() -> None:
    nodes = (Node(name="a", agent="claude"), Node(name="b", command=("make",)), Node(name="c", gate="merge?"))
    assert [(node.kind, node.by) for node in nodes] == [
        ("agent", "claude"),
        ("command", "command"),
        ("gate", "gate"),
    ]


def test_what_stops_the_nodes_after_it() -> None:
    stops = {state: NodeResult(state=state).stops for state in ("done", "failed", "cancelled", "skipped")}
    assert stops == {"done": False, "failed": True, "cancelled": True, "skipped": False}
    assert NodeResult(state="skipped", error="it needs a, which is failed").stops
