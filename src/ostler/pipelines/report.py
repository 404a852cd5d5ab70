"""What came of a run, as Markdown. Pure."""

from collections.abc import Mapping

from ostler.pipelines.model import Node, NodeRow, RunRow

_MARKS = {
    "done": "✓",
    "failed": "✗",
    "skipped": "–",
    "cancelled": "○",
    "running": "●",
    "gate": "?",
    "waiting": "…",
}
_LONG = 20_000


def mark(state: str) -> str:
    return _MARKS[state]


def report(run: RunRow, nodes: Mapping[str, NodeRow]) -> str:
    """A table of the nodes, then what each of them said and changed."""
    rows = [(node, nodes.get(node.name, NodeRow(run=run.id, node=node.name))) for node in run.pipeline.nodes]
    parts = [f"# {run.pipeline.name}: {run.state}", _facts(run, rows), _table(rows)]
    parts += [_section(node, row) for node, row in rows if row.result is not None]
    return "\n\n".join(parts) + "\n"


def _facts(run: RunRow, rows: list[tuple[Node, NodeRow]]) -> str:
    costs = [row.result.cost_usd for _, row in rows if row.result and row.result.cost_usd is not None]
    facts = [f"Run `{run.id}` in `{run.folder}`"]
    if run.ended_at is not None:
        facts.append(f"{run.ended_at - run.created_at:.0f} s")
    if costs:
        facts.append(f"${sum(costs):.2f}")
    lines = [" · ".join(facts)]
    lines += [f"- {name}: {_inline(value)}" for name, value in run.inputs.items()]
    return "\n".join(lines)


def _table(rows: list[tuple[Node, NodeRow]]) -> str:
    lines = ["| node | by | state | seconds | cost |", "| --- | --- | --- | --- | --- |"]
    for node, row in rows:
        lines.append(f"| {node.name} | {node.by} | {mark(row.state)} {row.state} | {seconds(row)} | {cost(row)} |")
    return "\n".join(lines)


def seconds(row: NodeRow) -> str:
    if row.started_at is None or row.ended_at is None:
        return ""
    return f"{row.ended_at - row.started_at:.1f}"


def cost(row: NodeRow) -> str:
    return f"${row.result.cost_usd:.2f}" if row.result and row.result.cost_usd is not None else ""


def _section(node: Node, row: NodeRow) -> str:
    result = row.result
    assert result is not None
    parts = [f"## {node.name}"]
    parts += [f"*{notice}*" for notice in result.notices]
    parts += [f"**{result.error}**"] if result.error else []
    parts += [result.text.strip()[:_LONG]] if result.text.strip() else []
    parts += [_fenced(result.diff.strip()[:_LONG])] if result.diff.strip() else []
    if result.session:
        parts.append(f"`ostler show {result.session}`{f' on {result.machine}' if result.machine else ''}")
    return "\n\n".join(parts)


def _fenced(diff: str) -> str:
    """A fence that is longer than any within: a diff of a Markdown file has some."""
    fence = "```"
    while fence in diff:
        fence += "`"
    return f"{fence}diff\n{diff}\n{fence}"


def _inline(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"
