"""What somebody must know who goes on with a run of a machine that was lost."""

import pytest
from msgspec import structs

from ostler.pipelines.model import NodeResult, NodeRow, RunRow
from ostler.pipelines.parse import parse_pipeline
from ostler.pipelines.takeover import lost_work, taken_over, was_lost

DONE = NodeResult(state="done")


def run(worktree: str) -> RunRow:
    text = f'takeover = true\n[nodes.a]\ncommand = ["true"]\n[nodes.b]\ncommand = ["true"]\nworktree = {worktree}\n'
    return RunRow(id="r1", pipeline=parse_pipeline("x.toml", text), folder="/x", created_at=1.0)


@pytest.mark.parametrize(
    ("worktree", "row", "lost"),
    [
        ("false", NodeRow(run="r1", node="b", started_at=1.0), False),
        ("true", None, False),
        ("true", NodeRow(run="r1", node="b", state="gate"), False),  # it has not begun
        ("true", NodeRow(run="r1", node="b", state="running", started_at=1.0), True),
        ("true", NodeRow(run="r1", node="b", state="done", started_at=1.0, result=DONE), True),
        ('{ then = "merge" }', NodeRow(run="r1", node="b", state="done", started_at=1.0, result=DONE), True),
        ('{ then = "drop" }', NodeRow(run="r1", node="b", state="done", started_at=1.0, result=DONE), False),
        ("true", NodeRow(run="r1", node="b", started_at=1.0, result=NodeResult(state="failed")), False),
    ],
)
def test_work_in_a_worktree_is_on_its_machine_alone(worktree: str, row: NodeRow | None, lost: bool) -> None:
    rows = [NodeRow(run="r1", node="a", started_at=1.0, result=DONE), *([row] if row else [])]
    assert bool(lost_work(run(worktree), rows)) == lost


def test_what_was_under_way_begins_anew_and_what_was_finished_stays() -> None:
    text = '[nodes.a]\ngate = "?"\n[nodes.b]\ngate = "?"\n[nodes.c]\ncommand = ["true"]\n'
    text += '[nodes.far]\nagent = "claude"\nprompt = "p"\non = "gpu"\n'
    row = RunRow(id="r1", pipeline=parse_pipeline("x.toml", text), folder="/x", created_at=1.0)
    done = NodeRow(run="r1", node="a", state="done", sessions={":0": "s1"}, result=DONE)
    waiting = NodeRow(run="r1", node="b")
    assert [taken_over(row, each, "hawk") for each in (done, waiting)] == [done, waiting]
    under_way = NodeRow(run="r1", node="c", state="running", started_at=1.0, sessions={":0": "s2"})
    assert taken_over(row, under_way, "hawk") == structs.replace(under_way, sessions={}, lost="hawk")
    elsewhere = structs.replace(under_way, node="far")  # on a machine that may live
    assert taken_over(row, elsewhere, "") == structs.replace(elsewhere, lost="unknown")
    assert was_lost("hawk") == "machine hawk was lost while this node was running"
