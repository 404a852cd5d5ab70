"""What a machine must know that goes on with a run which another one has lost. Pure."""

from collections.abc import Iterable

from msgspec import structs

from ostler.pipelines.model import NodeRow, RunRow


def lost_work(run: RunRow, nodes: Iterable[NodeRow]) -> str:
    """Why nobody else can go on with it: what it needs is on its machine alone. "": somebody can."""
    rows = {row.node: row for row in nodes}
    for node in run.pipeline.nodes:
        row = rows.get(node.name)
        if node.worktree is None or row is None or row.started_at is None:
            continue
        if row.result is None or (row.result.ok and node.worktree.then != "drop"):
            return f"what {node.name} did is in a git worktree or branch of that machine"
    return ""


def taken_over(run: RunRow, row: NodeRow, machine: str) -> NodeRow:
    """A node of a run that `machine` had. What was under way there begins anew, in sessions of this one.

    The turn of a node that names another machine may go on there, and is looked for.
    """
    if row.result is not None or row.state == "waiting":
        return row
    sessions = row.sessions if run.pipeline.node(row.node).on else {}
    return structs.replace(row, sessions=sessions, lost=machine or "unknown")


def was_lost(machine: str) -> str:
    return f"machine {machine} was lost while this node was running"
