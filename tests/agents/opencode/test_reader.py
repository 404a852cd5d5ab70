"""opencode: recorded turns, single records, and what must not pass as success."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.replayed import (
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
    Plan,
    PlanStep,
    Problem,
    Raw,
    Started,
    Text,
    Thought,
    ToolEnded,
    ToolStarted,
    Usage,
    UsageReport,
)

AGENT = AGENTS["opencode"]
FINAL = "All done. The tool ran and this is the final answer."
STEP = Usage(input_tokens=1234, output_tokens=56, cached_tokens=1000, reasoning_tokens=8)
TWO_STEPS = Usage(input_tokens=2468, output_tokens=112, cached_tokens=2000, reasoning_tokens=16)


@pytest.mark.parametrize("case", cases("opencode"))
def test_every_capture_holds_the_invariants(case: str) -> None:
    events, _ = replay("opencode", case)
    check_invariants(events)


@pytest.mark.parametrize("case", [key.split("/")[1] for key in EXPECTED if key.startswith("opencode/")])
def test_every_capture_has_its_expected_verdict(case: str) -> None:
    _, verdict = replay("opencode", case)
    check_expected("opencode", case, verdict)


def test_a_turn_with_a_tool() -> None:
    events, verdict = replay("opencode", "turn-json")
    id, session = "call_e974740d96c54573", "ses_e1e9d5cdcffeVcPOyvyaNBenoC"
    command = "echo hello-from-tool > tool_out.txt && cat tool_out.txt"
    assert events == [
        Started(agent="opencode", agent_session=session, folder="/workspace"),
        Text(text="I will run one tool now.", id="prt_1e162b30f001qQDNPVFSKve3J6"),
        ToolStarted(id=id, name="bash", title=command, input={"command": command}),
        ToolEnded(id=id, output="hello-from-tool\n", exit_code=0, duration_ms=381),
        UsageReport(usage=STEP, cost_usd=0.001542),
        Text(text=FINAL, id="prt_1e162b75d001SoQzw43fv7eOHw"),
        UsageReport(usage=TWO_STEPS, cost_usd=0.003084),
    ]
    assert (verdict.outcome, verdict.usage, verdict.cost_usd, verdict.steps) == ("done", TWO_STEPS, 0.003084, 2)
    assert verdict.evidence == ("step_finish: stop",)


def test_a_permission_that_was_rejected_ends_the_turn() -> None:
    events, verdict = replay("opencode", "permission-ask", access="write")
    id, command = "call_7bff73096f6f4c0d", "echo hello-from-tool > tool_out.txt && cat tool_out.txt"
    reason = "The user rejected permission to use this specific tool call."
    assert events == [
        Started(agent="opencode", agent_session="ses_e1e9a62f7ffeK9vGMsjZ96q4Vi", folder="/workspace"),
        Text(text="I will run one tool now.", id="prt_1e165af5b001nCuV7tYhaS0UP7"),
        ToolStarted(id=id, name="bash", title=command, input={"command": command}),
        ToolEnded(id=id, ok=False, output=reason, duration_ms=191, denied=True),
        UsageReport(usage=STEP, cost_usd=0.001542),
    ]
    assert verdict.denied == (Denial(tool="bash", target=command, access="full", reason=reason),)
    assert verdict.error == Problem(
        kind="denied",
        message=f"opencode stopped: bash {command} was refused",
        hint="Run again with --access full",
    )


@pytest.mark.parametrize("case", ["resume-1", "resume-2-session", "resume-3-continue", "resume-fork"])
def test_resumed_and_forked_turns_are_done(case: str) -> None:
    session = "ses_e1e9d0fe7ffeTJft6Wp8CRM0gK"
    _, verdict = replay("opencode", case, resume=True, fork=case == "resume-fork", agent_session=session)
    assert verdict.outcome == "done"
    assert (verdict.agent_session == session) == (case != "resume-fork")


def step(reason: str, session: str = "ses_1") -> dict[str, Any]:
    return {"type": "step_finish", "sessionID": session, "part": {"reason": reason, "tokens": {}, "cost": 0}}


def test_exit_0_without_a_word_is_unproven() -> None:
    _, verdict = replay_lines("opencode", [])
    assert (verdict.outcome, verdict.error and verdict.error.kind) == ("unproven", "unproven")


def test_a_last_step_that_wanted_tools_is_unproven() -> None:
    _, verdict = replay_lines("opencode", lines(step("stop"), step("tool-calls")))
    assert (verdict.outcome, verdict.error and verdict.error.kind) == ("unproven", "unproven")


@pytest.mark.parametrize("code", [1, -2, -15])
def test_a_stop_with_a_bad_exit_is_no_success(code: int) -> None:
    _, verdict = replay_lines("opencode", lines(step("stop")), code=code)
    assert verdict.outcome == "crashed"


def test_an_error_record_after_a_stop_fails_the_turn() -> None:
    error = {"type": "error", "sessionID": "ses_1", "error": {"name": "APIError", "data": {"statusCode": 529}}}
    _, verdict = replay_lines("opencode", lines(step("stop"), error))
    assert (verdict.outcome, verdict.error and verdict.error.kind) == ("failed", "overloaded")


def test_a_resume_that_began_anew_is_not_found() -> None:
    _, verdict = replay_lines("opencode", lines(step("stop", "ses_new")), resume=True, agent_session="ses_old")
    assert verdict.error and verdict.error.kind == "not_found"


def test_a_bad_resume_id_is_not_found() -> None:
    said = "\x1b[91m\x1b[1mError: \x1b[0mSession not found\n"
    _, verdict = replay_lines("opencode", [], said, 1, resume=True, agent_session="ses_nope")
    assert verdict.error == Problem(kind="not_found", message="opencode has no conversation ses_nope")


LOG = "timestamp=2026-11-16T00:31:54.032Z level=INFO run=22d357ab "
STREAM = LOG + "message=stream providerID=fake modelID=m session.id=ses_1 small=false agent={} mode=primary\n"


def read_log(text: str, **options: Any) -> tuple[list[Any], Any]:
    return replay_lines("opencode", [], text, code=-2, **options)


def test_the_log_tells_the_conversation_before_the_first_record() -> None:
    events, verdict = read_log(STREAM.format("build"))
    assert events == [Started(agent="opencode", agent_session="ses_1", model="fake/m", folder="/workspace")]
    assert (verdict.agent_session, verdict.model) == ("ses_1", "fake/m")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("AI_APICallError: Rate limit exceeded", "limited"),
        ("AI_APICallError: scripted 500", "overloaded"),
        ("AI_APICallError: socket closed", "overloaded"),
        ("AI_APICallError: Unauthorized", "unauthenticated"),
    ],
)
def test_silent_retries_are_told(said: str, error: Any) -> None:
    failed = LOG + f'message="stream error" session.id=ses_1 small=false agent=build error.error="{said}"\n'
    events, _ = read_log(STREAM.format("build") + failed)
    assert events[1:] == [Limited(error=error, message=said.removeprefix("AI_APICallError: "))]


def test_the_log_of_subagents_and_titles_tells_nothing() -> None:
    other = STREAM.format("general").replace("ses_1", "ses_2").replace("primary", "subagent")
    title = LOG + 'message="stream error" session.id=ses_1 small=true agent=title error.error="x 500"\n'
    events, verdict = read_log(STREAM.format("build") + other + title)
    assert [type(event) for event in events] == [Started]
    assert verdict.agent_session == "ses_1"


def test_an_error_that_only_refers_to_the_log_is_told_in_full() -> None:
    reader = AGENT.reader(turn_of("opencode"))
    reader.read_stderr(
        LOG.replace("INFO", "ERROR")
        + 'message=failed ref=err_1 error="ProviderModelNotFoundError: Model not found: fake/none." cause="at x"'
    )
    reader.read({"type": "error", "sessionID": "s", "error": {"name": "UnknownError", "data": {"ref": "err_1"}}})
    verdict = reader.end(Exit(code=1), "")
    assert verdict.error == Problem(
        kind="bad_request", message="ProviderModelNotFoundError: Model not found: fake/none."
    )


def test_another_agent_than_ours_is_no_promise_of_access() -> None:
    _, verdict = read_log(STREAM.format("build"), access="read")
    assert verdict.error and (verdict.error.kind, verdict.outcome) == ("denied", "failed")
    _, verdict = read_log('! agent "ostler-t-1" not found. Falling back to default agent\n', access="read")
    assert verdict.error and verdict.error.kind == "denied"


@pytest.mark.parametrize("agent", ["ostler-t-1", "compaction"])
def test_our_agent_and_those_opencode_calls_itself_are_fine(agent: str) -> None:
    said = {"type": "text", "sessionID": "ses_1", "part": {"id": "p", "text": "Here.", "time": {"end": 1}}}
    _, verdict = replay_lines("opencode", lines(said, step("stop")), STREAM.format(agent), access="read")
    assert verdict.outcome == "done"


def test_a_process_that_stays_after_its_loop_has_a_result() -> None:
    reader = AGENT.reader(turn_of("opencode"))
    reader.read(step("stop"))
    assert reader.result is None  # a compaction stops too, and the turn goes on
    reader.read_stderr(LOG + 'message="exiting loop" session.id=ses_1')
    assert reader.result == "ok"


def tool(name: str, state: dict[str, Any]) -> bytes:
    return lines({"type": "tool_use", "sessionID": "s", "part": {"tool": name, "callID": "c", "state": state}})[0]


RULE = "The user has specified a rule which prevents you from using this specific tool call."
GONE = "Model tried to call unavailable tool 'invalid'. Available tools: edit, read."


@pytest.mark.parametrize(
    ("access", "name", "input", "error", "remedy"),
    [
        ("read", "write", {"filePath": "/workspace/a.py"}, RULE, "write"),
        ("read", "write", {"filePath": "/elsewhere/a.py"}, RULE, "full"),
        ("read", "write", {"filePath": "/workspace-evil/a.py"}, RULE, "full"),
        ("write", "write", {"filePath": "/elsewhere/a.py"}, RULE, "full"),
        ("read", "bash", {"command": "ls"}, GONE, "full"),
        ("full", "bash", {"command": "ls"}, RULE, None),
    ],
)
def test_refusals_name_the_access_that_would_allow_them(
    access: Any, name: str, input: Any, error: str, remedy: Any
) -> None:
    state = {"status": "error", "input": input, "error": error}
    events, verdict = replay_lines("opencode", [tool(name, state)], access=access)
    assert verdict.denied == (Denial(tool=name, target=next(iter(input.values())), access=remedy, reason=error),)
    assert [event.denied for event in events if isinstance(event, ToolEnded)] == [True]


def test_a_tool_that_fails_is_not_refused() -> None:
    events, verdict = replay_lines("opencode", [tool("read", {"status": "error", "input": {}, "error": "no file"})])
    assert events[1:] == [ToolStarted(id="c", name="read", input={}), ToolEnded(id="c", ok=False, output="no file")]
    assert verdict.denied == ()


def test_edits_carry_files_and_diffs() -> None:
    patched = {
        "status": "completed",
        "input": {"patchText": "*** Begin Patch"},
        "output": "Success.",
        "title": "Success. Updated\nA p.txt",
        "metadata": {
            "diff": "+hello\n",
            "files": [{"filePath": "/w/p.txt", "type": "add"}, {"filePath": "/w/a.txt", "type": "update"}],
        },
    }
    files = (FileChange(path="/w/p.txt", change="add"), FileChange(path="/w/a.txt"))
    events, _ = replay_lines("opencode", [tool("apply_patch", patched)])
    assert events[1:] == [
        ToolStarted(
            id="c", name="apply_patch", title="Success. Updated", input={"patchText": "*** Begin Patch"}, files=files
        ),
        ToolEnded(id="c", output="Success.", diff="+hello\n", files=files),
    ]


def test_a_to_do_list_is_a_plan() -> None:
    todos = [{"content": "a", "status": "in_progress"}, {"content": "b", "status": "completed"}, {"content": "c"}]
    events, _ = replay_lines("opencode", [tool("todowrite", {"status": "completed", "input": {"todos": todos}})])
    assert events[-1] == Plan(
        steps=(PlanStep(text="a", status="active"), PlanStep(text="b", status="done"), PlanStep(text="c"))
    )


def test_thoughts_and_unknown_records() -> None:
    unknown = {"type": "novelty", "sessionID": "s"}
    reasoning = {"type": "reasoning", "sessionID": "s", "part": {"id": "p", "text": "hm"}}
    events, _ = replay_lines("opencode", [*lines(reasoning, unknown), b"plain text"])
    assert events[1:] == [Thought(text="hm", id="p"), Raw(record=unknown), Raw(line="plain text")]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "part", "state", "input", "metadata", "tokens", "cache", "error", "data"]),
                inner | st.sampled_from(["tool_use", "step_finish", "error", "text", "todowrite"]),
            )
        ),
    )
)
def test_no_shape_of_a_record_raises(value: Any) -> None:
    reader = AGENT.reader(turn_of("opencode"))
    for kind in ("tool_use", "step_finish", "error", "text", "reasoning"):
        reader.read({"type": kind, "part": value, "error": value, "sessionID": value})
        reader.read({"type": kind, "part": {"state": value, "tokens": value, "cost": value}, "error": {"data": value}})
    reader.flush()
    assert reader.end(Exit(code=0), "").error is not None or reader.finish == "stop"
