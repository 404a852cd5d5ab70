"""qwen's screen and file, as the real 0.24.4 drew and wrote them against a scripted model."""

from typing import Any

import pytest

from ostler.agents.qwen.agent import AGENT
from ostler.agents.qwen.tui import QwenTranscript, answer_ends, box, is_busy, question, title_status, transcripts
from ostler.agents.qwen.tui import tui_launch as own_launch
from ostler.agents.tui import Signals, TuiScreen
from ostler.model import AnyEvent, Launch, Text, ToolEnded, ToolStarted, Turn

FACE = AGENT.tui
assert FACE is not None
ID = "11111111-1111-4111-8111-111111111111"
TURN = Turn(id="t", session="s", agent="qwen", prompt="do it", folder="/f", agent_session=ID, access="full")
RULE = "─" * 120
FOOT = ("  ➜ project · git:(master) · fake-model", "  ⏸ Ask permissions (shift + tab to cycle)")
READY = ("  > do it", "  ◆ One.", RULE, ">   Type your message or @path/to/file", RULE, *FOOT)
TYPED = (*READY[:3], "> [[hold:one]] wait \u200b", RULE, *FOOT)
LONG = (*READY[:3], "> [Pasted Content 102013 chars] \u200b", RULE, *FOOT)
BUSY = (*READY[:2], "  ⠙ Thinking hard... (3s · ↓ 5 tokens · esc to cancel)", *READY[2:])
BAR = " " * 60 + "█"
ASKING = (
    *(f"  > do it{BAR}", f"  ? Shell touch made.txt (run the scripted step) ←{BAR}", f"     touch made.txt{BAR}"),
    *(f"   Allow execution of: 'touch'?{BAR}", f"   › 1. Yes, allow once{BAR}"),
    *(f"     2. Always allow run 'touch *' commands in this project{BAR}",),
    *(f"     3. Always allow run 'touch *' commands for this user{BAR}", f"     4. No, suggest changes (esc){BAR}"),
    *("", "  ⠏ Waiting for user confirmation..."),
)


@pytest.mark.parametrize(
    ("rows", "title", "status", "text"),
    [
        ((), "Qwen - project", "starting", None),
        (READY, "Qwen - project", "ready", ""),
        (TYPED, "Qwen - project", "ready", "[[hold:one]] wait"),
        (BUSY, "◐︎ Qwen - project", "busy", ""),
        (READY, "◐︎ Qwen - project", "busy", ""),
        (ASKING, "✳︎ Qwen - project", "asking", None),
    ],
)
def test_status_and_box(rows: tuple[str, ...], title: str, status: str, text: str | None) -> None:
    assert FACE is not None
    screen = TuiScreen(rows)
    assert (FACE.status(screen, Signals(title=title)), box(screen)) == (status, text)
    assert is_busy(screen) is (rows == BUSY)


def test_what_the_box_shows() -> None:
    assert FACE is not None
    assert FACE.shows(TuiScreen(TYPED), "[[hold:one]] wait") and FACE.shows(TuiScreen(LONG), "x" * 100_000)
    assert not FACE.shows(TuiScreen(READY), "do it")
    assert answer_ends(TuiScreen(READY)) == 2 and answer_ends(TuiScreen(ASKING)) is None
    assert [title_status(each) for each in ("Qwen - p", "◐ Qwen", "✳ Qwen", "")] == ["ready", "busy", "asking", None]


def test_a_dialog() -> None:
    asked = question(TuiScreen(ASKING))
    assert asked is not None and asked.title == "? Shell touch made.txt (run the scripted step) ←"
    assert [(each.keys, each.kind) for each in asked.options] == [
        (("1",), "allow_once"),
        (("2",), None),  # kept in its settings
        (("3",), None),
        (("4",), "reject_once"),
    ]
    assert question(TuiScreen((*ASKING[:-2], *READY))) is None  # a list of the conversation


def test_the_launch() -> None:
    once = Launch(
        argv=("qwen", "--output-format=stream-json", "--approval-mode=yolo", f"--session-id={ID}"), stdin=b"x"
    )
    made = own_launch(once, TURN)
    assert (made.argv, made.stdin) == (("qwen", "--approval-mode=default", f"--session-id={ID}"), b"")
    assert transcripts(TURN) == (f".qwen/projects/*/chats/{ID}.jsonl",)


def user(text: str) -> dict[str, Any]:
    return {"type": "user", "sessionId": ID, "message": {"role": "user", "parts": [{"text": text}]}}


def said(*parts: dict[str, Any], used: bool = True) -> dict[str, Any]:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 2, "cachedContentTokenCount": 1}
    told = {"type": "assistant", "model": "m", "message": {"role": "model", "parts": list(parts)}}
    return {**told, **({"usageMetadata": usage} if used else {})}


CALL = {"functionCall": {"id": "c", "name": "run_shell_command", "args": {"command": "touch x"}}}


def result(status: str, **response: str) -> dict[str, Any]:
    part = {"functionResponse": {"id": "c", "name": "run_shell_command", "response": response}}
    return {
        "type": "tool_result",
        "message": {"parts": [part]},
        "toolCallResult": {"callId": "c", "status": status},
    }


def read(*records: dict[str, Any]) -> tuple[QwenTranscript, list[AnyEvent]]:
    reader = QwenTranscript(TURN)
    return reader, [event for record in records for event in reader.read(record)]


def test_a_turn_with_a_tool() -> None:
    done = result("success", output="made")
    reader, events = read(
        user("before"), user("do it"), said({"text": "One tool."}, CALL), done, said({"text": "Done."})
    )
    assert (reader.prompted, reader.result, reader.interrupted, reader.agent_session) == (True, "ok", False, ID)
    assert [e.text for e in events if isinstance(e, Text)] == ["One tool.", "Done."]
    assert [(e.name, e.title) for e in events if isinstance(e, ToolStarted)] == [("run_shell_command", "touch x")]
    assert [(e.ok, e.output) for e in events if isinstance(e, ToolEnded)] == [(True, "made")]
    assert reader.usage and (reader.usage.input_tokens, reader.usage.output_tokens) == (20, 4)


def test_a_call_that_was_not_allowed_ends_the_turn() -> None:
    reader, events = read(user("do it"), said(CALL), result("cancelled", error="User did not allow tool call"))
    assert reader.interrupted and reader.result is None
    assert [(e.ok, e.denied) for e in events if isinstance(e, ToolEnded)] == [(False, True)]


def test_an_answer_that_was_cut_off_is_none() -> None:
    reader, _ = read(user("do it"), said({"text": "All do"}, used=False))
    assert reader.result is None


def test_what_is_of_other_turns_or_of_another_shape() -> None:
    reader, events = read(user("other"), said({"text": "x"}), {"type": "system"}, {"type": "user", "message": None}, {})
    assert events == [] and not reader.prompted
