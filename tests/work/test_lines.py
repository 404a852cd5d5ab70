"""Each kind of event and each way to end, as the lines a person reads."""

from typing import Any

import pytest

from ostler.words import (
    Answered,
    AnyEvent,
    Asked,
    Denial,
    Ended,
    Envelope,
    FileChange,
    Hook,
    Limited,
    Notice,
    Plan,
    PlanStep,
    Problem,
    Raw,
    Session,
    Started,
    TerminalClosed,
    TerminalOpened,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Usage,
    UsageReport,
)
from ostler.work import lines
from ostler.work.lines import Story, columns, ending, plain, session_rows

STARTED = Started(agent="claude", model="opus", folder="/home/me/project")


def shown(*events: AnyEvent, **options: Any) -> list[str]:
    story = Story(access="read", home="/home/me", **options)
    return [plain(line) for event in events for line in story.feed(event)] + [plain(line) for line in story.flush()]


def test_a_whole_turn() -> None:
    assert shown(
        STARTED,
        ThoughtDelta(text="Let me"),
        Thought(text="Let me\nsee"),
        TextDelta(text="I'll run the te", id="1"),
        TextDelta(text="sts.\nThen ", id="1"),
        Text(text="I'll run the tests.\nThen we see.", id="1"),
        ToolStarted(id="t1", name="Bash", title="pytest -q"),
        ToolEnded(id="t1", ok=False, output="1\n2\n\n3\n4\n", exit_code=1, duration_ms=1234),
        ToolStarted(id="t2", name="Edit", title="app.py"),
        ToolEnded(id="t2", diff="--- a\n+++ b\n-x\n+y\n+z\n", duration_ms=20),
        UsageReport(usage=Usage(input_tokens=5)),
        Text(text="Done."),
        Ended(outcome="done"),
    ) == [
        "● claude · opus · ~/project · access read",
        "",
        "∴ Let me see",
        "",
        "I'll run the tests.",
        "Then we see.",
        "",
        "  ✗ Bash pytest -q  exit 1  1.2 s",
        "    1",
        "    2",
        "    ",
        "    3",
        "    4",
        "  ✓ Edit app.py  +2 −1  0.0 s",
        "",
        "Done.",
    ]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Started(agent="codex"), ["● codex · access read"]),
        (Text(text="one\n\ntwo\n"), ["one", "", "two"]),
        (TextDelta(text="half"), ["half"]),
        (Thought(text="x" * 200), ["∴ " + "x" * 99 + "…"]),
        (Thought(text="  "), []),
        (ThoughtDelta(text="x"), []),
        (ToolStarted(id="1", name="Bash"), []),
        (ToolEnded(id="unknown"), ["  ✓ tool"]),
        (ToolEnded(id="1", ok=False, denied=True), ["  ✗ tool  refused"]),
        (
            Plan(steps=(PlanStep(text="a", status="done"), PlanStep(text="b", status="active"), PlanStep(text="c"))),
            ["  ☑ a", "  ▸ b", "  ☐ c"],
        ),
        (Asked(id="1", tool="Bash"), ["? Bash asks for permission"]),
        (Answered(id="1", option="allow_once", by="policy"), ["? allowed by policy"]),
        (Answered(id="1", option="reject_always", by="you"), ["? always denied by you"]),
        (Answered(id="1", option="cancelled", by="timed_out"), ["? not answered: ended by timed_out"]),
        (
            Asked(id="1", tool="Bash", title="Run it", input={"command": "rm -r x\nls"}, reason="to tidy up"),
            ["? Bash asks: rm -r x ls", "  to tidy up"],
        ),
        (
            Asked(id="1", tool="Edit", files=(FileChange(path="a.py"),), input={"file_path": "a.py"}, diff="+1\n-2\n"),
            ["? Edit asks: a.py  +1 −1"],
        ),
        (UsageReport(usage=Usage(input_tokens=1)), []),
        (
            Limited(message="slow down", attempt=2, retry_in=12.0),
            ["! limited: slow down (attempt 2, again in 12.0 s)"],
        ),
        (Limited(error="overloaded"), ["! overloaded: overloaded"]),
        (Limited(), ["! limited: held up by a limit"]),
        (Notice(text="the diff\nwas skipped"), ["note: the diff was skipped"]),
        (Hook(name="Stop"), []),
        (TerminalOpened(terminal="t1", title="sh"), ["terminal sh opened"]),
        (TerminalClosed(terminal="t1"), ["terminal t1 closed"]),
        (Raw(line="??"), []),
        (Ended(outcome="done"), []),
        (Notice(text="hidden", quiet=True), []),
    ],
)
def test_each_event(event: AnyEvent, expected: list[str]) -> None:
    assert shown(event) == expected


def test_a_terminal_that_is_told_again_is_the_same_one() -> None:
    opened = TerminalOpened(terminal="t1", title="make check")
    again = TerminalOpened(terminal="t1", title="make check", tool="call 1")
    assert shown(opened, again, TerminalClosed(terminal="t1", exit_code=0)) == [
        "terminal make check opened",
        "terminal make check closed",
    ]


def test_verbose_hides_nothing() -> None:
    assert shown(
        Thought(text="one\ntwo"),
        Raw(record={"a": 1}),
        Hook(name="Stop"),
        Notice(text="quiet", quiet=True),
        ToolStarted(id="1", name="Bash", files=(FileChange(path="a.py"),)),
        ToolEnded(id="1", output="out"),
        verbose=True,
    ) == [
        "∴ one",
        "  two",
        "",
        "raw: {'a': 1}",
        "hook: Stop",
        "",
        "note: quiet",
        "",
        "  ✓ Bash a.py",
        "    out",
    ]


def test_commands_show_the_end_of_their_output() -> None:
    output = "".join(f"\trow {n}\n" for n in range(9))
    assert shown(ToolStarted(id="1", name="Bash", title="x"), ToolEnded(id="1", output=output, exit_code=0)) == [
        "  ✓ Bash x",
        "    … 4 lines before",
        *(f"        row {n}" for n in range(4, 9)),
    ]
    assert shown(ToolStarted(id="1", name="Read", title="x"), ToolEnded(id="1", output=output)) == ["  ✓ Read x"]
    assert len(shown(ToolStarted(id="1", name="Read"), ToolEnded(id="1", output=output), verbose=True)) == 10


def test_a_plan_is_told_once_and_then_what_is_done_or_new() -> None:
    def plan(*steps: tuple[str, Any]) -> Plan:
        return Plan(steps=tuple(PlanStep(text=text, status=status) for text, status in steps))

    assert shown(
        plan(("a", "active"), ("b", "pending")),
        plan(("a", "done"), ("b", "active")),
        plan(("a", "done"), ("b", "done"), ("c", "active")),
    ) == ["  ▸ a", "  ☐ b", "  ☑ a", "  ☑ b", "  ▸ c"]


def test_tools_of_a_subagent_are_indented() -> None:
    assert shown(
        ToolStarted(id="1", name="Task", title="look"),
        ToolStarted(id="2", name="Read", title="a.py", parent="1"),
        ToolEnded(id="2"),
        ToolEnded(id="1"),
    ) == ["    ✓ Read a.py", "  ✓ Task look"]


@pytest.mark.parametrize(
    ("deltas", "whole", "expected"),
    [
        (("a", "b"), "ab", ["ab"]),
        (("a\nb",), "a\nbc", ["a", "bc"]),
        ((), "x", ["x"]),
        (("ab ",), "ab", ["ab "]),
        (("abc",), "xyz", ["abc", "xyz"]),  # not what was streamed: said in full
    ],
)
def test_a_whole_text_is_not_said_twice(deltas: tuple[str, ...], whole: str, expected: list[str]) -> None:
    assert shown(*(TextDelta(text=text, id="1") for text in deltas), Text(text=whole, id="1")) == expected


def test_agents_cannot_act_on_the_terminal() -> None:
    evil = "\x1b]0;x\x07[bold]b[/bold]"
    safe = "\\x1b]0;x\\x07[bold]b[/bold]"
    assert shown(
        Started(agent=evil),
        TextDelta(text="\x1b["),
        TextDelta(text="31m\r"),
        Text(text=evil, id="2"),
        Thought(text=evil),
        ToolStarted(id="1", name=evil, title=evil),
        ToolEnded(id="1", ok=False, output=evil),
        Notice(text=evil),
        Limited(message=evil),
        Plan(steps=(PlanStep(text=evil),)),
        Asked(id="1", tool=evil),
        Raw(line=evil),
        verbose=True,
    ) == [
        f"● {safe} · access read",
        "",
        "\\x1b[31m\\x0d" + safe,
        "",
        f"∴ {safe}",
        "",
        f"  ✗ \\x1b]0;x\\x07[bold]b[/bold] {safe}",
        f"    {safe}",
        "",
        f"note: {safe}",
        f"! limited: {safe}",
        "",
        f"  ☐ {safe}",
        "",
        f"? {safe} asks for permission",
        "",
        f"raw: {safe}",
    ]


def test_long_text_without_newline_is_let_go_at_words() -> None:
    story = Story(width=10)
    printed = [plain(line) for line in story.feed(TextDelta(text="aaa bbb ccc ddd eee fff" + "g" * 25))]
    assert (printed, story.partial) == (["aaa bbb", "ccc ddd", "eee", "fffggggggg", "gggggggggg"], "gggggggg")


def test_markdown_is_coloured_and_left_as_it_is() -> None:
    story = Story()
    text = "# Title\nuse `x`, **b** and ` alone\n```py\ncode `y`\n```\n"
    assert story.feed(TextDelta(text=text)) == [
        [("# Title", "bold")],
        [("use ", ""), ("`x`", "cyan"), (", ", ""), ("**b**", "bold"), (" and ` alone", "")],
        [("```py", "dim")],
        [("code `y`", "cyan")],
        [("```", "dim")],
    ]


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
        "k3    claude  idle  1 turn   1 m ago  ~/p   Fix\\x1b it",
        "docs  codex   idle  2 turns  1 m ago  /srv",
    ]
    assert columns([]) == []
