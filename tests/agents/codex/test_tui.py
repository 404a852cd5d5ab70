"""codex's screen and file, as the real 0.166.0 drew and wrote them against a scripted model."""

from typing import Any

import pytest
from msgspec import structs

from ostler.agents.codex.agent import AGENT
from ostler.agents.codex.tui import (
    CodexTranscript,
    answer_ends,
    box,
    is_busy,
    pasted_prompt,
    question,
    transcripts,
    tui_launch,
)
from ostler.agents.tui import Signals, TuiScreen
from ostler.errors import OstlerError
from ostler.model import AnyEvent, Host, McpServer, Text, Thought, ToolEnded, ToolStarted, Turn, Usage

FACE = AGENT.tui
assert FACE is not None
ID = "01a1e98c-b2a7-7d52-b78e-2dcdc02b98d5"
TURN = Turn(id="t1", session="s", agent="codex", prompt="do it", folder="/f", access="full")
HOST = Host(executable="/bin/codex", private="/p")
READY = ("  >_ OpenAI Codex (v0.166.0)", "     /f", "", "› Ask Codex to do anything", "", "  gpt-5.5 default · /f")
BUSY = ("› hi", "", "• Working (1s • esc to interrupt)", "", *READY[3:])
TRUST = (
    *("  Folder access", "  /f", "  Opening will not change saved trust.", "", "› 1. Open restricted", "  2. Quit"),
    *("", "  enter continue · esc quit"),
)
NEWS = ("  Meet GPT-6 Sol", "", "› 1. Try new model", "  2. Use existing model", "", "  enter/esc confirm")
ASKING = (
    *("• I will run one tool now.", "", "  Would you like to run the following command?", "", "  Reason: needed"),
    *("", "  $ touch x.txt", "", "› 1. Yes, proceed (y)"),
    "  2. Yes, and don't ask again for commands that start with `touch` (p)",
    *("  3. No, and tell Codex what to do differently (esc)", "", "  Press enter to confirm or esc to cancel"),
)


@pytest.mark.parametrize(
    ("rows", "status", "text"),
    [
        ((), "starting", None),
        (READY, "ready", ""),
        (BUSY, "busy", ""),
        (ASKING, "asking", None),
        (TRUST, "asking", None),
        ((*READY[:3], "› hello", "  there", "", "  gpt-5.5"), "ready", "hello\nthere"),
        (("• A list:", "› 1. Yes", "  2. No", *READY), "ready", ""),  # written by the model: no dialog
        ((*READY[:2], "› 1. Yes", "  2. No", "", "  gpt-5.5"), "ready", "1. Yes\n2. No"),  # typed into the box
    ],
)
def test_the_screen(rows: tuple[str, ...], status: str, text: str | None) -> None:
    assert FACE is not None
    screen = TuiScreen(rows)
    assert (FACE.status(screen, Signals()), FACE.box(screen)) == (status, text)
    assert (FACE.is_busy(screen), is_busy(screen)) == (rows is BUSY, rows is BUSY)
    assert FACE.question(screen) == question(screen) and FACE.answer_ends(screen) == answer_ends(screen)


def test_a_box_is_ready_once_codex_has_said_something_of_itself() -> None:
    """While it starts it draws a box that takes keys, and its first-run screens over that, however much later."""
    assert FACE is not None
    screen = TuiScreen(READY)
    assert FACE.status(screen, Signals(silent=True)) == "starting"
    assert FACE.status(TuiScreen(TRUST), Signals(silent=True)) == "asking"
    assert FACE.status(screen, Signals(state="idle")) == FACE.status(screen, Signals(title="project")) == "ready"


def test_what_is_faint_in_the_box_is_no_text() -> None:
    rows = (*READY[:3], "› Explain this codebase", "", "  gpt-5.5")
    styled = (*READY[:3], "› \x1b[2mExplain this codebase\x1b[0m", "", "  gpt-5.5")
    assert box(TuiScreen(rows, styled)) == "" and box(TuiScreen(rows)) == "Explain this codebase"


def test_a_dialog() -> None:
    found = question(TuiScreen(ASKING))
    assert found is not None and found.title == "Would you like to run the following command?"
    assert "$ touch x.txt" in found.text and found.settled_by is None
    assert [(o.keys, o.kind) for o in found.options] == [
        (("Enter",), "allow_once"),
        (("ArrowDown", "Enter"), None),  # it would be written into a file of rules
        (("ArrowDown", "ArrowDown", "Enter"), "reject_once"),
    ]


@pytest.mark.parametrize(
    ("title", "status"),
    [("", None), ("project", "ready"), ("⠧ fake | project", "busy"), ("[ ! ] Action Required | project", "asking")],
)
def test_its_title(title: str, status: str | None) -> None:
    assert FACE is not None and FACE.title_status(title) == status


def test_a_long_list_is_a_question_without_options() -> None:
    rows = ("  Select Model", "", "↑", "  2. One", "› 9. Another", "", "  enter select · esc back")
    found = question(TuiScreen(rows))
    assert found is not None and found.options == () and "Select Model" in found.text


@pytest.mark.parametrize(("rows", "name"), [(TRUST, "Open restricted"), (NEWS, "Use existing model")])
def test_first_run_screens_that_are_known(rows: tuple[str, ...], name: str) -> None:
    found = question(TuiScreen(rows))
    assert found is not None and found.settled_by is not None and found.settled_by.name == name


def test_its_launch() -> None:
    assert FACE is not None
    full = FACE.launch(TURN, HOST)
    assert {"--sandbox=workspace-write", '--config=approval_policy="on-request"'} <= set(full.argv)
    assert any("untrusted" in flag for flag in full.argv)
    read = tui_launch(structs.replace(TURN, access="read", agent_session=ID, resume=True), HOST)
    assert read.argv[-2:] == ("resume", ID)
    assert {'--config=default_permissions="ostler-t1"', '--config=approval_policy="never"'} <= set(read.argv)
    assert any('extends=":read-only"' in flag for flag in read.argv)
    for wrong in (
        structs.replace(TURN, resume=True, fork=True),
        structs.replace(TURN, mcp=(McpServer(name="m", command="x"),)),
        structs.replace(TURN, resume=True, agent_session="latest"),
    ):
        with pytest.raises(OstlerError):
            tui_launch(wrong, HOST)
    system = structs.replace(TURN, system="Be brief.", model="m", lean=True)
    assert {'--config=developer_instructions="Be brief."', "--model=m"} <= set(tui_launch(system, HOST).argv)
    assert tui_launch(structs.replace(system, system_mode="replace"), HOST).files == {"/p/system.md": b"Be brief."}
    assert FACE.transcripts(TURN) == (".codex/sessions/*/*/*/rollout-*.jsonl",) == transcripts(TURN)
    assert transcripts(structs.replace(TURN, resume=True, agent_session=ID)) == (
        f".codex/sessions/*/*/*/rollout-*{ID}.jsonl",
    )


@pytest.mark.parametrize(
    ("prompt", "command", "pasted"),
    [("do it", False, "do it"), ("/quit", False, "\u2800/quit"), ("/quit", True, "/quit"), ("!ls", False, "\u2800!ls")],
)
def test_what_is_pasted(prompt: str, command: bool, pasted: str) -> None:
    assert FACE is not None
    turn = structs.replace(TURN, prompt=prompt, command=command)
    assert FACE.prompt(turn) == pasted_prompt(turn) == pasted


def item(**payload: Any) -> dict[str, Any]:
    return {"type": "response_item", "payload": payload}


def event(**payload: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": payload}


def said(role: str, words: str) -> dict[str, Any]:
    return item(type="message", role=role, id="m1", content=[{"type": f"{role}_text", "text": words}])


META = {"type": "session_meta", "payload": {"id": ID, "cwd": "/f"}}
CONTEXT = {"active_permission_profile": {"id": "ostler-t0"}, "approval_policy": "never", "model": "gpt-x"}
CALL = item(type="function_call", call_id="c1", name="exec_command", arguments='{"cmd": "touch x"}')
PATCH = item(type="custom_tool_call", call_id="c2", name="apply_patch", input="*** Begin Patch")
USED = {"input_tokens": 10, "cached_input_tokens": 5, "output_tokens": 3, "reasoning_output_tokens": 1}
COUNT = event(type="token_count", info={"last_token_usage": USED})
DONE = event(type="task_complete", last_agent_message="All done.")


def read(*records: dict[str, Any], turn: Turn = TURN) -> tuple[CodexTranscript, list[AnyEvent]]:
    assert FACE is not None
    reader = FACE.reader(turn)
    assert isinstance(reader, CodexTranscript)
    return reader, [event for record in records for event in reader.read(record)]


def test_a_turn_in_its_file() -> None:
    reader, events = read(
        META,
        {"type": "turn_context", "payload": CONTEXT},
        said("assistant", "of a turn before"),
        said("user", "<environment_context>"),
        said("user", "do it"),
        item(type="reasoning", summary=[{"text": "Easy."}]),
        CALL,
        item(type="function_call_output", call_id="c1", output="Process exited with code 0\nOutput:\n"),
        PATCH,
        item(type="custom_tool_call_output", call_id="c2", output='{"output": "patch rejected by user"}'),
        COUNT,
        said("assistant", "All done."),
        COUNT,
        DONE,
    )
    assert [e.text for e in events if isinstance(e, Text)] == ["All done."]
    assert [e.text for e in events if isinstance(e, Thought)] == ["Easy."]
    assert [(e.name, e.title) for e in events if isinstance(e, ToolStarted)] == [
        ("command_execution", "touch x"),
        ("file_change", "*** Begin Patch"),
    ]
    assert [(e.ok, e.denied) for e in events if isinstance(e, ToolEnded)] == [(True, False), (False, True)]
    assert (reader.result, reader.text, reader.agent_session, reader.model) == ("ok", "All done.", ID, "gpt-x")
    assert reader.usage == Usage(input_tokens=20, output_tokens=6, cached_tokens=10, reasoning_tokens=2)


def test_ends_that_are_none() -> None:
    wrong = {"message": '{"error": {"message": "no such thing", "type": "invalid_request_error"}}'}
    failed, _ = read(META, said("user", "do it"), event(type="task_complete", error=wrong))
    assert failed.problem is not None and (failed.result, failed.problem.message) == ("error", "no such thing")
    stopped, _ = read(META, said("user", "do it"), event(type="turn_aborted", reason="interrupted"))
    assert stopped.interrupted and stopped.result is None


@pytest.mark.parametrize(
    "changed", [{"active_permission_profile": {"id": ":danger-full-access"}}, {"approval_policy": "on-request"}]
)
def test_a_turn_that_was_not_kept_to_its_access_is_not_ok(changed: dict[str, Any]) -> None:
    context = {"type": "turn_context", "payload": {**CONTEXT, **changed}}
    reader, _ = read(META, context, said("user", "do it"), DONE, turn=structs.replace(TURN, access="read"))
    assert reader.problem is not None and reader.problem.kind == "denied"
