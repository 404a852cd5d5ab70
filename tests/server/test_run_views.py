"""Runs and nodes as they are told."""

from ostler.pipelines.model import Approval, Node, NodeResult, NodeRow, Pipeline, RunRow
from ostler.server.run_views import node_detail, pipeline_view, run_view

PIPELINE = Pipeline(
    name="flow",
    nodes=(
        Node(name="plan", agent="claude", prompt="Plan it.\n\nAll of it."),
        Node(name="test", command=("make", "a b"), needs=("plan",)),
        Node(name="ship", gate="Ship it?", needs=("test",)),
    ),
    cost_usd=2.0,
)
RUN = RunRow(id="r1", pipeline=PIPELINE, folder="/w", created_at=10.0, owner="o1")
PLAN = NodeResult(
    state="done", text="planned", diff="--- a\n+++ b\n+x\n+y\n-z", cost_usd=0.5, session="k1", turn="k1-t"
)
NODES = {
    "plan": NodeRow(run="r1", node="plan", state="done", started_at=10.0, ended_at=12.5, result=PLAN),
    "test": NodeRow(run="r1", node="test", state="running", started_at=12.5, sessions={":0:0": "k2"}),
    "ship": NodeRow(run="r1", node="ship", state="gate", question="Ship it?"),
}


def test_a_run_tells_states_times_cost_and_where_its_nodes_work() -> None:
    view = run_view(RUN, NODES, {"k2": "k2-t"})
    assert (view.state, view.gates, view.cost_usd, view.cost_limit_usd) == ("running", 1, 0.5, 2.0)
    plan, test, ship = view.nodes
    assert (plan.kind, plan.what, plan.duration_ms, plan.added, plan.removed) == ("agent", "Plan it. …", 2500, 2, 1)
    assert (plan.session, plan.turn) == ("k1", "k1-t")
    assert (test.kind, test.what, test.session, test.turn) == ("command", "make 'a b'", "k2", "k2-t")
    assert (test.duration_ms, test.cost_usd, ship.kind, ship.state) == (None, None, "gate", "gate")


def test_a_run_without_a_process_is_interrupted_and_one_that_is_over_has_no_open_gate() -> None:
    orphan = RunRow(id="r1", pipeline=PIPELINE, folder="/w", created_at=10.0)
    assert run_view(orphan, NODES, {}).state == "interrupted"
    over = RunRow(id="r1", pipeline=PIPELINE, folder="/w", created_at=10.0, state="cancelled")
    view = run_view(over, NODES, {})
    assert [node.state for node in view.nodes] == ["done", "cancelled", "cancelled"]
    assert view.gates == 0


def test_a_node_alone_tells_all_that_is_known_of_it() -> None:
    detail = node_detail(RUN, PIPELINE.nodes[0], NODES["plan"], {})
    assert (detail.prompt, detail.text, detail.diff) == ("Plan it.\n\nAll of it.", "planned", PLAN.diff)
    said = NodeRow(run="r1", node="ship", state="running", question="Ship?", approval=Approval(go=True, by="ann"))
    gate = node_detail(RUN, PIPELINE.nodes[2], said, {})
    assert (gate.question, gate.approved_by, gate.text) == ("Ship?", "ann", "")
    asked = NodeRow(run="r1", node="plan", state="gate", question="Run plan?\n\nPlan hay.")
    assert node_detail(RUN, PIPELINE.nodes[0], asked, {}).proposed == "Plan hay."
    assert node_detail(RUN, PIPELINE.nodes[1], asked, {}).proposed == ""
    assert node_detail(RUN, PIPELINE.nodes[1], None, {}).state == "waiting"


def test_a_pipeline_tells_its_inputs_and_its_graph() -> None:
    view = pipeline_view(PIPELINE)
    assert [(node.name, node.kind, node.needs) for node in view.nodes] == [
        ("plan", "agent", ()),
        ("test", "command", ("plan",)),
        ("ship", "gate", ("test",)),
    ]
