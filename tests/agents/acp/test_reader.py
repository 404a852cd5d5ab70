"""Events of single updates, and what an answer or an error of an ACP agent proves."""

from typing import Any

import pytest

from agents.acp_replayed import turn_of
from ostler.agents.acp.protocol import Acp
from ostler.agents.acp.reader import MAX_SHOWN, AcpReader, exit_of, judged, output_of
from ostler.model import (
    Denial,
    Exit,
    FileChange,
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


class Counted(str):
    """A text that counts how often somebody asked for its length."""

    asked = 0

    def __len__(self) -> int:
        Counted.asked += 1
        return super().__len__()


def test_what_a_command_prints_costs_the_same_for_each_piece() -> None:
    """16,000 pieces once took four seconds: each was counted again with each that followed."""

    def work(pieces: int) -> int:
        reader = AcpReader(turn_of())
        Counted.asked = 0
        for n in range(pieces):
            meta = {"terminal_output_delta": {"terminal_id": "t", "data": Counted("xy")}}
            reader.read({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "sh", "_meta": meta, "n": n})
        ended = reader.read({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"})
        (tool,) = [event for event in ended if isinstance(event, ToolEnded)]
        assert tool.output == "xy" * pieces
        return Counted.asked

    assert work(2000) == 2 * work(1000) > 0


def test_what_a_command_prints_is_kept_up_to_a_limit() -> None:
    reader = AcpReader(turn_of())
    for _ in range(MAX_SHOWN // 1000 + 50):
        meta = {"terminal_output": {"terminal_id": "t", "data": "x" * 1000}}
        reader.read({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "sh", "_meta": meta})
    ended = reader.read({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"})
    (tool,) = [event for event in ended if isinstance(event, ToolEnded)]
    assert MAX_SHOWN <= len(tool.output) < MAX_SHOWN + 1000


def chunk(text: Any, kind: str = "message", type: str = "text") -> dict[str, Any]:
    return {"sessionUpdate": f"agent_{kind}_chunk", "content": {"type": type, "text": text}}


def tool(**call: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c", **call}


def ended(reader: AcpReader, **result: Any) -> tuple[str, Problem | None, tuple[str, ...]]:
    reader.stopped({"stopReason": "end_turn", **result})
    verdict = reader.end(None, "")
    return verdict.outcome, verdict.error, verdict.evidence


# -- words ------------------------------------------------------------------------------------------


def test_words_are_whole_before_whatever_follows() -> None:
    reader = AcpReader(turn_of())
    updates = [
        chunk("h", "thought"),
        chunk("m", "thought"),
        chunk("Hel"),
        chunk("lo"),
        tool(title="ls", status="failed"),
    ]
    assert [event for update in updates for event in reader.read(update)] == [
        ThoughtDelta(text="h"),
        ThoughtDelta(text="m"),
        Thought(text="hm"),
        TextDelta(text="Hel"),
        TextDelta(text="lo"),
        Text(text="Hello"),
        ToolStarted(id="c", name="tool", title="ls"),
        ToolEnded(id="c", ok=False),
    ]
    assert reader.flush() == []


def test_what_is_no_text_is_kept_and_what_is_empty_is_not() -> None:
    reader = AcpReader(turn_of())
    odd: list[dict[str, Any]] = [
        chunk("x", type="image"),
        {"sessionUpdate": "agent_message_chunk"},
        {"sessionUpdate": "agent_message_chunk", "content": "bare"},
        {"sessionUpdate": "news"},
        {"sessionUpdate": None},
        tool(toolCallId=7),
        {},
    ]
    for update in odd:
        assert reader.read(update) == [Raw(record=update)]
    for update in (
        chunk(""),
        chunk(None),
        chunk(5),
        {"sessionUpdate": "session_info_update"},
        {"sessionUpdate": "usage_update"},
    ):
        assert reader.read(update) == []
    assert not AcpReader(turn_of()).worked


def test_a_plan() -> None:
    entries = [{"content": "a", "status": "completed"}, {"content": None, "status": ["x"]}, 7]
    assert AcpReader(turn_of()).read({"sessionUpdate": "plan", "entries": entries}) == [
        Plan(steps=(PlanStep(text="a", status="done"), PlanStep(text="")))
    ]


# -- ends -------------------------------------------------------------------------------------------


def test_an_aside_of_the_program_proves_nothing() -> None:
    reader = AcpReader(turn_of(), Acp(aside=lambda said: Notice(text=said) if said.startswith("Info: ") else None))
    assert reader.read(chunk("Info: signed in")) == [Notice(text="Info: signed in")]
    assert ended(reader)[0] == "unproven"


def test_an_error_for_an_answer() -> None:
    reader = AcpReader(turn_of(), Acp(error_mark="Error: "))
    reader.read(chunk("Error: HTTP 401"))
    assert ended(reader) == (
        "failed",
        Problem(kind="unauthenticated", message="HTTP 401"),
        ("an error for an answer",),
    )
    reader = AcpReader(turn_of(), Acp(error_mark="Error: "))
    reader.read(chunk("Error: is the first word of this poem"))
    assert ended(reader, usage={"inputTokens": 5})[0] == "done"  # a model has said it


def test_cancelled_after_a_refusal_is_that_refusal() -> None:
    reader = AcpReader(turn_of(access="write"))
    reader.read(tool(kind="execute", title="rm x", status="in_progress"))
    assert reader.rejected({"toolCallId": "c", "kind": "execute", "title": "rm x"}, "no") == [
        ToolEnded(id="c", ok=False, output="no", denied=True)
    ]
    assert ended(reader, stopReason="cancelled") == (
        "failed",
        Problem(kind="denied", message="mine stopped: shell was refused"),
        ("stop reason cancelled",),
    )


def test_usage_is_told_with_the_end() -> None:
    reader = AcpReader(turn_of())
    reader.read({"sessionUpdate": "usage_update", "cost": {"amount": 0.5, "currency": "USD"}})
    reader.read(chunk("hi"))
    assert reader.stopped({"stopReason": "end_turn", "usage": {"inputTokens": 3}}) == [
        Text(text="hi"),
        UsageReport(usage=Usage(input_tokens=3), cost_usd=0.5),
    ]


@pytest.mark.parametrize(
    ("exit", "stderr", "problem"),
    [
        (Exit(code=0), "bye", Problem(kind="crashed", message="mine ended in the middle of the turn")),
        (None, "", Problem(kind="crashed", message="mine ended in the middle of the turn")),
        (Exit(code=1), "HTTP 429", Problem(kind="limited", message="HTTP 429")),
        (Exit(signal=9), "", Problem(kind="crashed", message="mine was ended by signal 9")),
    ],
)
def test_a_process_that_ends_in_a_turn(exit: Exit | None, stderr: str, problem: Problem) -> None:
    reader = AcpReader(turn_of())
    reader.read(chunk("hal"))
    assert reader.end(exit, stderr).error == problem


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        ({"code": -32000, "message": "Authentication required"}, "unauthenticated", "Authentication required"),
        ({"code": -32002, "message": "x", "data": {"message": "no session"}}, "not_found", "no session"),
        ({"code": 429, "message": "slow"}, "limited", "slow"),
        ({"code": -32603, "message": "Internal error", "data": {"code": 529}}, "overloaded", "Internal error"),
        ({"code": -32603, "data": {"details": "401 Incorrect API key"}}, "unauthenticated", "401 Incorrect API key"),
        ({"code": -32603, "data": {"details": "x.js:429:7"}}, "crashed", "x.js:429:7"),
        ({"code": -32603, "data": {"details": "after 429 tests"}}, "crashed", "after 429 tests"),
        ({"code": -32603, "message": "said 503", "data": {"errorName": "APIError"}}, "overloaded", "said 503"),
        ({"code": -32603, "message": "line 503"}, "crashed", "line 503"),
        ({"code": True, "message": 5, "data": [1]}, "crashed", "refused"),
        ({}, "crashed", "refused"),
        ({"message": "m" * 5000}, "crashed", "m" * 2000),
    ],
)
def test_errors_are_judged(error: dict[str, Any], kind: str, said: str) -> None:
    assert judged(error) == (kind, said)


def test_an_error_says_how_to_log_in() -> None:
    for login, hint in (("Run `mine login`", "Run `mine login`"), ("", "Log in to mine")):
        reader = AcpReader(turn_of())
        reader.read(chunk("hal"))
        assert reader.refused({"code": -32000, "message": "no"}, login) == [Text(text="hal")]
        assert reader.end(None, "").error == Problem(kind="unauthenticated", message="no", hint=hint)


# -- tools ------------------------------------------------------------------------------------------


def test_a_call_is_told_once_it_says_something() -> None:
    reader = AcpReader(turn_of())
    assert reader.read(tool(title="Terminal", kind="execute", status="pending")) == []
    assert reader.read(tool(status="pending", content=[{"type": "terminal", "terminalId": "t"}])) == []
    assert reader.read(tool(rawInput={"command": "ls"})) == [
        ToolStarted(id="c", name="shell", category="shell", title="ls", input={"command": "ls"})
    ]
    assert reader.read(tool(status="completed", rawOutput={"output": "a", "exit_code": 0})) == [
        ToolEnded(id="c", output="a", exit_code=0)
    ]
    assert reader.read(tool(status="failed")) == [] and reader.calls == {}


def test_an_edit_that_worked_and_one_that_did_not() -> None:
    content = [{"type": "diff", "path": "/workspace/a", "oldText": "1\n", "newText": "2\n"}]
    edit = {"kind": "edit", "content": content, "locations": [{"path": "/workspace/a"}]}
    files = (FileChange(path="/workspace/a"),)
    started = ToolStarted(id="c", name="edit", category="edit", files=files)
    good = ToolEnded(id="c", diff="--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n", files=files)
    assert AcpReader(turn_of()).read(tool(status="completed", **edit)) == [started, good]
    assert AcpReader(turn_of()).read(tool(status="failed", **edit)) == [started, ToolEnded(id="c", ok=False)]


def test_a_call_that_a_rule_forbids_is_denied_with_the_access_that_would_do() -> None:
    reader = AcpReader(turn_of(access="read"), Acp(denied=lambda call, output: output.startswith("rule")))
    told = reader.read(tool(kind="execute", title="rm x", status="failed", rawOutput="rule 5 forbids it"))
    assert told[-1] == ToolEnded(id="c", ok=False, output="rule 5 forbids it", denied=True)
    assert reader.denied == [Denial(tool="shell", target="rm x", access="full", reason="rule 5 forbids it")]
    walled = AcpReader(turn_of(access="read", walled=True), reader.acp)
    walled.read(tool(kind="execute", title="rm x", status="failed", rawOutput="rule 5 forbids it"))
    assert walled.denied == [Denial(tool="shell", target="rm x", access="write", reason="rule 5 forbids it")]


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ({"content": [{"type": "content", "content": {"type": "text", "text": "a"}}] * 2}, "a\na"),
        ({"content": [{"type": "content", "content": "x"}, {"type": "diff", "text": "y"}], "rawOutput": "raw"}, "raw"),
        ({"rawOutput": {"output": "", "content": "c", "error": "e"}}, "c"),
        ({"rawOutput": {"error": {"x": 1}}}, ""),
        ({"rawOutput": ["x"]}, ""),
        ({}, ""),
    ],
)
def test_outputs(call: dict[str, Any], output: str) -> None:
    assert output_of(call) == output


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ({"rawOutput": {"metadata": {"exit": 3}}}, 3),
        ({"rawOutput": {"exitCode": 0}}, 0),
        ({"rawOutput": {"exit_code": None, "exitCode": 2}}, 2),
        ({"rawOutput": {"contents": [{"exitCode": 7}]}}, 7),
        ({"_meta": {"terminal_exit": {"exit_code": -1}}}, -1),
        ({"rawOutput": {"exit_code": True}}, None),
        ({"rawOutput": {"exit_code": "1"}}, None),
        ({"rawOutput": "exit code 1"}, None),
        ({}, None),
    ],
)
def test_exit_codes(call: dict[str, Any], code: int | None) -> None:
    assert exit_of(call) == code
