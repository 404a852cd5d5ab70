"""`ostler pipeline run` at a terminal, and the report of a run."""

from pathlib import Path

import pytest

from cli.conftest import Shell
from cli.in_pty import InPty
from ostler.cli.pipeline_table import question_lines, took
from ostler.pipelines.model import NodeRow

pytestmark = pytest.mark.timeout(300)

FLOW = """
name = "flow"
[nodes.plan]
agent = "claude"
prompt = "[[say:planned]]"
[nodes.ask]
gate = "Ship {{ nodes.plan.text }}?"
needs = ["plan"]
[nodes.ship]
command = ["echo", "shipped {{ nodes.ask.text }}"]
needs = ["ask"]
"""


def test_a_table_follows_the_run_and_a_report_tells_it_again(shell: Shell) -> None:
    (shell.folder / "flow.toml").write_text(FLOW)
    env = {**shell.environ, "OSTLER_ONLY": "script", "OSTLER_SCRIPT_SPEED": "0"}
    pty = InPty(["pipeline", "run", "flow.toml"], cwd=shell.folder, env=env, cols=110)
    try:
        pty.until(b"answer: ostler pipeline approve")
        rows = pty.screen()
        assert any(row.startswith("NODE") and "TIME" in row for row in rows), rows
        assert any(row.startswith("plan") and "✓ done" in row and "planned" in row for row in rows), rows
        assert any(row.startswith("ask") and "? waits for you" in row for row in rows), rows
        assert any(row.startswith("ship") and "… waiting" in row for row in rows), rows
        assert "    Ship planned?" in rows
        assert shell("pipeline", "approve", "last", "ask", "--answer", "now").returncode == 0
        assert pty.end() == 0
        rows = pty.screen()
        assert any(row.startswith("ship") and "shipped now" in row for row in rows), rows
        assert sum(row.startswith("plan") for row in rows) == 1, rows  # drawn in its place, not below
    finally:
        pty.close()
    told = shell("pipeline", "report").stdout
    assert told.startswith("# flow: done") and "shipped now" in told
    assert shell("pipeline", "report", "last", "--markdown").stdout == told
    path = Path(shell.folder) / "report.html"
    assert shell("pipeline", "report", "last", "--html", "-o", str(path)).returncode == 0
    assert path.read_text().startswith("<!doctype html>") and "<td>ship</td>" in path.read_text()
    assert "there is no run" in shell("pipeline", "report", "nothing").stderr


def test_times_are_short_and_only_a_gate_asks() -> None:
    row = NodeRow(run="r1", node="plan", state="running", started_at=10.0)
    assert (took(row, 12.34), took(row, 135.0), took(NodeRow(run="r1", node="x"), 1.0)) == ("2.3s", "2m 05s", "")
    assert question_lines(row) == []
    gate = NodeRow(run="r1", node="ask", state="gate", question="Ship\x1b[31m it?\n\nReally?")
    assert question_lines(gate) == [
        "    Ship\\x1b[31m it?",
        "    ",
        "    Really?",
        "    answer: ostler pipeline approve r1 ask  (--deny for no)",
    ]
    long = NodeRow(run="r1", node="ask", state="gate", question="\n".join("abcdefghijklmnopqrstuvwxyz"))
    assert question_lines(long)[-3:-1] == ["    t", "    … 6 more lines: ostler pipeline show r1 --json"]
