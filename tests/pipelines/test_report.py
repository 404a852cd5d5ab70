"""A run as Markdown."""

from ostler.pipelines.model import Node, NodeResult, NodeRow, Pipeline, RunRow
from ostler.pipelines.report import cost, mark, report, seconds

PIPELINE = Pipeline(
    name="flow",
    nodes=(
        Node(name="plan", agent="claude", prompt="p"),
        Node(name="test", command=("true",)),
        Node(name="ok", gate="?"),
    ),
)


def test_a_report_has_a_table_and_what_each_node_said() -> None:
    run = RunRow(
        id="r1", pipeline=PIPELINE, folder="/w", created_at=10.0, ended_at=30.0, state="failed", inputs={"task": "a\nb"}
    )
    plan = NodeResult(state="done", text="the plan", diff="+x", cost_usd=0.5, session="k3", notices=("it went on",))
    test = NodeResult(state="failed", error="exit 1", session="m4", machine="owl")
    rows = {
        "plan": NodeRow(run="r1", node="plan", state="done", started_at=10.0, ended_at=12.5, result=plan),
        "test": NodeRow(run="r1", node="test", state="failed", started_at=1.0, ended_at=2.0, result=test),
    }
    assert report(run, rows) == (
        "# flow: failed\n\nRun `r1` in `/w` · 20 s · $0.50\n- task: a b\n\n"
        "| node | by | state | seconds | cost |\n| --- | --- | --- | --- | --- |\n"
        "| plan | claude | ✓ done | 2.5 | $0.50 |\n| test | command | ✗ failed | 1.0 |  |\n"
        "| ok | gate | … waiting |  |  |\n\n"
        "## plan\n\n*it went on*\n\nthe plan\n\n```diff\n+x\n```\n\n`ostler show k3`\n\n"
        "## test\n\n**exit 1**\n\n`ostler show m4` on owl\n"
    )
    assert (mark("gate"), seconds(rows["plan"]), cost(rows["test"])) == ("?", "2.5", "")
