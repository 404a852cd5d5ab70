"""gemini's screen and file, as the real 0.61.0 drew and wrote them against a scripted model."""

from typing import Any

import pytest
from msgspec import structs

from ostler.agents.gemini.agent import AGENT, tui_prompt
from ostler.agents.gemini.tui import (
    GeminiTranscript,
    answer_ends,
    box,
    is_busy,
    pasted_prompt,
    question,
    title_status,
    transcripts,
    tui_launch,
)
from ostler.agents.tui import Signals, TuiScreen
from ostler.model import AnyEvent, Host, Launch, Text, ToolEnded, ToolStarted, Turn, Usage

FACE = AGENT.tui
assert FACE is not None
ID = "11111111-1111-4111-8111-111111111111"
TURN = Turn(id="t", session="s", agent="gemini", prompt="do it", folder="/f", agent_session=ID, access="full")
TOP, FOOT, RULE = "▄" * 120, "▀" * 120, "─" * 120
BOX = (RULE, " Shift+Tab to accept edits", TOP, " >   Type your message or @path/to/file", FOOT, " /f   no sandbox")
BUSY = (" > hi", "✦ word0", "", " ⠙ Thinking... (esc to cancel, 1s)      ? for shortcuts", *BOX)
ASKING = (
    *(TOP, " > hi", FOOT, "✦ I will run one tool now.", "", "╭" + "─" * 118 + "╮", "│ ? Shell  touch x.txt      │"),
    *("│ ╭────────────────────────╮ │", "│ │ touch x.txt            │ │", "│ ╰────────────────────────╯ │"),
    *("│ Allow execution of [Shell]? │", "│     │", "│ ● 1. Allow once  │", "│   2. Allow for this session │"),
    *("│   3. No, suggest changes (esc)   │", "╰" + "─" * 118 + "╯"),
)


@pytest.mark.parametrize(
    ("rows", "title", "status", "text"),
    [
        ((), "", "starting", None),
        (BOX, "◇  Ready (f)", "ready", ""),
        (BUSY, "✦  Working… (f)", "busy", ""),
        (BOX, "✦  Working… (f)", "busy", ""),
        (ASKING, "✋  Action Required (f)", "asking", None),
        ((*BOX[:3], " > hello", "   there", *BOX[4:]), "", "ready", "hello\nthere"),
        (("✦ A list:", " ● 1. Yes", "   2. No", *BOX), "", "ready", ""),  # written by the model: no dialog
    ],
)
def test_the_screen(rows: tuple[str, ...], title: str, status: str, text: str | None) -> None:
    assert FACE is not None
    screen = TuiScreen(rows)
    assert (FACE.status(screen, Signals(title=title)), box(screen)) == (status, text)
    assert is_busy(screen) is (rows is BUSY)


def test_titles_and_ends() -> None:
    assert [title_status(each) for each in ("◇ Ready", "✦ Working…", "✋ Action", "vim", "")] == [
        *("ready", "busy", "asking"),
        *(None, None),
    ]
    assert answer_ends(TuiScreen(("✦ Said.", *BOX))) == 1


def test_a_dialog() -> None:
    found = question(TuiScreen(ASKING))
    assert found is not None and found.title == "? Shell  touch x.txt"
    assert "Allow execution of [Shell]?" in found.text
    assert [(o.keys, o.kind) for o in found.options] == [
        (("1",), "allow_once"),
        (("2",), "allow_always"),
        (("3",), "reject_once"),
    ]


def test_its_launch() -> None:
    assert FACE is not None
    launch = FACE.launch(TURN, Host(executable="/bin/gemini", private="/p", trusted=True))
    assert launch.argv == ("/bin/gemini", "--approval-mode=default", f"--session-id={ID}")
    assert launch.stdin == b"" and launch.env["GEMINI_CLI_NO_RELAUNCH"] == "true"
    read = FACE.launch(structs.replace(TURN, access="read"), Host(executable="/bin/gemini", private="/p"))
    assert "--policy=/p/policy.toml" in read.argv
    assert [*read.files] == ["/p/policy.toml", "/p/trusted-folders.json"]
    once = Launch(argv=("/bin/gemini", "--output-format=stream-json", "--approval-mode=yolo", "--model=m"))
    assert tui_launch(once, TURN).argv == ("/bin/gemini", "--approval-mode=default", "--model=m")
    assert transcripts(TURN) == (".gemini/tmp/*/chats/session-*-11111111.jsonl",)


@pytest.mark.parametrize(
    ("prompt", "pasted"),
    [("do it", "do it"), ("/quit", "\u2800/quit"), ("!ls", "\u2800!ls"), ("mail a@b", "mail a\\@b")],
)
def test_what_is_pasted(prompt: str, pasted: str) -> None:
    assert tui_prompt(structs.replace(TURN, prompt=prompt)) == pasted
    assert pasted_prompt("/quit", structs.replace(TURN, command=True)) == "/quit"


def message(id: str, content: str, **more: Any) -> dict[str, Any]:
    tokens = {"input": 10, "output": 3, "cached": 5}
    return {"id": id, "type": "gemini", "content": content, "tokens": tokens, "model": "gemini-x", **more}


PROMPT = {"id": "u", "type": "user", "content": [{"text": "do it"}]}
RESULT = [{"functionResponse": {"response": {"output": "<untrusted_context>\nOutput: oats\n</untrusted_context>"}}}]
CALL = {"id": "c1", "name": "run_shell_command", "args": {"command": "touch x"}, "status": "success", "result": RESULT}


def read(*records: dict[str, Any]) -> tuple[GeminiTranscript, list[AnyEvent]]:
    reader = GeminiTranscript(TURN)
    return reader, [event for record in records for event in reader.read(record)]


def test_a_turn_in_its_file() -> None:
    reader, events = read(
        {"sessionId": ID, "kind": "main"},
        message("m0", "of a turn before"),
        PROMPT,
        {"$set": {"lastUpdated": "…"}},
        message("m1", "I will."),
        message("m1", "I will.", toolCalls=[CALL]),
        {"id": "u2", "type": "user", "content": [{"functionResponse": {}}]},
        message("m2", "All done."),
    )
    assert [e.text for e in events if isinstance(e, Text)] == ["I will.", "All done."]
    assert [(e.name, e.title) for e in events if isinstance(e, ToolStarted)] == [("run_shell_command", "touch x")]
    assert [(e.ok, e.output) for e in events if isinstance(e, ToolEnded)] == [(True, "Output: oats")]
    assert (reader.result, reader.text, reader.agent_session, reader.model) == ("ok", "All done.", ID, "gemini-x")
    assert reader.usage == Usage(input_tokens=20, output_tokens=6, cached_tokens=10)
    assert reader.evidence == ["an answer without a tool call"]


def test_an_answer_that_gets_a_tool_call_was_not_the_last() -> None:
    reader, _ = read(PROMPT, message("m1", "I will."))
    assert (reader.result, reader.tentative) == ("ok", True)
    reader.read(message("m1", "I will.", toolCalls=[{**CALL, "status": "cancelled"}]))
    assert reader.result is None


def test_ends_that_are_none() -> None:
    stopped, events = read(PROMPT, {"type": "info", "content": "Request cancelled."})
    assert stopped.interrupted and len(events) == 1
    failed, _ = read(PROMPT, {"type": "error", "content": "[API Error: got status: 429]"})
    assert failed.problem is not None and (failed.result, failed.problem.kind) == ("error", "limited")
