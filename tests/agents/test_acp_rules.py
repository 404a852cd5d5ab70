"""The rules of ACP one by one: frames, updates, asks, prompts."""

from typing import Any

import pytest

from agents.acp_replayed import dialog_of, end, opened, running, said, turn_of, update
from ostler.agents.acp.dialog import AcpDialog
from ostler.agents.dialog import Ask, Call, Emit, Over, Withdrawn, Write
from ostler.errors import OstlerError
from ostler.model import (
    Answered,
    Asked,
    Attachment,
    Plan,
    PlanStep,
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

# -- frames -----------------------------------------------------------------------------------------


def test_answers_to_nothing_are_ignored() -> None:
    dialog = running()
    for record in (
        {"id": 99, "result": {}},
        {"id": "1", "result": {}},
        {"id": None, "result": {}},
        {"id": True, "result": {}},
        {"id": dialog._prompt + 0.5, "result": {"stopReason": "end_turn"}},
        {"id": [], "error": {}},
        {"result": {"stopReason": "end_turn"}},
        {},
        {"method": 7},
        {"method": "mine/gossip", "params": {"x": 1}},
        {"method": "session/update"},
        {"method": "session/update", "params": {"sessionId": "other", "update": {"sessionUpdate": "plan"}}},
        {"method": "session/update", "params": {"sessionId": "S", "update": []}},
    ):
        assert dialog.read(record) == [], record
    said(dialog, "hi")
    assert end(dialog).outcome == "done"
    assert dialog.read({"id": dialog._prompt, "result": {"stopReason": "end_turn"}}) == []


@pytest.mark.parametrize("id", [0, 7, "a", "", None, 1.5])
def test_requests_are_answered_under_their_own_id(id: Any) -> None:
    dialog = running()
    (write,) = dialog.read({"id": id, "method": "mine/unknown"})
    assert write.record == {
        "jsonrpc": "2.0",
        "id": id,
        "error": {"code": -32601, "message": "mine/unknown is not served here"},
    }
    (write,) = dialog.read({"id": id, "method": "fs/read_text_file", "params": {"sessionId": "other", "path": "/x"}})
    assert write.record["error"]["code"] == -32602
    (call,) = dialog.read({"id": id, "method": "fs/read_text_file", "params": {"sessionId": "S", "path": "/x"}})
    assert isinstance(call, Call)
    assert [w.record for w in dialog.reply(call.id, {"content": "c"})] == [
        {"jsonrpc": "2.0", "id": id, "result": {"content": "c"}}
    ]
    assert dialog.reply(call.id, {"content": "again"}) == []


def test_too_many_requests_are_refused() -> None:
    dialog = running()
    steps = [dialog.read({"id": n, "method": "fs/read_text_file", "params": {"sessionId": "S"}}) for n in range(1100)]
    assert [isinstance(step, Call) for (step,) in steps] == [True] * 1000 + [False] * 100


def test_a_request_can_be_taken_back_by_its_very_id() -> None:
    dialog = running()
    (call,) = dialog.read({"id": 1, "method": "fs/read_text_file", "params": {"sessionId": "S", "path": "/x"}})
    steps = _ask(dialog, id="1")
    asked = steps[-1].asked
    for other in (2, "2", True, 1.0, None):
        assert dialog.read({"method": "$/cancel_request", "params": {"requestId": other}}) == []
    steps = dialog.read({"method": "$/cancel_request", "params": {"requestId": "1"}})
    assert (steps[0].record["error"]["code"], steps[1]) == (-32800, Withdrawn(asked.id))
    write, withdrawn = dialog.read({"method": "$/cancel_request", "params": {"requestId": 1}})
    assert (write.record["id"], write.record["error"]["code"]) == (1, -32800)
    assert withdrawn == Withdrawn(call.id)
    assert dialog.reply(call.id, {"content": "too late"}) == []
    with pytest.raises(OstlerError):
        dialog.answer(asked.id, "allow_once")


def test_result_and_error_together_are_no_success() -> None:
    dialog = running()
    said(dialog, "hi")
    both = {"result": {"stopReason": "end_turn"}, "error": {"code": -32603, "message": "Internal error"}}
    assert isinstance(dialog.read({"id": dialog._prompt, **both})[-1], Over)
    assert dialog.verdict(None, "").outcome == "crashed"
    dialog = running()
    said(dialog, "hi")
    dialog.read({"id": dialog._prompt, "result": {"stopReason": "end_turn"}, "error": None})
    assert dialog.verdict(None, "").outcome == "done"


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        ({"code": -32000, "message": "Authentication required"}, "unauthenticated", "Authentication required"),
        ({"code": 401, "message": "no"}, "unauthenticated", "no"),
        (
            {"code": -32603, "message": "Internal error", "data": {"details": "429 slow down"}},
            "limited",
            "429 slow down",
        ),
        ({"code": "ENOENT", "message": None}, "crashed", "refused"),
        ({"code": -32800, "message": "cancelled"}, "cancelled", "cancelled"),
        ("a bare string", "crashed", "a bare string"),
        ([], "crashed", "refused"),
    ],
)
def test_errors_in_place_of_an_answer(error: Any, kind: str, message: str) -> None:
    dialog = running()
    dialog.read({"id": dialog._prompt, "error": error})
    verdict = dialog.verdict(None, "")
    assert verdict.error is not None
    assert (verdict.error.kind, verdict.error.message) == (kind, message)


@pytest.mark.parametrize(
    ("reason", "outcome", "kind"),
    [
        ("end_turn", "done", None),
        ("max_tokens", "failed", "over_budget"),
        ("max_turn_requests", "failed", "over_budget"),
        ("refusal", "failed", "denied"),
        ("cancelled", "cancelled", "cancelled"),
        ("else", "unproven", "unproven"),
        (None, "unproven", "unproven"),
    ],
)
def test_stop_reasons(reason: Any, outcome: str, kind: str | None) -> None:
    dialog = running()
    said(dialog, "hi")
    verdict = end(dialog, stopReason=reason)
    assert (verdict.outcome, verdict.error and verdict.error.kind) == (outcome, kind)


def test_an_end_without_a_word_is_no_success() -> None:
    dialog = running()
    update(dialog, "usage_update", used=100, size=1000)
    verdict = end(dialog)
    assert (verdict.outcome, verdict.evidence) == ("unproven", ("empty end_turn",))
    assert end(running(), usage={"inputTokens": 3, "outputTokens": 1}).outcome == "done"


def test_words_after_the_answer_are_dropped() -> None:
    dialog = running()
    said(dialog, "hi")
    end(dialog)
    assert said(dialog, "late") == []
    assert update(dialog, "tool_call", toolCallId="late", title="x") == []
    dialog.prompt(turn_of())
    assert update(dialog, "tool_call_update", toolCallId="late", status="completed") == []
    assert update(dialog, "tool_call", toolCallId="late", title="x", status="in_progress") == [
        ToolStarted(id="late", name="tool", title="x")
    ]


# -- updates ----------------------------------------------------------------------------------------


def test_thoughts_words_and_plans() -> None:
    dialog = running()
    thought = {"type": "text", "text": "hm"}
    assert update(dialog, "agent_thought_chunk", content=thought) == [ThoughtDelta(text="hm")]
    assert said(dialog, "a") == [Thought(text="hm"), TextDelta(text="a")]
    assert said(dialog, "b") == [TextDelta(text="b")]
    entries = [{"content": "one", "status": "completed"}, {"content": "two", "status": 5}, "broken", {}]
    plan = Plan(steps=(PlanStep(text="one", status="done"), PlanStep(text="two"), PlanStep(text="")))
    assert update(dialog, "plan", entries=entries) == [plan]
    steps = dialog.read({"id": dialog._prompt, "result": {"stopReason": "end_turn", "usage": {"inputTokens": 1}}})
    assert steps[0].events == [Text(text="ab"), UsageReport(usage=Usage(input_tokens=1))]


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "of tomorrow", "x": [1]},
        {"sessionUpdate": None},
        {},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "…"}},
        {"sessionUpdate": "agent_message_chunk", "content": "text"},
        {"sessionUpdate": "tool_call", "title": "no id"},
        {"sessionUpdate": "tool_call", "toolCallId": 7},
    ],
)
def test_what_is_unknown_is_kept_as_it_is(update: dict[str, Any]) -> None:
    dialog = running()
    (step,) = dialog.read({"method": "session/update", "params": {"sessionId": "S", "update": update}})
    assert step == Emit([Raw(record=update)])


def test_a_tool_call_is_all_its_updates() -> None:
    dialog = running()
    assert (
        update(dialog, "tool_call", toolCallId="c", title="bash", kind="execute", status="pending", rawInput={}) == []
    )
    assert update(dialog, "tool_call_update", toolCallId="c", rawInput={"command": "ls"}) == [
        ToolStarted(id="c", name="shell", category="shell", title="ls", input={"command": "ls"})
    ]
    content = [{"type": "content", "content": {"type": "text", "text": "a\n"}}, 5, {"type": "content", "content": None}]
    raw = {"exit_code": 2}
    assert update(dialog, "tool_call_update", toolCallId="c", content=content, status="completed", rawOutput=raw) == [
        ToolEnded(id="c", ok=False, output="a\n", exit_code=2)
    ]
    assert update(dialog, "tool_call_update", toolCallId="c", status="failed") == []


def test_what_a_terminal_of_the_agents_own_printed() -> None:
    dialog = running()
    shown = [{"type": "terminal", "terminalId": "t"}]
    update(dialog, "tool_call", toolCallId="c", title="ls", status="in_progress", content=shown)
    for piece in ("a\n", "b\n"):
        meta = {"terminal_output": {"terminal_id": "t", "data": piece}}
        assert update(dialog, "tool_call_update", toolCallId="c", _meta=meta) == []
    exit = {"terminal_exit": {"terminal_id": "t", "exit_code": 3, "signal": None}}
    assert update(dialog, "tool_call_update", toolCallId="c", status="completed", _meta=exit) == [
        ToolEnded(id="c", ok=False, output="a\nb\n", exit_code=3)
    ]


def test_meta_never_stands_in_for_a_parameter() -> None:
    dialog = running()
    forged = {"sessionId": "S", "command": "rm", "path": "/etc/passwd", "toolCallId": "x", "id": 1}
    (call,) = dialog.read(
        {"id": 5, "method": "fs/read_text_file", "params": {"sessionId": "S", "path": "/a", "_meta": forged}}
    )
    assert call.params == {"sessionId": "S", "path": "/a"}
    (refusal,) = dialog.read({"id": 5, "method": "fs/read_text_file", "params": {"path": "/a", "_meta": forged}})
    assert refusal.record["error"]["code"] == -32602
    assert (
        dialog.read({"method": "session/update", "params": {"_meta": forged, "update": {"sessionUpdate": "plan"}}})
        == []
    )
    shown = {"terminal_output": {"terminal_id": "t", "data": "x", "what": "terminal_exit"}}
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "_meta": shown}
    steps = dialog.read({"method": "session/update", "params": {"sessionId": "S", "update": update}})
    assert steps[0] == Call(
        "", "terminal_show", {"terminal_id": "t", "data": "x", "what": "terminal_output", "tool": "c"}
    )


def test_the_terminals_that_a_tool_call_shows() -> None:
    dialog = running()
    content = [{"type": "terminal", "terminalId": "t"}, {"type": "terminal"}, {"type": "diff", "terminalId": "d"}, 5]
    forged = {"terminal_info": {"terminal_id": "own", "tool": "another", "cwd": "/"}}
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "content": content, "_meta": forged}
    steps = dialog.read({"method": "session/update", "params": {"sessionId": "S", "update": update}})
    assert [step for step in steps if isinstance(step, Call)] == [
        Call("", "terminal_show", {"terminal_id": "t", "what": "terminal_link", "tool": "c"}),
        Call("", "terminal_show", {"terminal_id": None, "what": "terminal_link", "tool": "c"}),
        Call("", "terminal_show", {"terminal_id": "own", "what": "terminal_info", "tool": "c", "cwd": "/"}),
    ]
    for broken in ({"toolCallId": 7}, {"toolCallId": "c", "content": {"type": "terminal", "terminalId": "t"}}):
        update = {"sessionUpdate": "tool_call_update", **{"content": content, **broken}}
        steps = dialog.read({"method": "session/update", "params": {"sessionId": "S", "update": update}})
        assert not [step for step in steps if isinstance(step, Call)]


# -- asks -------------------------------------------------------------------------------------------

OPTIONS = [
    {"optionId": "z", "name": "Deny", "kind": "reject_once"},
    {"optionId": "allow_once", "name": "Allow for ever", "kind": "allow_always"},
    {"optionId": "y", "name": "Allow", "kind": "allow_once"},
]


def _ask(dialog: AcpDialog, id: Any = 1, options: Any = OPTIONS, **call: Any) -> list[Any]:
    tool = {"toolCallId": "c", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}, **call}
    params = {"sessionId": "S", "toolCall": tool, "options": options}
    return dialog.read({"id": id, "method": "session/request_permission", "params": params})


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("allow_once", {"outcome": "selected", "optionId": "y"}),
        ("allow_always", {"outcome": "selected", "optionId": "y"}),  # the agent's own would outlive the session
        ("reject_once", {"outcome": "selected", "optionId": "z"}),
        ("reject_always", {"outcome": "cancelled"}),
    ],
)
def test_options_are_chosen_by_kind(kind: Any, outcome: dict[str, str]) -> None:
    dialog = running()
    ask = _ask(dialog)[-1]
    assert [option.kind for option in ask.asked.options] == ["allow_once", "allow_always", "reject_once"]
    steps = dialog.answer(ask.asked.id, kind)
    assert steps[0] == Write({"jsonrpc": "2.0", "id": 1, "result": {"outcome": outcome}})
    with pytest.raises(OstlerError) as refused:
        dialog.answer(ask.asked.id, kind)
    assert refused.value.kind == "not_found"


def test_a_refused_call_has_ended_whatever_the_agent_says_of_it() -> None:
    dialog = running()
    (told, ask) = _ask(dialog)
    assert told == Emit([ToolStarted(id="c", name="shell", category="shell", title="ls", input={"command": "ls"})])
    (_, told) = dialog.answer(ask.asked.id, "reject_once", "not today")
    assert told == Emit([ToolEnded(id="c", ok=False, output="not today", denied=True)])
    assert update(dialog, "tool_call_update", toolCallId="c", status="failed") == []
    said(dialog, "hm")
    assert [(d.tool, d.target, d.access, d.reason) for d in end(dialog).denied] == [("shell", "ls", None, "not today")]


def test_what_a_person_refuses_needs_no_wider_access() -> None:
    """Behind a wall, commands are asked about under `write`, too."""
    dialog = running(access="write", walled=True)
    dialog.answer(_ask(dialog)[-1].asked.id, "reject_once", "not today")
    said(dialog, "hm")
    assert [(d.access, d.reason) for d in end(dialog).denied] == [(None, "not today")]


def test_a_cancelled_ask_ends_the_turn_first() -> None:
    """copilot takes `cancelled` for a no, and goes on."""
    dialog = running()
    ask = _ask(dialog)[-1]
    cancel, answer = dialog.answer(ask.asked.id, "cancelled")
    assert cancel.record["method"] == "session/cancel"
    assert answer.record["result"] == {"outcome": {"outcome": "cancelled"}}
    assert dialog.interrupt() == []
    (write,) = dialog.give_up()
    assert write.record == {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": dialog._prompt}}


def test_always_covers_the_very_same_call() -> None:
    dialog = running()
    dialog.answer(_ask(dialog)[-1].asked.id, "allow_always")
    told, write = _ask(dialog, id=2, toolCallId="d")
    assert isinstance(told.events[-1], Answered) and told.events[-1].by == "an earlier answer"
    assert write.record == {"jsonrpc": "2.0", "id": 2, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}}
    assert isinstance(_ask(dialog, id=3, toolCallId="e", rawInput={"command": "ls\nrm -rf ."})[-1], Ask)


@pytest.mark.parametrize(
    ("access", "call", "needs"),
    [
        ("read", {"kind": "edit", "locations": [{"path": "/workspace/a"}]}, "write"),
        ("read", {"kind": "execute"}, "full"),
        ("read", {"kind": "delete", "locations": [{"path": "/etc/passwd"}]}, "full"),
        ("read", {"kind": "switch_mode"}, "full"),
        ("read", {"kind": None}, "full"),
        ("write", {"kind": "execute"}, "full"),
        ("write", {"kind": "edit", "locations": [{"path": "/workspace/../etc/x"}]}, "full"),
        ("write", {"kind": "edit", "locations": [{"path": "/workspaces/x"}]}, "full"),
        ("write", {"kind": "edit", "content": [{"type": "diff", "path": "/etc/x", "newText": ""}]}, "full"),
        ("write", {"kind": "edit", "rawInput": {"filepath": "/etc/x"}}, "full"),
        ("read", {"kind": "read"}, None),
        ("read", {"kind": "fetch"}, None),
        ("write", {"kind": "edit", "locations": [{"path": "/workspace/a"}, {"path": "b"}]}, None),
        ("full", {"kind": None}, None),
    ],
)
def test_no_answer_reaches_beyond_the_access(access: str, call: dict[str, Any], needs: str | None) -> None:
    dialog = running(access=access)
    steps = _ask(dialog, **{"rawInput": None, **call})
    if needs is None:
        assert isinstance(steps[-1], Ask)
        return
    assert not any(isinstance(step, Ask) for step in steps)
    (write,) = [step for step in steps if isinstance(step, Write)]
    assert write.record["result"] == {"outcome": {"outcome": "selected", "optionId": "z"}}
    told = [event for step in steps if isinstance(step, Emit) for event in step.events]
    assert any(isinstance(e, Answered) and e.by == f"access {access}" for e in told)
    assert any(isinstance(e, Asked) for e in told)
    said(dialog, "hm")
    assert [d.access for d in end(dialog).denied] == [needs]


def test_what_a_call_is_counts_not_what_its_question_says() -> None:
    """copilot asks to `read` a path that an edit of its writes to."""
    dialog = running(access="write")
    update(dialog, "tool_call", toolCallId="c", kind="edit", title="Create", rawInput={"path": "/etc/x"})
    steps = _ask(dialog, kind="read", title="Access paths", rawInput={"path": "/etc/x"})
    assert not any(isinstance(step, Ask) for step in steps)


def test_asks_without_a_turn_or_of_another_session_are_no_asks() -> None:
    dialog = running()
    params = {"sessionId": "other", "toolCall": {"toolCallId": "c"}, "options": OPTIONS}
    (write,) = dialog.read({"id": 1, "method": "session/request_permission", "params": params})
    assert write.record["error"]["code"] == -32602
    said(dialog, "hi")
    end(dialog)
    (write,) = _ask(dialog, id=2)
    assert write.record["result"] == {"outcome": {"outcome": "cancelled"}}


@pytest.mark.parametrize("options", [[], [{"optionId": "a", "kind": "of tomorrow"}]])
def test_a_request_without_options_that_are_known_can_only_be_cancelled(options: Any) -> None:
    dialog = running()
    ask = _ask(dialog, options=options)[-1]
    steps = dialog.answer(ask.asked.id, "reject_once")
    assert steps[0].record["result"] == {"outcome": {"outcome": "cancelled"}}


@pytest.mark.parametrize(
    "options", [None, "x", 5, [{}], [{"kind": "reject_once"}], [{"optionId": 5, "kind": "reject_once"}]]
)
def test_a_malformed_request_is_refused(options: Any) -> None:
    (write,) = _ask(running(), options=options)
    assert write.record["error"]["code"] == -32602


# -- prompts ----------------------------------------------------------------------------------------


def _blocks(dialog: AcpDialog, prompt: str, **changes: Any) -> list[dict[str, Any]]:
    steps = dialog.prompt(turn_of(prompt, **changes))
    return next(step.record["params"]["prompt"] for step in steps if isinstance(step, Write))


def test_prompts_are_literal_and_carry_what_goes_with_them() -> None:
    dialog = dialog_of()
    opened(dialog, agentCapabilities={"promptCapabilities": {"image": True, "embeddedContext": True}})
    assert _blocks(dialog, " /exit") == [{"type": "text", "text": "\u200b /exit"}]
    assert _blocks(dialog, "/compact", command=True) == [{"type": "text", "text": "/compact"}]
    attached = (
        Attachment(name="n.txt", content="N"),
        Attachment(path="/workspace/a b.txt", name="a b.txt"),
        Attachment(path="/workspace/p.png", image=True, data="data:image/png;base64,AAA="),
    )
    assert _blocks(dialog, "look", attachments=attached)[1:] == [
        {"type": "resource", "resource": {"uri": "file:///n.txt", "text": "N"}},
        {"type": "resource_link", "uri": "file:///workspace/a%20b.txt", "name": "a b.txt"},
        {"type": "image", "mimeType": "image/png", "data": "AAA="},
    ]


def test_an_agent_that_takes_little_gets_text_and_no_image() -> None:
    dialog = dialog_of()
    opened(dialog)
    blocks = _blocks(dialog, "look", attachments=(Attachment(name="n.txt", content="N"),))
    assert blocks[1] == {"type": "text", "text": '<file name="n.txt">\nN\n</file>'}
    with pytest.raises(OstlerError) as refused:
        dialog.prompt(turn_of(attachments=(Attachment(path="/p.png", image=True, data="data:image/png;base64,A"),)))
    assert refused.value.kind == "unsupported"
