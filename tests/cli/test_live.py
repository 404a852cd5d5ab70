"""What the views put on a terminal, a pipe, and stdout for programs."""

import io
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from ostler import clock
from ostler.cli.live import LiveView, PlainView
from ostler.cli.views import EventsView, ResultView, json_text
from ostler.model import (
    AnyEvent,
    Ended,
    Envelope,
    Limited,
    Problem,
    Started,
    Text,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Usage,
    UsageReport,
)
from ostler.render.turn_renderer import TurnRenderer

EVENTS: tuple[AnyEvent, ...] = (
    Started(seq=1, agent="claude", model="opus", folder="/p"),
    TextDelta(seq=2, text="Hello [bold]you[/bold] \x1b[31m"),
    Text(seq=3, text="Hello [bold]you[/bold] \x1b[31m"),
    ToolStarted(seq=4, id="1", name="Bash", title="ls"),
    ToolEnded(seq=5, id="1", duration_ms=100),
    Ended(seq=6, outcome="done"),
)
SHOWN_BEFORE = """\
● claude · opus · /p · access read

Hello [bold]you[/bold] \\x1b[31m

  ✓ Bash ls  0.1 s

✓ done · 1.0 s
continue: ostler run --session k3 "…"
"""


def result(**fields: Any) -> Envelope:
    usual: dict[str, Any] = {
        "status": "ok",
        "outcome": "done",
        "summary": "s",
        "text": "Hello",
        "turn": "k3-1",
        "session": "k3",
        "agent": "claude",
        "served_by": "claude",
        "started_at": 0.0,
        "duration_ms": 1000,
    }
    return Envelope(**{**usual, **fields})


def test_plain_view() -> None:
    out = io.StringIO()
    view = PlainView(out, TurnRenderer(access="read"))
    view.begin("claude")
    for event in EVENTS:
        view.show(event)
    view.end(result())
    view.stop()
    assert out.getvalue() == SHOWN_BEFORE


def _terminal() -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, width=80, height=24, markup=False, highlight=False, record=True
    )


def _screen(raw: str) -> str:
    """What a terminal shows after these bytes: the view only moves up, erases downwards and colours."""
    rows, row = [""], 0
    for part in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", raw):
        if part == "\n":
            row += 1
            rows += [""] * (row + 1 - len(rows))
        elif part == "\x1b[J":
            rows[row:] = [""]
        elif part.endswith("A") and part.startswith("\x1b"):
            row -= int(part[2:-1])
        elif not part.startswith(("\x1b", "\r")):
            rows[row] += part
    return "\n".join(rows).rstrip("\n") + "\n"


def test_live_view_leaves_the_same_lines_in_the_terminal() -> None:
    console = _terminal()
    view = LiveView(console, TurnRenderer(access="read", width=79, markdown=True))
    view.begin("claude")
    for event in EVENTS:
        view.show(event)
    view.end(result())
    raw = console.file.getvalue()  # type: ignore[attr-defined]
    assert _screen(raw) == SHOWN_BEFORE
    assert "\x1b[31m" not in raw.replace("\x1b[31m✗", "")
    assert raw.endswith('ostler run --session k3 "…"\n')
    assert raw.index("\x1b[?25l") < raw.index("\x1b[?25h")  # the cursor comes back


def _region(view: LiveView) -> list[str]:
    console = _terminal()
    console.print(view.region())
    frames = dict.fromkeys(map(ord, "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"), "*")
    return console.export_text().translate(frames).splitlines()


def test_what_stands_below_the_finished_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "monotonic", lambda: 100.0)
    view = LiveView(_terminal(), TurnRenderer(width=79, markdown=True))
    view.agent = "claude"
    assert _region(view) == ["", "* starting claude · 0.0 s · ctrl-c cancels"]
    view.show(Started(agent="claude"))
    assert _region(view) == ["", "* thinking · 0.0 s · ctrl-c cancels"]
    view.show(TextDelta(text="# Done\n**half** a \x1bline"))
    assert _region(view) == ["half a \\x1bline", "", "* writing · 0.0 s · ctrl-c cancels"]
    view.show(UsageReport(usage=Usage(input_tokens=1000, output_tokens=2), cost_usd=0.5))
    view.show(ToolStarted(id="1", name="Bash", title="sleep 5 " + "x" * 90))
    assert _region(view) == [
        "  * Bash sleep 5 " + "x" * 54 + "…  0.0 s",
        "",
        "* working · 0.0 s · 1,000 in / 2 out · $0.5000 · ctrl-c cancels",
    ]
    view.show(ToolEnded(id="1"))
    view.show(Limited(message="later"))
    assert _region(view) == ["", "* waiting · 0.0 s · 1,000 in / 2 out · $0.5000 · ctrl-c cancels"]


def test_events_view_is_the_journal() -> None:
    out = io.StringIO()
    view = EventsView(out)
    view.begin("claude")
    for event in EVENTS:
        view.show(event)
    view.end(result())
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["kind"] for line in lines] == [
        "started",
        "text_delta",
        "text",
        "tool_started",
        "tool_ended",
        "ended",
    ]
    assert lines[-1] == {"kind": "ended", "seq": 6, "outcome": "done"}


def test_result_view_prints_the_envelope_alone() -> None:
    out = io.StringIO()
    view = ResultView(out, envelope=True)
    view.begin("claude")
    for event in EVENTS:
        view.show(event)
    envelope = result(text="\x1b[31m \x9b \x7f")
    view.end(envelope)
    assert msgspec.json.decode(out.getvalue().encode(), type=Envelope) == envelope
    assert not {"\x1b", "\x9b", "\x7f"} & set(out.getvalue())


def test_quiet_prints_the_answer_and_the_error(capsys: Any) -> None:
    out = io.StringIO()
    ResultView(out, envelope=False).end(result())
    assert out.getvalue() == "Hello\n"
    error = Problem(kind="limited", message="no more", hint="Wait")
    ResultView(out, envelope=False).end(result(status="error", outcome="failed", text="", error=error))
    assert (out.getvalue(), capsys.readouterr().err) == ("Hello\n", "ostler: no more. Wait\n")


def test_quiet_prints_the_value_that_a_schema_asked_for() -> None:
    out = io.StringIO()
    ResultView(out, envelope=False).end(
        result(text='Sure! {"risk": "high"} Anything else?', structured={"risk": "high"})
    )
    assert json.loads(out.getvalue()) == {"risk": "high"}


def test_the_diff_is_summed_up(tmp_path: Path) -> None:
    diff = tmp_path / "diff"
    diff.write_text("diff --git a/x b/x\n+1\n")
    out = io.StringIO()
    view = PlainView(out, TurnRenderer())
    view.end(result(artifacts={"diff": str(diff)}))
    view.end(result(artifacts={"diff": str(tmp_path / "gone")}))
    assert out.getvalue() == (
        '\n✓ done · 1.0 s\n  1 file changed\n    x  +1 −0\ncontinue: ostler run --session k3 "…"\n'
        '\n✓ done · 1.0 s\ncontinue: ostler run --session k3 "…"\n'
    )


def test_json_text_is_json() -> None:
    assert json.loads(json_text({"a": "\x80ü\x1b"})) == {"a": "\x80ü\x1b"}
