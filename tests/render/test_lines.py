"""Each way to end, numbers and tables, as the lines a person reads."""

from typing import Any

import pytest

from ostler.model import (
    Denial,
    Envelope,
    Problem,
    Session,
    Usage,
)
from ostler.render import lines
from ostler.render.lines import columns, continue_line, diff_size, ending, plain, session_rows

# -- the end ----------------------------------------------------------------------------------------


def envelope(**fields: Any) -> Envelope:
    usual: dict[str, Any] = {
        "status": "ok",
        "outcome": "done",
        "summary": "",
        "text": "",
        "turn": "k3-1",
        "session": "k3",
        "agent": "claude",
        "served_by": "claude",
        "started_at": 0.0,
        "duration_ms": 12345,
    }
    return Envelope(**{**usual, **fields})


def test_the_size_of_a_diff_is_counted_within_its_passages() -> None:
    comment = "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n SELECT 1\n--- old\n+++ new\n\\ No newline at end of file\n"
    assert diff_size(comment) == "+1 −1"
    assert diff_size(comment + "--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n@@ -5,0 +5 @@\n+y\n") == "+2 −2"
    assert diff_size("@@\n-a\n+b\n+c\n") == "+2 −1"  # of an agent that counts no lines
    assert diff_size("") == diff_size("no diff") == ""


def test_a_good_end() -> None:
    diff = (
        "diff --git a/app.py b/app.py\nindex 1..2 100644\n--- a/app.py\n+++ b/app.py\n@@ -1 +1,2 @@\n-a\n+b\n+c\n"
        "diff --git a/new.py b/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x\n"
        "diff --git a/old.py b/old.py\ndeleted file mode 100644\n--- a/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    )
    good = envelope(
        usage=Usage(input_tokens=1234, output_tokens=56),
        cost_usd=0.0063,
        steps=3,
        denied=(
            Denial(tool="Write", target="app.py", access="write"),
            Denial(tool="Bash", target="rm -rf /", reason="the sandbox"),
            Denial(tool="Web"),
        ),
        leaked=("node (12)",),
    )
    assert [plain(line) for line in ending(good, diff)] == [
        "✓ done · 12.3 s · 1,234 in / 56 out · $0.0063 · 3 steps",
        "  3 files changed",
        "    app.py  +2 −1",
        "    new.py  new +1 −0",
        "    old.py  deleted +0 −1",
        "left running, ended: node (12)",
        "refused: Write app.py — run again with --access write",
        "refused: Bash rm -rf / — the sandbox",
        "refused: Web",
        'continue: ostler run --session k3 "…"',
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {
                "status": "error",
                "outcome": "failed",
                "error": Problem(kind="unauthenticated", message="Invalid\nkey", hint="Run claude login"),
            },
            ["✗ failed (unauthenticated) · 12.3 s", "  Invalid key", "  Run claude login"],
        ),
        (
            {"status": "error", "outcome": "timed_out", "error": Problem(kind="timed_out", message="5 m are over")},
            ["✗ timed out · 12.3 s", "  5 m are over"],
        ),
        (
            {"status": "error", "outcome": "cancelled", "error": Problem(kind="cancelled", message="cancelled")},
            ["■ cancelled · 12.3 s"],
        ),
        (
            {"status": "error", "outcome": "crashed", "error": Problem(kind="crashed", message="signal 9")},
            ["✗ crashed · 12.3 s", "  signal 9"],
        ),
        ({"usage": Usage(output_tokens=1), "steps": 1}, ["✓ done · 12.3 s · 1 out · 1 step"]),
    ],
)
def test_other_ends(fields: dict[str, Any], expected: list[str]) -> None:
    told = [plain(line) for line in ending(envelope(**fields))]
    assert told == [*expected, 'continue: ostler run --session k3 "…"']


def test_the_way_on_is_quoted_and_left_out_for_commands() -> None:
    assert plain(ending(envelope(name="my $(x) session"))[-1]) == (
        "continue: ostler run --session 'my $(x) session' \"…\""
    )
    assert plain(continue_line("my session", talking=True)) == "continue: ostler chat -s 'my session'"
    assert [plain(line) for line in ending(envelope(agent="exec"))] == ["✓ done · 12.3 s"]


def test_many_changed_files_are_cut() -> None:
    diff = "".join(f"diff --git a/{n} b/{n}\n+x\n" for n in range(12))
    told = [plain(line) for line in ending(envelope(), diff)]
    assert told[1] == "  12 files changed"
    assert told[-3:] == ["    9  +1 −0", "    and 2 more", 'continue: ostler run --session k3 "…"']


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0.0 s"), (59.94, "59.9 s"), (65, "1 m 05 s"), (3725, "1 h 02 m"), (90000, "25 h 00 m")]
)
def test_durations(seconds: float, words: str) -> None:
    assert lines.spoken_duration(seconds) == words


def test_costs_and_ages() -> None:
    assert [lines.spoken_cost(c) for c in (0, 0.0063, 1.5)] == ["$0.00", "$0.0063", "$1.50"]
    assert [lines.spoken_age(s) for s in (5, 65, 7200, 200000)] == ["now", "1 m ago", "2 h ago", "2 d ago"]


def test_sessions_in_columns() -> None:
    row = Session(id="k3", agent="claude", folder="/home/me/p", created_at=0, used_at=40.0, turns=1, title="Fix\x1b it")
    other = Session(id="abcd", agent="codex", folder="/srv", created_at=0, used_at=0.0, turns=2, name="docs")
    assert columns(session_rows([row, other], now=100.0, home="/home/me")) == [
        "k3    claude  idle  1 turn     1 m ago  ~/p   Fix\\x1b it",
        "docs  codex   idle  2 turns    1 m ago  /srv",
    ]
    assert columns([]) == []
