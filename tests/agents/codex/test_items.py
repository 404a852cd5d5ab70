"""Items and figures of `codex app-server`, one by one; whole dialogs are played again in test_codex_dialog.py."""

import json
from typing import Any

import pytest

from agents.codex_played import a_turn
from agents.replayed import CAPTURES
from ostler.agents.codex.items import (
    STATE,
    AppServerReader,
    changed,
    diff_of,
    error_kind,
    exec_item,
    payloads,
    snake_counts,
)
from ostler.model import (
    FileChange,
    Limited,
    Notice,
    Plan,
    PlanStep,
    Problem,
    Raw,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Usage,
    UsageReport,
)


def told(method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": params}


def read(*records: dict[str, Any], reader: AppServerReader | None = None) -> list[Any]:
    reader = reader or AppServerReader(a_turn())
    return [event for record in records for event in reader.read(record)]


def change(path: str, kind: str, diff: str = "", move: str | None = None) -> dict[str, Any]:
    return {"path": path, "kind": {"type": kind, "move_path": move}, "diff": diff}


# -- items ------------------------------------------------------------------------------------------


def test_an_item_in_the_clothes_of_codex_exec() -> None:
    command = {"type": "commandExecution", "id": "1", "command": "ls", "aggregatedOutput": "a", "exitCode": 0}
    assert exec_item(command) == {
        **command,
        "type": "command_execution",
        "text": None,
        "aggregated_output": "a",
        "exit_code": 0,
        "changes": [],
    }
    thought = {"type": "reasoning", "summary": ["one", "", None], "content": ["two"], "text": "ignored"}
    assert exec_item(thought)["text"] == "one\n\ntwo"
    assert exec_item({"type": "newKind", "summary": "x"})["type"] == "newKind"
    assert exec_item({})["type"] == ""


def test_changed_files_and_both_ends_of_a_move() -> None:
    changes = [change("a", "add"), change("b", "update", move="c"), change("d", "delete"), None, {"kind": "x"}]
    assert changed({"changes": changes}) == [
        *(("a", "add"), ("b", "delete"), ("c", "add"), ("d", "delete"), ("", "")),
    ]
    assert changed({}) == changed({"changes": {"a": 1}}) == []


@pytest.mark.parametrize(
    ("item", "diff"),
    [
        (change("/w/n", "add", "x\ny\n"), "--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+x\n+y\n"),
        (change("/w/g", "delete", "x\n"), "--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"),
        (change("/w/u", "update", "@@ -1 +1 @@\n-a\n+b\n"), "--- a/u\n+++ b/u\n@@ -1 +1 @@\n-a\n+b\n"),
        (
            change("/w/u", "update", "@@ -1 +1 @@\n-a\n+b\n\nMoved to: /w/v", "/w/v"),
            "--- a/u\n+++ b/v\n@@ -1 +1 @@\n-a\n+b\n",
        ),
        (change("/etc/x", "update", "@@\n"), "--- a//etc/x\n+++ b//etc/x\n@@\n"),
    ],
)
def test_diffs_of_patches(item: dict[str, Any], diff: str) -> None:
    assert diff_of({"changes": [item, item]}, "/w") == diff * 2
    assert diff_of({"changes": [item]}, "/w/") == diff


def test_a_patch_that_failed_shows_no_diff() -> None:
    item = {"type": "fileChange", "id": "1", "changes": [change("/workspace/n", "add", "x\n")]}
    good, bad = ({**item, "status": status} for status in ("completed", "failed"))
    diff = "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n"
    files = (FileChange(path="/workspace/n", change="add"),)
    ended = [e for e in read(told("item/completed", item=good)) if isinstance(e, ToolEnded)]
    assert [(e.ok, e.diff, e.files) for e in ended] == [(True, diff, files)]
    ended = [e for e in read(told("item/completed", item=bad)) if isinstance(e, ToolEnded)]
    assert [(e.ok, e.diff) for e in ended] == [(False, "")]


def test_what_codex_repeats_of_us_is_not_told() -> None:
    assert read(told("item/completed", item={"type": "userMessage", "id": "1", "text": "do it"})) == []
    odd = told("item/completed", item="x")
    assert read(odd, told("else"), {}) == [Raw(record=odd), Raw(record=told("else")), Raw(record={})]


# -- words ------------------------------------------------------------------------------------------


def test_words_and_those_that_broke_off() -> None:
    reader = AppServerReader(a_turn())
    whole = {"type": "agentMessage", "id": "m", "text": "Hello"}
    assert read(
        told("item/reasoning/textDelta", itemId="r", delta="hm"),
        told("item/agentMessage/delta", itemId="m", delta="Hel"),
        told("item/agentMessage/delta", itemId="m", delta=""),
        told("item/agentMessage/delta", itemId="m", delta="lo"),
        told("item/completed", item=whole),
        told("item/agentMessage/delta", itemId="n", delta="cut"),
        reader=reader,
    ) == [
        ThoughtDelta(text="hm", id="r"),
        TextDelta(text="Hel", id="m"),
        TextDelta(text="lo", id="m"),
        Text(text="Hello", id="m"),
        TextDelta(text="cut", id="n"),
    ]
    assert reader.flush() == [Text(text="cut", id="n")]
    assert reader.flush() == []


def test_a_thought_a_plan_and_warnings() -> None:
    plan = [{"step": "a", "status": "completed"}, {"step": "b", "status": "inProgress"}, {"step": 5, "status": []}]
    assert read(
        told("item/completed", item={"type": "reasoning", "id": "r", "summary": ["hm"]}),
        told("turn/plan/updated", plan=plan),
        told("warning", message="careful"),
        told("configWarning", summary="odd key"),
    ) == [
        Thought(text="hm", id="r"),
        Plan(steps=(PlanStep(text="a", status="done"), PlanStep(text="b", status="active"), PlanStep(text=""))),
        Notice(text="careful", code="warning"),
        Notice(text="odd key", code="warning"),
    ]


@pytest.mark.parametrize(
    ("method", "is_state"),
    [
        *(("thread/started", True), ("turn/diff/updated", True), ("item/commandExecution/outputDelta", True)),
        *(("threads/x", False), ("item/new/kind", False), ("turn/completed", False), ("applet/x", False)),
    ],
)
def test_what_codex_tells_of_its_state_is_silent(method: str, is_state: bool) -> None:
    assert (STATE.match(method) is not None) is is_state
    assert read(told(method)) == ([] if is_state else [Raw(record=told(method))])


# -- figures ----------------------------------------------------------------------------------------


def counted(total: Any, last: Any) -> dict[str, Any]:
    return told("thread/tokenUsage/updated", tokenUsage={"total": total, "last": last})


def test_a_turn_counts_its_own_requests_alone() -> None:
    reader = AppServerReader(a_turn(resume=True, agent_session="x"))
    first = counted({"inputTokens": 1100, "outputTokens": 60}, {"inputTokens": 100, "outputTokens": 10})
    second = counted({"inputTokens": 1300, "outputTokens": 90}, {"inputTokens": 200, "outputTokens": 30})
    assert read(first, second, reader=reader) == [
        UsageReport(usage=Usage(input_tokens=100, output_tokens=10)),
        UsageReport(usage=Usage(input_tokens=300, output_tokens=40)),
    ]
    assert (reader.requests, reader.cumulative) == (2, False)


def test_names_and_counts_of_another_kind() -> None:
    counts = {"inputTokens": 5, "cachedInputTokens": 2.0, "x": "7", "y": None, "z": True}
    assert snake_counts(counts) == {"input_tokens": 5, "cached_input_tokens": 2}
    assert read(counted(None, [])) == [UsageReport(usage=Usage())]


# -- failures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "said", "kind"),
    [
        ({"codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": 401}}}, "", "unauthenticated"),
        ({"codexErrorInfo": {"x": {"httpStatusCode": None}}}, "HTTP 429", "limited"),
        ({"codexErrorInfo": "usageLimitExceeded"}, "HTTP 500", "limited"),
        ({"codexErrorInfo": "contextWindowExceeded"}, "", "bad_request"),
        ({"codexErrorInfo": "sessionBudgetExceeded"}, "", "over_budget"),
        ({"codexErrorInfo": "other"}, "stream disconnected", "overloaded"),
        ({"codexErrorInfo": ["unauthorized"]}, "boom", "crashed"),
        ({}, "boom", "crashed"),
    ],
)
def test_kinds_of_errors(error: dict[str, Any], said: str, kind: str) -> None:
    assert error_kind(error, said) == kind


def test_a_retry_is_not_the_end() -> None:
    reader = AppServerReader(a_turn())
    error = {"message": "Reconnecting 2/5", "additionalDetails": "HTTP 429"}
    assert read(told("error", error=error, willRetry=True), reader=reader) == [
        Limited(error="limited", message="Reconnecting 2/5 (HTTP 429)", attempt=2)
    ]
    assert reader.result is None


@pytest.mark.parametrize(
    ("turn", "outcome", "problem"),
    [
        ({"status": "completed"}, "done", None),
        ({"status": "interrupted"}, "cancelled", Problem(kind="cancelled", message="cancelled")),
        (
            {"status": "failed", "error": {"message": "no key", "codexErrorInfo": "unauthorized"}},
            "failed",
            Problem(kind="unauthenticated", message="no key", hint="Log in: codex login"),
        ),
        ({"status": "new"}, "unproven", Problem(kind="unproven", message="codex ended the turn as new")),
        ({}, "unproven", Problem(kind="unproven", message="codex ended the turn as nothing")),
        ({"status": True}, "unproven", Problem(kind="unproven", message="codex ended the turn as nothing")),
    ],
)
def test_how_a_turn_ended(turn: dict[str, Any], outcome: str, problem: Problem | None) -> None:
    reader = AppServerReader(a_turn())
    read(told("item/agentMessage/delta", itemId="m", delta="hal"), reader=reader)
    assert reader.ended(turn) == [Text(text="hal", id="m")]
    verdict = reader.end(None, "")
    assert (verdict.outcome, verdict.error) == (outcome, problem)


# -- what only its history tells --------------------------------------------------------------------


def item(**payload: Any) -> str:
    return json.dumps({"type": "response_item", "payload": payload})


def test_payloads_are_those_of_response_items() -> None:
    lines = [item(type="a"), "not json", "[1]", '{"type": "event_msg", "payload": {"type": "b"}}', item(type="c"), ""]
    assert payloads("\n".join(lines)) == [{"type": "a"}, {"type": "c"}]
    assert payloads('{"type": "response_item", "payload": 5}') == [{}]


def test_refused_calls_are_told_in_the_order_of_the_history() -> None:
    lines = []
    for n in range(12):
        id = f"call_{n}"
        arguments = json.dumps({"cmd": f"touch {n}"})
        lines.append(item(type="function_call", call_id=id, name="exec_command", arguments=arguments))
        lines.append(item(type="function_call_output", call_id=id, output="Process exited with code 1\nsandbox"))
    reader = AppServerReader(a_turn(access="write"))
    events = reader.missed("\n".join(lines))
    assert [e.id for e in events if isinstance(e, ToolStarted)] == [f"call_{n}" for n in range(12)]
    assert [e.id for e in events if isinstance(e, ToolEnded)] == [f"call_{n}" for n in range(12)]


def test_a_call_that_was_told_is_not_missed() -> None:
    reader = AppServerReader(a_turn())
    done = {"type": "commandExecution", "id": "call_1", "command": "ls", "status": "completed", "exitCode": 0}
    read(told("item/completed", item=done), reader=reader)
    call = item(type="function_call", call_id="call_1", arguments='{"cmd": "ls"}')
    assert reader.missed(f"{call}\n{item(type='function_call_output', call_id='call_1', output='sandbox')}") == []
    assert reader.missed("") == []


def test_nothing_in_recorded_dialogs_is_unknown() -> None:
    for path in sorted((CAPTURES / "dialogs/codex").glob("*.trace.ndjson")):
        reader = AppServerReader(a_turn())
        for line in path.read_text().splitlines():
            message = json.loads(line).get("msg")
            method = message.get("method") if isinstance(message, dict) and "id" not in message else None
            if method not in (None, "initialized", "serverRequest/resolved", "turn/completed"):  # of the dialog itself
                assert not any(isinstance(event, Raw) for event in reader.read(message)), message
