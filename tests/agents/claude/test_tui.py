"""claude's screen and file, as the real 2.1.325 drew and wrote them against a scripted model."""

from typing import Any

import pytest
from msgspec import structs

from ostler.agents.claude.agent import AGENT, ClaudeTranscript
from ostler.agents.claude.tui import answer_ends, box, is_busy, pasted_prompt, question, transcripts
from ostler.agents.tui import Signals, TuiScreen
from ostler.errors import OstlerError
from ostler.model import AnyEvent, Host, Limits, Text, ToolEnded, ToolStarted, Turn, Usage

FACE = AGENT.tui
assert FACE is not None
ID = "11111111-1111-4111-8111-111111111111"
TURN = Turn(id="t", session="s", agent="claude", prompt="do it", folder="/f", agent_session=ID, access="full")
RULE = "─" * 120
FOOT = "  ⏸ manual mode on · ? for shortcuts · ← for agents"
READY = (" ▐▛███▛█   Claude Code v2.1.325", "", RULE, "❯\xa0", RULE, FOOT)
BUSY = (
    *("❯ hi", "", "● word0 word1", "", "✽ Cogitating… (1s · ↓ 51 tokens)", RULE, "❯\xa0", RULE),
    "  ⏸ manual mode on · esc to interrupt · ← for agents",
)
ASKING = (
    *("● Running the scripted step", "  ⎿  $ touch x.txt", "", RULE, " Bash command"),
    ' Tip: auto mode handles these prompts for you — choose "switch to auto mode" below',
    *(" run the scripted step", "╌" * 120, " touch x.txt", "╌" * 120, " Do you want to proceed?", " ❯ 1. Yes"),
    "   2. Yes, and always allow access to /f from this project",
    "   3. Yes, and switch to auto mode · auto mode handles these prompts for you",
    *("   4. No", "", " Esc to cancel · Tab to amend"),
)


@pytest.mark.parametrize(
    ("rows", "status", "text"),
    [
        ((), "starting", None),
        (READY, "ready", ""),
        (BUSY, "busy", ""),
        (ASKING, "asking", None),
        ((*READY[:3], "❯\xa0hello there", *READY[4:]), "ready", "hello there"),
        ((*READY[:3], "❯\xa0one", "  two", *READY[4:]), "ready", "one\ntwo"),
        (("● A list:", "  ❯ 1. Yes", "    2. No", *READY), "ready", ""),  # quoted by the model: no dialog
    ],
)
def test_the_screen(rows: tuple[str, ...], status: str, text: str | None) -> None:
    assert FACE is not None
    screen = TuiScreen(rows)
    assert (FACE.status(screen, Signals()), box(screen)) == (status, text)


def test_a_suggestion_is_no_text() -> None:
    rows = (*READY[:3], '❯\xa0Try "fix the tests"', *READY[4:])
    styled = (*READY[:3], '❯\xa0\x1b[0m\x1b[7mT\x1b[0m\x1b[2mry "fix the tests"\x1b[0m', *READY[4:])
    assert box(TuiScreen(rows, styled)) == ""  # the cursor stands on its first letter
    assert box(TuiScreen(rows, (*READY[:3], "❯\xa0\x1b[2mTry it\x1b[0m", *READY[4:]))) == ""


def test_where_an_answer_ends() -> None:
    assert answer_ends(TuiScreen(READY)) == 2 and answer_ends(TuiScreen(())) is None
    assert is_busy(TuiScreen(BUSY)) and not is_busy(TuiScreen(READY))


def test_a_dialog() -> None:
    found = question(TuiScreen(ASKING))
    assert found is not None
    assert found.title == "Bash command · run the scripted step · touch x.txt · Do you want to proceed?"
    assert [(o.keys, o.kind) for o in found.options] == [
        (("1",), "allow_once"),
        (("2",), None),  # it would be written into settings
        (("3",), None),  # it would widen the mode
        (("4",), "reject_once"),
    ]


def test_a_first_run_screen_has_no_numbers() -> None:
    rows = (
        RULE,
        " Accessing workspace:",
        "",
        " ❯ No, exit",
        "   Yes, I trust this folder",
        "",
        " Enter to confirm · Esc to cancel",
    )
    found = question(TuiScreen(rows))
    assert found is not None and found.title == "Accessing workspace:"
    assert [(o.name, o.keys, o.kind) for o in found.options] == [
        ("No, exit", ("Enter",), "reject_once"),
        ("Yes, I trust this folder", ("ArrowDown", "Enter"), "allow_once"),
    ]
    key = (RULE, "  Use this API key?", "", "    Yes", "  ❯ No (recommended)", "", "  Enter to confirm · Esc to cancel")
    found = question(TuiScreen(key))
    assert found is not None
    assert [(o.keys, o.kind) for o in found.options] == [
        (("ArrowUp", "Enter"), None),  # it would be written into settings
        (("Enter",), "reject_once"),
    ]


def test_its_launch() -> None:
    assert FACE is not None
    host = Host(executable="/bin/claude", private="/p")
    launch = FACE.launch(TURN, host)
    assert launch.argv == (
        *("/bin/claude", "--setting-sources=user", f"--session-id={ID}", "--permission-mode=default"),
    )
    assert launch.stdin == b"" and launch.env["CLAUDE_CODE_SANDBOXED"] == "1"
    read = FACE.launch(structs.replace(TURN, access="read", resume=True), host)
    assert {"--permission-mode=dontAsk", f"--resume={ID}"} <= set(read.argv)
    for wrong in (structs.replace(TURN, resume=True, fork=True), structs.replace(TURN, limits=Limits(cost_usd=1))):
        with pytest.raises(OstlerError, match="own screen"):
            FACE.launch(wrong, host)
    assert transcripts(TURN) == (f".claude/projects/*/{ID}.jsonl",)


@pytest.mark.parametrize(
    ("prompt", "command", "pasted"),
    [
        ("do it", False, "do it"),
        ("/exit", False, "\u2800/exit"),
        ("/exit", True, "/exit"),
        ("!ls", False, " !ls"),
        ("# note", False, " # note"),
    ],
)
def test_what_is_pasted(prompt: str, command: bool, pasted: str) -> None:
    assert pasted_prompt(structs.replace(TURN, prompt=prompt, command=command)) == pasted


def said(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "sessionId": ID, "message": {"role": "user", "content": content}, **more}


def told(block: dict[str, Any], stop: str, id: str = "m1", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 3}
    message = {"id": id, "model": "claude-x", "content": [block], "stop_reason": stop, "usage": usage}
    return {"type": "assistant", "sessionId": ID, "message": message, **more}


CALL = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "touch x"}}
SAID = {"type": "text", "text": "All done."}


def read(*records: dict[str, Any]) -> tuple[ClaudeTranscript, list[AnyEvent]]:
    reader = ClaudeTranscript(TURN)
    return reader, [event for record in records for event in reader.read(record)]


def test_a_turn_in_its_file() -> None:
    reader, events = read(
        {"type": "mode", "sessionId": ID},
        told(SAID, "end_turn"),  # of a turn before
        said("another prompt"),
        said("do it"),
        told({"type": "text", "text": "I will."}, "tool_use"),
        told(CALL, "tool_use"),
        said([{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}], toolUseResult={"stdout": ""}),
        told({"type": "text", "text": "aside"}, "end_turn", isSidechain=True),
        told(SAID, "end_turn", id="m2"),
        {"type": "system", "subtype": "turn_duration"},
    )
    assert [e.text for e in events if isinstance(e, Text)] == ["I will.", "All done."]
    assert [e.name for e in events if isinstance(e, ToolStarted)] == ["Bash"]
    assert [(e.ok, e.output) for e in events if isinstance(e, ToolEnded)] == [(True, "ok")]
    assert (reader.result, reader.text, reader.agent_session, reader.model) == ("ok", "All done.", ID, "claude-x")
    assert reader.usage == Usage(input_tokens=30, output_tokens=6, cached_tokens=10)  # two messages, three records
    assert reader.evidence == ["stop_reason end_turn"]


def test_a_hook_that_makes_it_go_on() -> None:
    reader, _ = read(said("do it"), told(SAID, "end_turn"), told(CALL, "tool_use", id="m2"))
    assert reader.result is None


def test_a_tool_that_was_refused_stops_it() -> None:
    reader, events = read(
        said("do it"),
        told(CALL, "tool_use"),
        said(
            [{"type": "tool_result", "tool_use_id": "c1", "content": "The user doesn't want to…", "is_error": True}],
            toolUseResult="User rejected tool use",
        ),
        said([{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
    )
    assert [(e.ok, e.denied) for e in events if isinstance(e, ToolEnded)] == [(False, True)]
    assert reader.interrupted and reader.result is None
    assert [(denial.tool, denial.target) for denial in reader.denied] == [("Bash", "touch x")]


def test_ends_that_are_none() -> None:
    failed, _ = read(
        said("do it"),
        told({"type": "text", "text": "API Error: 529 overloaded"}, "stop_sequence", isApiErrorMessage=True),
    )
    assert failed.problem is not None and (failed.result, failed.problem.kind) == ("error", "overloaded")
    cut, _ = read(said("do it"), told(SAID, "max_tokens"))
    assert cut.problem is not None and cut.problem.message == "claude stopped in the middle: max_tokens"
