"""copilot: recorded turns, single records, and what must not pass as success."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.replayed import (
    CAPTURES,
    EXPECTED,
    cases,
    check_expected,
    check_invariants,
    lines,
    replay,
    replay_lines,
    turn_of,
)
from ostler.agents import AGENTS
from ostler.model import (
    Denial,
    Exit,
    FileChange,
    Limited,
    Notice,
    Problem,
    Raw,
    Started,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
)

AGENT = AGENTS["copilot"]
FINAL = "All done. The tool ran and this is the final answer."
UUID = "12345678-1234-4234-8234-123456789abc"


def deltas(text: str, id: str) -> list[TextDelta]:
    words = text.split(" ")
    return [TextDelta(text=word + (" " if word is not words[-1] else ""), id=id) for word in words]


@pytest.mark.parametrize("case", cases("copilot"))
def test_every_capture_holds_the_invariants(case: str) -> None:
    events, _ = replay("copilot", case)
    check_invariants(events)


@pytest.mark.parametrize("case", [key.split("/")[1] for key in EXPECTED if key.startswith("copilot/")])
def test_every_capture_has_its_expected_verdict(case: str) -> None:
    _, verdict = replay("copilot", case)
    check_expected("copilot", case, verdict)


def test_a_turn_with_a_tool() -> None:
    events, verdict = replay("copilot", "turn-json")
    tool, command = "call_f86c54d94e4a4425", "echo hello-from-tool > tool_out.txt && cat tool_out.txt"
    first, last = "18147a4d-e179-467b-a23e-1b6ff74b3028", "57d33bf2-11f3-41c4-8113-5d81ad69bfdb"
    input = {"command": command, "description": "run the scripted step"}
    assert events == [
        Started(agent="copilot", model="fake-model", folder="/workspace"),
        *deltas("I will run one tool now.", first),
        Text(text="I will run one tool now.", id=first),
        ToolStarted(id=tool, name="bash", title=command, input=input),
        ToolEnded(id=tool, output="hello-from-tool\n<shellId: 0 completed with exit code 0>", exit_code=0),
        *deltas(FINAL, last),
        Text(text=FINAL, id=last),
    ]
    assert (verdict.outcome, verdict.usage, verdict.steps) == ("done", None, 2)
    assert verdict.evidence == ("result: exitCode 0",)


def test_a_refused_command() -> None:
    events, verdict = replay("copilot", "perm-default", access="write")
    tool, command = "call_24bc38c2a94340f5", "echo hello-from-tool > tool_out.txt && cat tool_out.txt"
    first, last = "2bc21bdd-1e3b-4bb0-a748-b6adb7de9ef1", "80917d52-0cd7-426c-8117-9b56425aae87"
    reason = (
        "Permission denied because no interactive user response was available. Retry in an interactive session"
        " so the user can approve it, or try an alternative that does not require this permission."
    )
    assert events == [
        Started(agent="copilot", model="fake-model", folder="/workspace"),
        *deltas("I will run one tool now.", first),
        Text(text="I will run one tool now.", id=first),
        ToolStarted(
            id=tool,
            name="bash",
            title=command,
            input={"command": command, "description": "run the scripted step"},
        ),
        ToolEnded(id=tool, ok=False, output=reason, denied=True),
        *deltas(FINAL, last),
        Text(text=FINAL, id=last),
    ]
    assert verdict.outcome == "done"
    assert verdict.denied == (Denial(tool="bash", target=command, access="full", reason=reason),)


def test_retries_are_told_as_they_happen() -> None:
    events, verdict = replay("copilot", "error-429")
    said = json.dumps(
        {"message": "scripted 429 from the fake server", "type": "rate_limit_error", "code": "rate_limit_error"}
        | {"param": None},
        separators=(",", ":"),
    )
    assert events == [
        Started(agent="copilot", model="fake-model", folder="/workspace"),
        *(Limited(error="limited", message=said, attempt=n) for n in range(1, 7)),
    ]
    assert verdict.error and verdict.error.message.endswith("Last error: 429 scripted 429 from the fake server")


def test_what_a_subagent_says_is_not_the_answer() -> None:
    events, verdict = replay("copilot", "subagent-denied", access="read")
    tools = [event for event in events if isinstance(event, ToolStarted)]
    assert [(tool.name, tool.parent) for tool in tools] == [("task", ""), ("create", tools[0].id)]
    texts = [(event.text, event.quiet) for event in events if isinstance(event, Text)]
    said = "I will run one tool now."
    assert texts == [(said, False), (said, True), (FINAL, True), (FINAL, False)]
    assert [(d.tool, d.target, d.access) for d in verdict.denied] == [("create", "/workspace/sub.txt", "write")]
    assert (verdict.outcome, verdict.text) == ("done", FINAL)


def test_a_chosen_id_is_confirmed_with_the_first_answer() -> None:
    events, verdict = replay("copilot", "sigint-mid-text", agent_session=UUID)
    started = [event.agent_session for event in events if isinstance(event, Started)]
    assert started == [None, UUID]
    assert (verdict.outcome, verdict.agent_session) == ("crashed", UUID)


def test_a_chosen_id_is_not_confirmed_before_that() -> None:
    stdout = (CAPTURES / "copilot" / "sigint-mid-text.ndjson").read_bytes().splitlines()
    kinds = [json.loads(line)["type"] for line in stdout]
    _, verdict = replay_lines("copilot", stdout[: kinds.index("assistant.message_start")], code=-9, agent_session=UUID)
    assert verdict.agent_session is None


def test_a_resumed_turn_knows_its_id_at_once() -> None:
    id = "9d1a1de9-812e-4b2e-806d-7967de918794"
    events, verdict = replay("copilot", "resume-id", resume=True, agent_session=id)
    assert events[0] == Started(agent="copilot", agent_session=id, model="fake-model", folder="/workspace")
    assert (verdict.outcome, verdict.agent_session) == ("done", id)


def test_a_bad_resume_id_is_not_found() -> None:
    _, verdict = replay("copilot", "resume-bad", resume=True, agent_session="11111111-2222-3333-4444-555555555555")
    message = "copilot has no conversation 11111111-2222-3333-4444-555555555555"
    assert verdict.error == Problem(kind="not_found", message=message)


def result(code: int, session: str = UUID) -> dict[str, Any]:
    return {"type": "result", "sessionId": session, "exitCode": code}


def test_exit_0_without_a_result_is_unproven() -> None:
    stdout = (CAPTURES / "copilot" / "turn-json.ndjson").read_bytes().splitlines()[:-1]
    _, verdict = replay_lines("copilot", stdout)
    assert (verdict.outcome, verdict.text) == ("unproven", FINAL)


def test_a_result_with_a_bad_exit_is_no_success() -> None:
    _, verdict = replay_lines("copilot", lines(result(0)), code=1)
    assert verdict.outcome == "crashed"


def test_a_bad_result_with_exit_0_is_no_success() -> None:
    _, verdict = replay_lines("copilot", lines(result(1)))
    assert (verdict.outcome, verdict.error and verdict.error.kind) == ("crashed", "crashed")


def test_an_error_after_the_last_answer_fails_a_good_result() -> None:
    error = {"type": "session.error", "data": {"errorType": "query", "message": "no", "statusCode": 503}}
    _, verdict = replay_lines("copilot", lines(error, result(0)))
    assert verdict.error and verdict.error.kind == "overloaded"
    answer = {"type": "assistant.message", "data": {"messageId": "m", "content": "fine"}}
    _, verdict = replay_lines("copilot", lines(error, answer, result(0)))
    assert (verdict.outcome, verdict.text) == ("done", "fine")


def test_a_resume_that_began_anew_is_not_found() -> None:
    _, verdict = replay_lines("copilot", lines(result(0, "another")), resume=True, agent_session=UUID)
    assert verdict.error and verdict.error.kind == "not_found"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"message": "Request exceeds the model's prompt budget (143490 tokens; limit 128000)"}, "bad_request"),
        ({"errorType": "quota", "message": "You have no requests left"}, "limited"),
        ({"errorType": "authentication", "message": "sign in"}, "unauthenticated"),
        ({"errorType": "query", "message": "boom"}, "crashed"),
    ],
)
def test_errors_without_a_status_have_a_kind(data: dict[str, Any], kind: str) -> None:
    _, verdict = replay_lines("copilot", lines({"type": "session.error", "data": data}, result(1)), code=1)
    assert verdict.error and verdict.error.kind == kind


def test_edits_carry_files_and_diffs() -> None:
    started = {"toolCallId": "t", "toolName": "create", "arguments": {"path": "/workspace/a.txt", "file_text": "x"}}
    ended = {
        "toolCallId": "t",
        "success": True,
        "fileEdits": [{"path": "/workspace/a.txt", "kind": "create"}, {"path": "/workspace/b.txt", "kind": "edit"}],
        "result": {"content": "Created", "detailedContent": "\ndiff --git a/a.txt b/a.txt\n+x\n"},
    }
    stdout = lines(
        {"type": "tool.execution_start", "data": started}, {"type": "tool.execution_complete", "data": ended}
    )
    events, _ = replay_lines("copilot", stdout)
    files = (FileChange(path="/workspace/a.txt", change="add"), FileChange(path="/workspace/b.txt"))
    assert events[1:] == [
        ToolStarted(id="t", name="create", title="/workspace/a.txt", input=started["arguments"]),
        ToolEnded(id="t", output="Created", diff="diff --git a/a.txt b/a.txt\n+x\n", files=files),
    ]


@pytest.mark.parametrize(
    ("access", "name", "path", "remedy"),
    [
        ("read", "create", "/workspace/a.py", "write"),
        ("read", "edit", "/workspace-evil/a.py", "full"),
        ("write", "create", "/elsewhere/a.py", "full"),
        ("full", "create", "/elsewhere/a.py", None),
    ],
)
def test_refusals_name_the_access_that_would_allow_them(access: Any, name: str, path: str, remedy: Any) -> None:
    started = {"toolCallId": "t", "toolName": name, "arguments": {"path": path}}
    ended = {"toolCallId": "t", "success": False, "error": {"message": "no", "code": "denied"}}
    stdout = lines(
        {"type": "tool.execution_start", "data": started}, {"type": "tool.execution_complete", "data": ended}
    )
    _, verdict = replay_lines("copilot", stdout, access=access)
    assert verdict.denied == (Denial(tool=name, target=path, access=remedy, reason="no"),)


def test_a_tool_that_was_taken_away_is_refused() -> None:
    started = {"toolCallId": "t", "toolName": "my-server-write", "arguments": {}}
    ended = {"toolCallId": "t", "success": False, "error": {"message": "Tool 'my-server-write' does not exist."}}
    stdout = lines(
        {"type": "tool.execution_start", "data": started}, {"type": "tool.execution_complete", "data": ended}
    )
    _, verdict = replay_lines("copilot", stdout, access="read")
    assert [(d.tool, d.access) for d in verdict.denied] == [("my-server-write", "full")]
    assert replay_lines("copilot", stdout, access="full")[1].denied == ()


def test_thoughts_warnings_and_unknown_records() -> None:
    unknown = {"type": "session.novelty", "data": {}}
    events, _ = replay_lines(
        "copilot",
        lines(
            {"type": "assistant.reasoning_delta", "data": {"reasoningId": "r", "deltaContent": "hm"}},
            {"type": "assistant.reasoning", "data": {"reasoningId": "r", "content": "hm"}},
            {"type": "session.warning", "data": {"warningType": "mcp", "message": "a server is down"}},
            {"type": "session.info", "data": {"infoType": "configuration", "message": "Disabled tools: sql"}},
            unknown,
        ),
    )
    assert events == [
        ThoughtDelta(text="hm", id="r"),
        Thought(text="hm", id="r"),
        Notice(text="a server is down", code="mcp"),
        Raw(record=unknown),
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["error", "result", "fileEdits", "toolCallId", "statusCode", "arguments", "content"]),
                inner,
            )
        ),
    )
)
def test_no_shape_of_a_record_raises(value: Any) -> None:
    reader = AGENT.reader(turn_of("copilot"))
    kinds = ("assistant.message", "tool.execution_start", "tool.execution_complete", "session.error")
    for kind in (*kinds, "model.call_failure", "assistant.message_delta", value):
        reader.read({"type": kind, "data": value})
        reader.read({"type": kind, "data": {"error": value, "result": value, "fileEdits": value, "toolCallId": "t"}})
    reader.flush()
    assert reader.open_tools == {}
    assert reader.end(Exit(code=0), "").outcome != "done"
