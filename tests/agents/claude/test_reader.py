"""claude: verdicts of recorded cases, event lists by hand, and what must not pass as success."""

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
    Event,
    Exit,
    FileChange,
    Hook,
    Limited,
    Notice,
    Plan,
    PlanStep,
    Problem,
    Raw,
    Started,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Usage,
    UsageReport,
    Verdict,
)

AGENT = AGENTS["claude"]
FINAL = "All done. The tool ran and this is the final answer."
UUID = "12345678-1234-4234-8234-123456789abc"
COMMAND = "echo hello-from-tool > tool_out.txt && cat tool_out.txt"
LOGIN = "Run `claude` and type /login, or set ANTHROPIC_API_KEY"
# Two turns in one process, or hook payloads: not one-shot turns.
OTHERS = ("control-", "input-stream-json")
ONE_SHOT = [c for c in cases("claude") if not c.startswith(OTHERS) and not c.endswith((".hooks", ".received"))]


@pytest.mark.parametrize("case", [name.partition("/")[2] for name in EXPECTED if name.startswith("claude/")])
def test_verdict_of_every_recorded_case(case: str) -> None:
    check_expected("claude", case, replay("claude", case)[1])


@pytest.mark.parametrize("case", ONE_SHOT)
def test_what_holds_for_every_recorded_case(case: str) -> None:
    check_invariants(replay("claude", case)[0])


def test_events_of_a_turn_with_a_command() -> None:
    events, verdict = replay("claude", "turn-partial")
    session, tool = "4f644166-5fbc-43d4-bad8-09b44e64b85d", "toolu_62b7baee835e4cbba3b8"
    first, second = "msg_8a2fddbf648041819e4f", "msg_012dac52810046129595"
    usage = Usage(input_tokens=4468, output_tokens=112, cached_tokens=2000, reasoning_tokens=0)
    made = "/workspace/tool_out.txt"
    assert events == [
        Started(agent="claude", agent_session=session, model="claude-opus-5-5", folder="/workspace"),
        *(TextDelta(text=word, id=first) for word in ("I ", "will ", "run ", "one ", "tool ", "now.")),
        Text(text="I will run one tool now.", id=first),
        ToolStarted(
            id=tool, name="Bash", title=COMMAND, input={"command": COMMAND, "description": "run the scripted step"}
        ),
        ToolEnded(
            id=tool,
            output="hello-from-tool",
            diff="--- /dev/null\n+++ b/tool_out.txt\n@@ -0,0 +1,1 @@\n+hello-from-tool\n",
            files=(FileChange(path=made, change="add"),),
        ),
        *(TextDelta(text=word, id=second) for word in ("All ", "done. ", "The ", "tool ", "ran ", "and ", "this ")),
        *(TextDelta(text=word, id=second) for word in ("is ", "the ", "final ", "answer.")),
        Text(text=FINAL, id=second),
        UsageReport(usage=usage, cost_usd=0.012512),
    ]
    assert verdict == Verdict(
        outcome="done",
        evidence=("result success, completed",),
        text=FINAL,
        agent_session=session,
        model="claude-opus-5-5",
        usage=usage,
        cost_usd=0.012512,
        steps=2,
    )


def test_events_of_a_refused_command() -> None:
    events, verdict = replay("claude", "perm-dontAsk", access="read")
    tool = "toolu_b897b66d01544fcc8f3c"
    ended = [e for e in events if isinstance(e, ToolEnded)]
    assert [(e.id, e.ok, e.denied, e.exit_code) for e in ended] == [(tool, False, True, None)]
    assert verdict.denied == (
        Denial(
            tool="Bash",
            target=COMMAND,
            access="write",
            reason="Permission to use Bash has been denied because Claude Code is running in don't ask mode.",
        ),
    )


def test_events_of_a_turn_with_a_thought() -> None:
    events, _ = replay("claude", "turn-thinking")
    id, thought = "msg_7e30082e561048bcae0d", "Let me think about this first."
    assert events[1:3] == [ThoughtDelta(text=thought, id=id), Thought(text=thought, id=id)]
    assert events[-2] == Text(text=FINAL, id=id)


def test_events_of_a_server_that_refuses() -> None:
    events, verdict = replay("claude", "error-401")
    said = "Failed to authenticate. API Error: 401 scripted 401 from the fake server"
    session = "31835edb-d559-4a0f-8e36-2cede240536a"
    retry = "authentication_failed (401)"
    assert events == [
        Started(agent="claude", agent_session=session, model="claude-opus-5-5", folder="/workspace"),
        Limited(error="unauthenticated", message=retry, attempt=1, retry_in=0.607),
        Limited(error="unauthenticated", message=retry, attempt=2, retry_in=1.005),
        Notice(text=said, code="agent"),
    ]
    assert verdict == Verdict(
        outcome="failed",
        error=Problem(kind="unauthenticated", message=said, hint=LOGIN),
        evidence=("result success, api_error",),
        agent_session=session,
        model="claude-opus-5-5",
        steps=1,
    )


def test_hooks_are_quiet_events() -> None:
    events, _ = replay("claude", "hooks-include-events")
    hooks = [e for e in events if isinstance(e, Hook)]
    assert {e.name for e in hooks} >= {"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"}
    assert all(e.quiet for e in hooks)


def test_a_schema_gives_the_object_and_its_tool_is_quiet() -> None:
    events, verdict = replay("claude", "json-schema-stream")
    assert verdict.structured == {"answer": "fake", "n": 7}
    assert [e.quiet for e in events if isinstance(e, ToolStarted | ToolEnded)] == [True, True]


INIT = {"type": "system", "subtype": "init", "session_id": UUID, "model": "m"}
RESULT = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "result": "hay"}
LOGGED_OUT = "Not logged in · Please run /login"


def verdict_of(*records: Any, code: int = 0, stderr: str = "", **options: Any) -> Verdict:
    return replay_lines("claude", lines(*records), stderr, code, **options)[1]


@pytest.mark.parametrize(
    ("records", "code", "outcome", "kind"),
    [
        ([INIT], 0, "unproven", "unproven"),
        ([], 0, "unproven", "unproven"),
        ([INIT, RESULT | {"num_turns": 0}], 0, "unproven", "unproven"),
        ([INIT, RESULT | {"is_error": True, "api_error_status": 401}], 0, "failed", "unauthenticated"),
        ([INIT, RESULT | {"is_error": True, "api_error_status": 429.0}], 1, "failed", "limited"),
        ([INIT, RESULT | {"is_error": True, "result": LOGGED_OUT}], 1, "failed", "unauthenticated"),
        ([INIT, RESULT | {"is_error": True, "terminal_reason": "aborted_streaming"}], 0, "cancelled", "cancelled"),
        ([INIT, RESULT | {"is_error": True, "terminal_reason": "aborted_tools"}], 0, "cancelled", "cancelled"),
        ([INIT, RESULT | {"subtype": None}], 0, "crashed", "crashed"),
        ([INIT, RESULT], 1, "crashed", "crashed"),
        ([INIT, RESULT], -15, "crashed", "crashed"),
    ],
)  # fmt: skip
def test_not_a_success(records: list[Any], code: int, outcome: str, kind: str) -> None:
    verdict = verdict_of(*records, code=code)
    assert (verdict.outcome, verdict.error and verdict.error.kind) == (outcome, kind)


def test_a_success_is_one() -> None:
    assert verdict_of(INIT, RESULT).outcome == "done"
    assert verdict_of(INIT, RESULT | {"num_turns": 0}, prompt="/cost", command=True).text == "hay"


def test_half_a_stream_keeps_its_text() -> None:
    whole = (CAPTURES / "claude" / "turn-partial.ndjson").read_bytes().splitlines()
    events, verdict = replay_lines("claude", [*whole[:6], whole[6][:40]], code=-9)
    assert events[-2:] == [
        Raw(line=whole[6][:40].decode()),
        Text(text="I will ", id="msg_8a2fddbf648041819e4f"),
    ]
    assert (verdict.outcome, verdict.text, verdict.steps) == ("crashed", "I will ", None)


def test_a_tool_that_never_ended_is_closed() -> None:
    events, _ = replay("claude", "sigterm-mid-tool")
    assert isinstance(events[-1], ToolEnded) and not events[-1].ok


def test_a_bad_resume_id_is_not_found() -> None:
    said = f"No conversation found with session ID: {UUID}"
    record = {"type": "result", "subtype": "error_during_execution", "is_error": True, "num_turns": 0}
    verdict = verdict_of(record | {"session_id": UUID, "errors": [said]}, code=1, resume=True, agent_session=UUID)
    assert (verdict.outcome, verdict.agent_session) == ("failed", None)
    assert verdict.error == Problem(kind="not_found", message=said)


def test_another_conversation_than_the_one_asked_for_is_not_found() -> None:
    other = UUID.replace("1", "2")
    verdict = verdict_of(INIT, RESULT, resume=True, agent_session=other)
    assert verdict.error and verdict.error.kind == "not_found"
    assert verdict_of(INIT, RESULT, resume=True, fork=True, agent_session=other).error is None


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Error: Session ID 1-2 is already in use.", "exists"),
        ("Error: Invalid session ID. Must be a valid UUID.", "bad_request"),
        ("error: unknown option '--tools'", "bad_request"),
        ("Error: piped stdin input exceeds 10MB.", "bad_request"),
        ("segmentation fault", "crashed"),
    ],
)
def test_what_stderr_says_of_a_failed_start(said: str, kind: str) -> None:
    verdict = verdict_of(code=1, stderr=said)
    assert verdict.error == Problem(kind=kind, message=said)  # type: ignore[arg-type]


def test_a_sandbox_that_is_not_there_is_missing() -> None:
    said = "Sandbox required but unavailable: bubblewrap (bwrap) not installed"
    record = {"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": [said]}
    assert verdict_of(record, code=1).error == Problem(kind="missing", message=said)


def test_a_schema_whose_tool_was_never_called_leaves_nothing() -> None:
    _, verdict = replay("claude", "json-schema-never-called", schema={"type": "object"})
    assert (verdict.outcome, verdict.structured) == ("done", None)


def use(name: str, input: Any, parent: str | None = None) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "t1", "name": name, "input": input}
    return {"type": "assistant", "parent_tool_use_id": parent, "message": {"id": "m1", "content": [block]}}


def answer(content: Any, detail: Any = None, is_error: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": is_error}
    return {"type": "user", "message": {"content": [block]}, "tool_use_result": detail}


def test_an_edit_has_its_diff() -> None:
    patch = [{"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3, "lines": [" a", "-b", "+B", " c"]}]
    input = {"file_path": "/workspace/e.txt", "old_string": "b", "new_string": "B"}
    events, _ = replay_lines(
        "claude", lines(use("Edit", input), answer("ok", {"filePath": "/workspace/e.txt", "structuredPatch": patch}))
    )
    files = (FileChange(path="/workspace/e.txt"),)
    assert events == [
        ToolStarted(id="t1", name="Edit", title="/workspace/e.txt", input=input, files=files),
        ToolEnded(
            id="t1", output="ok", files=files, diff="--- a/e.txt\n+++ b/e.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
        ),
    ]


def test_a_failed_edit_changed_nothing() -> None:
    input = {"file_path": "/workspace/e.txt"}
    events, _ = replay_lines("claude", lines(use("Edit", input), answer("no such string", "Error", True)))
    assert events[-1] == ToolEnded(id="t1", ok=False, output="no such string")


def test_the_exit_code_of_a_command() -> None:
    events, _ = replay_lines("claude", lines(use("Bash", {"command": "false"}), answer("Exit code 3\nno", None, True)))
    assert events[-1] == ToolEnded(id="t1", ok=False, output="Exit code 3\nno", exit_code=3)


def test_a_plan() -> None:
    todos = [
        {"content": "feed", "status": "completed"},
        {"content": "brush", "status": "in_progress"},
        {"content": "ride", "status": "pending"},
    ]
    events, _ = replay_lines("claude", lines(use("TodoWrite", {"todos": todos})))
    assert events[1] == Plan(
        steps=(
            PlanStep(text="feed", status="done"),
            PlanStep(text="brush", status="active"),
            PlanStep(text="ride", status="pending"),
        )
    )


def test_a_subagents_words_are_not_the_answer() -> None:
    said = {"type": "assistant", "parent_tool_use_id": "t9", "message": {"id": "m", "content": "inner"}}
    events, verdict = replay_lines("claude", lines(said, use("Read", {"file_path": "/x"}, "t9")))
    assert events[:2] == [
        Text(text="inner", id="m", quiet=True),
        ToolStarted(id="t1", name="Read", title="/x", input={"file_path": "/x"}, parent="t9"),
    ]
    assert verdict.text == ""


@pytest.mark.parametrize(
    ("access", "name", "remedy"),
    [
        ("read", "Write", "write"),
        ("read", "Bash", "write"),
        ("write", "Bash", "full"),
        ("read", "mcp__db__put", "full"),
    ],
)
def test_a_tool_that_was_taken_away_is_refused(access: str, name: str, remedy: Any) -> None:
    said = f"<tool_use_error>Error: No such tool available: {name}</tool_use_error>"
    events, verdict = replay_lines("claude", lines(use(name, {"path": "p"}), answer(said, None, True)), access=access)
    assert isinstance(events[-1], ToolEnded) and events[-1].denied
    reason = f"Error: No such tool available: {name}"
    assert verdict.denied == (Denial(tool=name, target="p", access=remedy, reason=reason),)


def test_a_tool_that_never_was_is_not_refused() -> None:
    said = "<tool_use_error>Error: No such tool available: Teleport</tool_use_error>"
    _, verdict = replay_lines("claude", lines(use("Teleport", {}), answer(said, None, True)), access="read")
    assert verdict.denied == ()


def test_a_users_hook_refuses_whatever_the_access() -> None:
    _, verdict = replay("claude", "hooks-pretool-deny", access="read")
    reason = "PreToolUse:Bash hook error: policy says no"
    assert verdict.denied == (Denial(tool="Bash", target=COMMAND, reason=reason),)


def test_usage_since_the_result_before_is_added_up() -> None:
    since = {"a": {"inputTokens": 1, "outputTokens": 2.0, "cacheReadInputTokens": None, "costUSD": 0.5}}
    verdict = verdict_of(INIT, *[RESULT | {"model_usage_since_last_result": since}] * 2)
    assert verdict.usage == Usage(input_tokens=2, output_tokens=4, cached_tokens=0, reasoning_tokens=0)
    assert (verdict.cost_usd, verdict.cumulative) == (1.0, False)


def test_usage_of_an_older_claude_counts_the_conversation() -> None:
    totals = {"a": {"inputTokens": 3, "outputTokens": 4, "costUSD": 0.25}}
    verdict = verdict_of(INIT, RESULT | {"modelUsage": totals})
    assert verdict.usage == Usage(input_tokens=3, output_tokens=4, cached_tokens=0, reasoning_tokens=0)
    assert (verdict.cost_usd, verdict.cumulative) == (0.25, True)


def test_a_resumed_conversation_counts_this_turn_alone() -> None:
    _, verdict = replay("claude", "resume-ok")
    assert (verdict.usage and verdict.usage.input_tokens, verdict.cost_usd) == (2234, 0.006256)


def test_a_quota_that_is_used_up() -> None:
    used = {
        "type": "rate_limit_event",
        "rate_limit_info": {"status": "rejected", "resetsAt": 99, "rateLimitType": "five_hour"},
    }
    fine = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}
    events, _ = replay_lines("claude", lines(fine, used))
    assert events == [Limited(message="five hour limit reached", retry_at=99)]


def test_unknown_blocks_and_records_are_kept_and_cost_no_neighbour() -> None:
    content = [{"type": "hologram", "x": 1}, None, {"type": "text", "text": "hay"}, {"type": "text", "text": None}]
    message = {"type": "assistant", "message": {"id": None, "content": content, "usage": {"output_tokens": 1.5}}}
    events, verdict = replay_lines("claude", lines(message, {"type": "new"}, {"type": "system", "subtype": 7}))
    assert events == [
        Raw(record={"type": "hologram", "x": 1}),
        Raw(record=None),
        Text(text="hay"),
        Raw(record={"type": "new"}),
        Raw(record={"type": "system", "subtype": 7}),
    ]
    assert verdict.text == "hay"


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.sampled_from(["text", "init", "t1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = (
    "subtype", "event", "message", "content", "delta", "result", "usage", "tool_use_result", "tool_result_meta",
    "permission_denials", "modelUsage", "model_usage_since_last_result", "parent_tool_use_id", "rate_limit_info",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["stream_event", "assistant", "user", "system", "result", "rate_limit_event"])
@given(record=st.dictionaries(st.sampled_from(KEYS), JSON))
def test_no_shape_of_a_record_raises(kind: str, record: dict[str, Any]) -> None:
    reader = AGENT.reader(turn_of("claude"))
    message = {"content": [record | {"type": "tool_result"}, record | {"type": "tool_use"}, record]}
    events = [*reader.read(record | {"type": kind}), *reader.read({"type": kind, "message": message}), *reader.flush()]
    assert all(isinstance(event, Event) for event in events)
    assert reader.end(Exit(code=0), "").outcome != "done" or kind == "result"
