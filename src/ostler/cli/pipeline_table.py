"""A run of a pipeline as a table that changes while it works, for somebody at a terminal."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ostler import clock
from ostler.pipelines.model import Node, NodeRow, RunRow
from ostler.pipelines.report import cost, mark
from ostler.terminal.safe import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

QUESTION_LINES = 20  # of a gate, as far as they are shown
_AGAIN = 4  # times a second that it is drawn: what runs has a clock
_STYLES = {"done": "green", "failed": "red", "running": "cyan", "gate": "yellow bold"}


class RunTable:
    """Use it by `with`; `show` takes each node as it changes. What is drawn last stays on the screen."""

    def __init__(self, run: RunRow, nodes: Mapping[str, NodeRow]) -> None:
        from rich.live import Live

        from ostler.cli.live import console_on

        self._run, self._nodes = run, dict(nodes)
        self._live = Live(
            get_renderable=self._drawn,
            console=console_on(sys.stdout),
            refresh_per_second=_AGAIN,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="visible",
        )

    def __enter__(self) -> "RunTable":
        self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, row: NodeRow) -> None:
        self._nodes[row.node] = row
        self._live.refresh()

    def _drawn(self) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        rows = [
            (node, self._nodes.get(node.name, NodeRow(run=self._run.id, node=node.name)))
            for node in self._run.pipeline.nodes
        ]
        below = [
            Text(line, "yellow", no_wrap=True, overflow="ellipsis") for _, row in rows for line in question_lines(row)
        ]
        return Group(_table(rows, clock.now()), *below)


def question_lines(row: NodeRow) -> list[str]:
    """What a gate asks, and how to answer it; nothing of another node."""
    if row.state != "gate":
        return []
    lines = row.question.splitlines()
    asked = [f"    {one_line(line, 200)}" for line in lines[:QUESTION_LINES]]
    if len(lines) > QUESTION_LINES:
        asked.append(f"    … {len(lines) - QUESTION_LINES} more lines: ostler pipeline show {row.run} --json")
    return [*asked, f"    answer: ostler pipeline approve {row.run} {row.node}  (--deny for no)"]


def _table(rows: list[tuple[Node, NodeRow]], now: float) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, side in (("NODE", "left"), ("BY", "left"), ("STATE", "left"), ("TIME", "right"), ("COST", "right")):
        table.add_column(name, no_wrap=True, justify=side)  # type: ignore[arg-type]
    table.add_column("WHAT", no_wrap=True, overflow="ellipsis", ratio=1)
    for node, row in rows:
        state = "waits for you" if row.state == "gate" else row.state
        styled = Text(f"{mark(row.state)} {state}", _STYLES.get(row.state, "dim"))
        table.add_row(
            Text(node.name),
            Text(node.by, "dim"),
            styled,
            Text(took(row, now)),
            Text(cost(row)),
            Text(_what(row), "dim"),
        )
    return table


def took(row: NodeRow, now: float) -> str:
    """Seconds, or minutes; of one that runs, so far."""
    if row.started_at is None:
        return ""
    seconds = max(0.0, (row.ended_at or now) - row.started_at)
    return f"{seconds:.1f}s" if seconds < 60 else f"{int(seconds) // 60}m {int(seconds) % 60:02}s"


def _what(row: NodeRow) -> str:
    result = row.result
    if result is None:
        return next(filter(None, reversed(row.sessions.values())), "")
    return one_line(result.error or result.summary or result.text, 200)
