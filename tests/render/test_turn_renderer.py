"""Each kind of event, as the lines a person reads."""

from typing import Any

import pytest

from agents.replayed import replay
from ostler.model import (
    Answered,
    AnyEvent,
    Asked,
    Denial,
    Ended,
    FileChange,
    Forwarded,
    Hook,
    Limited,
    Notice,
    Plan,
    PlanStep,
    Raw,
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
from ostler.render.lines import MARKDOWN, plain, refusal
from ostler.render.turn_renderer import TurnRenderer
from ostler.terminal.cells import cells

STARTED = Started(agent="claude", model="opus", folder="/home/me/project")


def shown(*events: AnyEvent, **options: Any) -> list[str]:
    renderer = TurnRenderer(access="read", home="/home/me", **options)
    return [plain(line) for event in events for line in renderer.feed(event)] + [
        plain(line) for line in renderer.flush()
    ]


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
        (ToolEnded(id="1", ok=False, stopped=True, exit_code=130), ["  ■ tool  stopped"]),
        (
            Plan(steps=(PlanStep(text="a", status="done"), PlanStep(text="b", status="active"), PlanStep(text="c"))),
            ["  ☑ a", "  ▸ b", "  ☐ c"],
        ),
        (Asked(id="1", tool="Bash"), ["? Bash asks for permission"]),
        (Answered(id="1", option="allow_once", by="policy"), ["? allowed by policy"]),
        (Answered(id="1", option="reject_always", by="you"), ["? always denied by you"]),
        (
            Answered(id="1", option="reject_once", by="you", message="use\nthe other"),
            ["? denied by you: use the other"],
        ),
        (Answered(id="1", option="reject_once", by="time limit", message="too late"), ["? denied by time limit"]),
        (Answered(id="1", option="cancelled", by="timed_out"), ["? not answered: the turn took too long"]),
        (Answered(id="1", option="cancelled", by="the agent"), ["? not answered: the agent withdrew it"]),
        (Answered(id="1", option="cancelled", by="crashed"), ["? not answered: the turn ended"]),
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
        (Forwarded(to="https://b", ok=True, status=200), ["forwarded to https://b"]),
        (Forwarded(to="https://b", ok=False, answer="gone\naway"), ["not forwarded to https://b: gone away"]),
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
        "    … 4 earlier lines",
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


def test_markdown_is_coloured_and_left_as_it_is() -> None:
    renderer = TurnRenderer()
    text = "# Title\nuse `x`, **b** and ` alone\n```py\ncode `y`\n```\n"
    assert renderer.feed(TextDelta(text=text)) == [
        [("# Title", "bold")],
        [("use ", ""), ("`x`", "cyan"), (", ", ""), ("**b**", "bold"), (" and ` alone", "")],
        [("```py", "dim")],
        [("code `y`", "cyan")],
        [("```", "dim")],
    ]


def test_markdown_comes_in_blocks_where_it_can_be_drawn() -> None:
    renderer = TurnRenderer(markdown=True)
    assert renderer.feed(TextDelta(text="# Title\r\n\r\nuse **b", id="1")) == [[("# Title", MARKDOWN)]]
    assert renderer.partial == "use **b"
    assert renderer.feed(ToolStarted(id="1", name="Bash")) == [[], [("use **b", MARKDOWN)]]
    assert renderer.feed(ToolEnded(id="1"))[0] == []
    text = "\n\n- one\n- two"
    assert renderer.feed(Text(text=text)) == [[], [("- one", MARKDOWN)], [("- two", MARKDOWN)]]


def test_who_works_is_said_once() -> None:
    assert shown(STARTED, STARTED) == ["● claude · opus · ~/project · access read"]
    copilot, _ = replay("copilot", "turn-json", agent_session="11111111-2222-4333-8444-555555555555")
    assert sum(isinstance(event, Started) for event in copilot) == 2
    assert sum(line.startswith("● ") for line in shown(*copilot)) == 1
    before = "● claude · opus · ~/project · access read"
    assert shown(STARTED, header=before) == []  # an earlier turn said it
    other = Started(agent="claude", model="haiku", folder="/home/me/project")
    assert shown(STARTED, other, header=before) == ["● claude · haiku · ~/project · access read"]


def test_tools_have_ostlers_words_and_paths_from_the_folder() -> None:
    def tool(category: str, title: str = "", **fields: Any) -> str:
        started = ToolStarted(id="1", name="TheirName", category=category, title=title, **fields)
        return shown(STARTED, started, ToolEnded(id="1", duration_ms=100))[-1]

    assert tool("read", "/home/me/project/src/app.py") == "  ✓ read src/app.py  0.1 s"
    assert tool("search", "/home/me/project") == "  ✓ search .  0.1 s"
    assert tool("read", "/home/me/projects/x, /home/me/project/b") == "  ✓ read ~/projects/x, b  0.1 s"
    assert tool("edit", files=(FileChange(path="/home/me/project/a b.py"),)) == "  ✓ edit a b.py  0.1 s"
    assert tool("shell", "cat /home/me/project/x") == "  ✓ shell cat /home/me/project/x  0.1 s"
    assert tool("mcp", "an issue") == "  ✓ mcp TheirName an issue  0.1 s"
    asked = Asked(id="1", tool="Edit", category="edit", files=(FileChange(path="/home/me/project/a.py"),))
    assert shown(STARTED, asked)[-1] == "? Edit asks: a.py"
    refused = Denial(tool="Write", target="/home/me/project/a.py", reason="no")
    assert plain(refusal(refused, "/home/me/project")) == "refused: Write a.py — no"


def test_long_lines_end_in_dots_and_how_it_ended_is_still_seen() -> None:
    started = ToolStarted(id="1", name="Bash", category="shell", title="x" * 90)
    ended = ToolEnded(id="1", ok=False, output="日" * 300, exit_code=1, duration_ms=100)
    line, row = shown(started, ended, width=39)
    assert line == "  ✗ shell " + "x" * 13 + "…  exit 1  0.1 s"
    assert row == "    " + "日" * 16 + "…"
    assert (cells(line), cells(row)) == (39, 37)
