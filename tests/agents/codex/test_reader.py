"""codex: verdicts of recorded cases, event lists by hand, and what must not pass as success."""

import json

import pytest

from agents.replayed import CAPTURES, EXPECTED, cases, check_expected, lines, replay, replay_lines, turn_of
from ostler.agents.codex.reader import NEEDS, NO_SANDBOX
from ostler.model import (
    AnyEvent,
    Denial,
    FileChange,
    Host,
    Limited,
    Notice,
    Plan,
    PlanStep,
    Problem,
    Raw,
    Started,
    Text,
    Thought,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
    Verdict,
)

RECORDED = [case for case in cases("codex") if not case.endswith((".hooks", ".trace"))]
ID = "01a1e199-6d02-7c42-8e83-d99da6bc007f"
HOST = Host(executable="/bin/codex", private="/run/private", home="/home/ann")
FINAL = "All done. The tool ran and this is the final answer."
UNKNOWN_MODEL = (
    "Model metadata for `gpt-5-fake` not found. Defaulting to fallback metadata; "
    "this can degrade performance and cause issues."
)
QUIET_LOG = '--config=shell_environment_policy.set.RUST_LOG=""'
READ = ("--sandbox=read-only", '--config=approval_policy="never"', "--ignore-rules")
UNTRUSTED = '--config=projects={"/work"={trust_level="untrusted"}}'
TURN = {"prompt": "hello", "folder": "/work", "access": "read"}


def a_turn(**fields: object) -> Turn:
    return turn_of("codex", **TURN | fields)


def play(stdout: list[bytes], stderr: str = "", code: int = 0, **fields: object) -> tuple[list[AnyEvent], Verdict]:
    return replay_lines("codex", stdout, stderr, code, **TURN | fields)


def recorded(case: str, **fields: object) -> tuple[list[AnyEvent], Verdict]:
    return replay("codex", case, **TURN | fields)


def dialog(case: str) -> tuple[list[AnyEvent], Verdict]:
    return play((CAPTURES / "dialogs" / "codex" / f"{case}.ndjson").read_bytes().splitlines())


# -- captures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [name.partition("/")[2] for name in EXPECTED if name.startswith("codex/")])
def test_the_verdict_of_every_case(case: str) -> None:
    check_expected("codex", case, recorded(case)[1])


@pytest.mark.parametrize("case", RECORDED)
def test_every_capture_closes_its_tools_and_is_understood(case: str) -> None:
    events, verdict = recorded(case)
    started = [e.id for e in events if isinstance(e, ToolStarted)]
    assert started == [e.id for e in events if isinstance(e, ToolEnded)]
    assert [e for e in events if isinstance(e, Raw)] == []
    assert verdict.text == next((e.text for e in reversed(events) if isinstance(e, Text)), "")


def test_events_of_a_patch() -> None:
    changes = (FileChange(path="/workspace/README.md"), FileChange(path="/workspace/added.txt", change="add"))
    events, verdict = dialog("exec-filechange-shell-heredoc")
    assert events == [
        Started(agent="codex", agent_session=ID, folder="/work"),
        Notice(text=UNKNOWN_MODEL, code="warning"),
        Text(text="I will run one tool now.", id="item_1"),
        ToolStarted(id="item_2", name="file_change", title="/workspace/README.md, /workspace/added.txt", files=changes),
        ToolEnded(id="item_2", files=changes),
        Text(text=FINAL, id="item_3"),
    ]
    usage = Usage(input_tokens=2468, output_tokens=112, cached_tokens=2000, reasoning_tokens=16)
    assert verdict == Verdict(
        outcome="done",
        evidence=("turn.completed",),
        text=FINAL,
        agent_session=ID,
        usage=usage,
        cumulative=True,
    )


def test_events_of_a_failing_command() -> None:
    events, _ = recorded("readonly-false")
    command = "/bin/bash -lc false"
    assert events == [
        Started(agent="codex", agent_session="01a1e178-54ed-7231-9075-825470a052e1", folder="/work"),
        Notice(text=UNKNOWN_MODEL, code="warning"),
        Text(text="I will run one tool now.", id="item_1"),
        ToolStarted(id="item_2", name="command_execution", title="false", input={"command": command}),
        ToolEnded(id="item_2", ok=False, exit_code=1),
        Text(text=FINAL, id="item_3"),
    ]


def test_events_of_retries_and_their_end() -> None:
    events, verdict = recorded("error-429")
    last = "exceeded retry limit, last status: 429 Too Many Requests"
    assert events[2:] == [
        Limited(error="limited", message=f"Reconnecting... 1/1 ({last})", attempt=1),
        Notice(text=last, code="error", quiet=True),
    ]
    assert verdict.error == Problem(kind="limited", message=last)
    assert (verdict.outcome, verdict.evidence) == ("failed", ("turn.failed",))


def test_waiting_for_the_network_is_told_each_time() -> None:
    events, _ = recorded("error-refused")
    message = "Reconnecting... waiting for network (Connection failed: error sending request)"
    assert events[2:] == [Limited(error="overloaded", message=message)] * 4


def test_a_broken_stream_is_the_servers_trouble() -> None:
    assert recorded("stream-cut")[1].error == Problem(
        kind="overloaded",
        message="stream disconnected before completion: Transport error: network error: error decoding response body",
    )


def test_the_servers_words_are_taken_out_of_its_json() -> None:
    assert recorded("error-400")[1].error == Problem(kind="bad_request", message="scripted 400 from the fake server")


# -- items that no capture has ----------------------------------------------------------------------


def item(phase: str, **fields: object) -> dict[str, object]:
    return {"type": f"item.{phase}", "item": {"id": "i1", **fields}}


def test_a_thought_and_a_plan_told_once_for_each_change() -> None:
    one, two = {"text": "one", "completed": True}, {"text": "two", "completed": False}
    events, _ = play(
        lines(
            item("completed", type="reasoning", text="hm"),
            item("started", type="todo_list", items=[{**one, "completed": False}, two]),
            item("updated", type="todo_list", items=[one, two]),
            item("completed", type="todo_list", items=[one, two]),
        )
    )
    assert events == [
        Thought(text="hm", id="i1"),
        Plan(steps=(PlanStep(text="one"), PlanStep(text="two"))),
        Plan(steps=(PlanStep(text="one", status="done"), PlanStep(text="two"))),
    ]


def test_an_mcp_tool_that_ran_is_said_to_be_unconfined() -> None:
    call = {"type": "mcp_tool_call", "server": "w", "tool": "scribble", "arguments": {"path": "/x"}}
    result = {"content": [{"type": "text", "text": "wrote it"}], "structured_content": None}
    stream = lines(
        item("started", **call, status="in_progress"),
        item("completed", **call, status="completed", result=result, error=None),
    )
    started = ToolStarted(id="i1", name="w.scribble", category="mcp", title="/x", input={"path": "/x"})
    told = Notice(text="w.scribble ran unconfined, as every MCP server does", code="unconfined")
    assert play(stream)[0] == [started, ToolEnded(id="i1", output="wrote it"), told]
    assert play(stream, access="full")[0] == [started, ToolEnded(id="i1", output="wrote it")]


def test_an_mcp_tool_that_needs_approval_was_denied() -> None:
    said = "MCP tool call requires approval, but approval policy is never"
    call = {"type": "mcp_tool_call", "server": "w", "tool": "scribble", "arguments": {"path": "/x"}}
    events, verdict = play(lines(item("completed", **call, status="failed", error={"message": said})))
    assert events[1:] == [ToolEnded(id="i1", ok=False, output=said, denied=True)]
    assert verdict.denied == (Denial(tool="w.scribble", target="/x", access="write", reason=said),)


def test_a_sandbox_that_cannot_start_is_no_refusal() -> None:
    said = "bwrap: Creating new namespace failed\n"
    call = {"type": "command_execution", "command": "/bin/bash -lc 'ls /'", "aggregated_output": said}
    again = {**call, "command": "/bin/bash -lc 'ls .'"}
    events, verdict = play(
        lines(
            item("completed", **call, exit_code=1, status="failed"),
            item("completed", **again, exit_code=1, status="failed"),
        )
    )
    told = Notice(text=f"{NO_SANDBOX}: {said.strip()}. {NEEDS}", code="no_sandbox")
    ended = ToolEnded(id="i1", ok=False, output=said, exit_code=1)
    assert [e for e in events if not isinstance(e, ToolStarted)] == [ended, told, ended]  # told once
    assert verdict.denied == ()


def test_a_sandbox_that_cannot_start_stands_in_the_log_alone() -> None:
    broken = refused_command("c1", "ls").replace("Process exited with code 1", "Process exited with code 1\nOutput:")
    said = "bwrap: Failed to make / slave: Operation not permitted"
    events, verdict = play([], broken.replace("touch: cannot touch 'x': Read-only file system", said), 0)
    assert events == [
        ToolStarted(id="c1", name="command_execution", title="ls"),
        ToolEnded(id="c1", ok=False, output=said),
        Notice(text=f"{NO_SANDBOX}: {said}. {NEEDS}", code="no_sandbox"),
    ]
    assert verdict.denied == ()


def test_warnings_on_stderr_are_shown() -> None:
    assert play([], "warning: Codex could not find bubblewrap on PATH.\n")[0] == [
        Notice(text="Codex could not find bubblewrap on PATH.", code="warning")
    ]


def test_a_web_search_and_an_item_that_nobody_knows() -> None:
    odd = item("completed", type="hologram", depth=3)
    events, _ = play(lines(item("completed", type="web_search", query="hay", status="completed"), odd))
    found = ToolStarted(id="i1", name="web_search", title="hay", input={"query": "hay"})
    assert events == [found, ToolEnded(id="i1"), Raw(record=odd)]


# -- what the sandbox refused -----------------------------------------------------------------------

TAIL = " mcp_server= mcp_server_origin= event.timestamp=2026-11-16T00:26:57.711Z model=gpt-5.5 slug=gpt-5.5"


def log(event: str, fields: str) -> str:
    return f'2026-11-16T00:26:57.710406Z  INFO codex_otel.log_only: event.name="codex.{event}" {fields}'


def refused_command(id: str, command: str) -> str:
    arguments = json.dumps({"cmd": command})
    return "\n".join(
        [
            log("sandbox_outcome", f"tool_name=exec_command call_id={id} outcome=denied initial_duration_ms=53"),
            log("tool_result", f"tool_name=exec_command call_id={id} success=true arguments={arguments} output=Chunk"),
            "Process exited with code 1",
            "touch: cannot touch 'x': Read-only file system",
            TAIL,
        ]
    )


def refused_patch(reason: str) -> str:
    return "\n".join(
        [
            log("tool_result", "tool_name=apply_patch call_id=c2 success=false arguments=*** Begin Patch"),
            "*** Add File: a b.txt",
            "+one output=two",
            "*** Update File: c.txt",
            f"*** End Patch output={reason}{TAIL}",
            f"2026-11-16T00:26:57.710406Z ERROR codex_core::tools::router: error={reason}",
        ]
    )


DONE = lines({"type": "thread.started", "thread_id": ID}, {"type": "turn.completed", "usage": {}})


def test_a_refused_command_is_found_in_the_log() -> None:
    events, verdict = play(DONE, refused_command("c1", "touch 'x output=y'\nls"))
    title, why = "touch 'x output=y'", "the sandbox refused it"
    assert events[1:] == [
        ToolStarted(id="c1", name="command_execution", title=title),
        ToolEnded(id="c1", ok=False, output=why, denied=True),
    ]
    assert verdict.outcome == "done"
    assert verdict.denied == (Denial(tool="command_execution", target=title, access="write", reason=why),)


def test_a_refused_patch_is_found_in_the_log() -> None:
    why = "patch rejected: writing outside of the project; rejected by user approval settings"
    _, verdict = play(DONE, refused_patch(why), access="write")
    assert verdict.denied == (Denial(tool="file_change", target="a b.txt, c.txt", access="full", reason=why),)


def test_a_patch_that_does_not_apply_was_not_refused() -> None:
    _, verdict = play(DONE, refused_patch("apply_patch verification failed: Failed to read file to update"))
    assert verdict.denied == ()


@pytest.mark.parametrize(
    "line",
    [
        log("tool_result", "call_id=c1 arguments=*** Begin Patch " + "call_id=x  arguments={} " * 20_000),
        log("sandbox_outcome", 'call_id=event.name="codex.sandbox_outcome" ' * 20_000),
        log("sandbox_outcome", "call_id=" * 100_000),
    ],
    ids=["a patch without an end", "names of records", "names of fields"],
)
def test_a_record_full_of_the_names_of_its_fields_is_read_once(line: str) -> None:
    """To look for the end of one anew from each of them would take hours."""
    _, verdict = play(DONE, line)
    assert verdict.denied == ()


def test_a_request_to_leave_the_sandbox_needs_full_access() -> None:
    why = "approval policy is Never; reject command"
    arguments = json.dumps({"cmd": "make install", "sandbox_permissions": "require_escalated"})
    said = f"tool_name=exec_command call_id=c3 success=false arguments={arguments} output={why}{TAIL}"
    _, verdict = play(DONE, log("tool_result", said))
    assert verdict.denied == (Denial(tool="command_execution", target="make install", access="full", reason=why),)


def test_a_command_that_the_sandbox_stopped_late_has_an_item() -> None:
    said = "touch: cannot touch 'x': Read-only file system\n"
    call = {"type": "command_execution", "command": "touch x", "aggregated_output": said, "exit_code": 1}
    stream = lines(item("completed", **call, status="failed"))
    denial = Denial(tool="command_execution", target="touch x", access="write", reason="Read-only file system")
    assert play(stream)[1].denied == (denial,)
    assert play(stream, access="full")[1].denied == ()


def test_a_log_tells_nothing_of_why_a_turn_failed() -> None:
    stderr = refused_command("c1", "sleep 500") + "\nError: HTTP 429, unheard of\n"
    assert play([], refused_command("c1", "curl 401"), 1)[1].error == Problem(
        kind="crashed", message="codex ended with exit code 1 and no result"
    )
    assert play([], stderr, 1)[1].error == Problem(kind="limited", message="Error: HTTP 429, unheard of")


# -- honesty ----------------------------------------------------------------------------------------


def test_a_bad_name_that_began_a_new_thread_is_not_found() -> None:
    begun = json.loads((CAPTURES / "codex" / "resume-bad-name.ndjson").read_bytes().splitlines()[0])["thread_id"]
    _, verdict = recorded("resume-bad-name", resume=True, agent_session=ID)
    assert (verdict.outcome, verdict.agent_session) == ("failed", begun)
    assert verdict.error is not None and verdict.error.kind == "not_found"


def test_a_bad_id_is_not_found() -> None:
    _, verdict = recorded("resume-bad-id", resume=True, agent_session=ID)
    assert verdict.error == Problem(
        kind="not_found",
        message="Error: thread/resume: thread/resume failed: no rollout found for thread id "
        "11111111-2222-3333-4444-555555555555 (code -32600)",
        hint="Start a new session",
    )


def test_a_good_resume_and_a_fork_are_done() -> None:
    same = recorded("resume-2-by-id")[1].agent_session
    assert recorded("resume-2-by-id", resume=True, agent_session=same)[1].outcome == "done"
    assert recorded("fork", resume=True, fork=True, agent_session=same)[1].outcome == "done"


def test_exit_0_without_a_result_is_unproven() -> None:
    half = (CAPTURES / "codex" / "turn-bypass.ndjson").read_bytes().splitlines()
    _, verdict = play(half[:-1])
    assert (verdict.outcome, verdict.error) == (
        "unproven",
        Problem(kind="unproven", message="codex ended without a result"),
    )
    assert verdict.text == FINAL


def test_a_half_line_is_kept_and_proves_nothing() -> None:
    whole = (CAPTURES / "codex" / "turn-bypass.ndjson").read_bytes().rstrip()
    events, verdict = play(whole[:-5].splitlines())
    assert verdict.outcome == "unproven"
    assert events[-1] == Raw(line=whole[:-5].splitlines()[-1].decode())


def test_success_with_a_bad_exit_code_is_a_crash() -> None:
    assert play(DONE, code=3)[1].outcome == "crashed"
    assert play(DONE, code=-9)[1].outcome == "crashed"


def test_warnings_that_look_like_errors_do_not_fail_a_turn() -> None:
    events, verdict = recorded("hooks-http")
    assert verdict.outcome == "done"
    assert [e.code for e in events if isinstance(e, Notice)] == ["warning"] * 4


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ("output-schema-bad-file", ("bad_request", "Failed to read output schema file /nope.json")),
        ("strict-config", ("bad_request", "Error loading config.toml: unknown configuration field")),
        ("stdin-1.1MB", ("bad_request", "Error: turn/start: turn/start failed: Input exceeds the maximum length")),
        ("no-key", ("unauthenticated", "Missing environment variable: `FAKE_KEY`.")),
        ("native-sigterm-mid-text", ("crashed", "codex was ended by signal 15")),
        ("native-sigint-mid-text", ("crashed", "codex ended with exit code 1 and no result")),
    ],
)
def test_what_is_said_of_other_ends(case: str, problem: tuple[str, str]) -> None:
    error = recorded(case)[1].error
    assert error is not None
    assert (error.kind, error.message[: len(problem[1])]) == problem
