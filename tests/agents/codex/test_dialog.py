"""codex app-server: recorded dialogs played again, turns, and what must not end one."""

from typing import Any

import pytest

from agents.codex_played import COMMAND, HOST, OPTIONS, THREAD, TURN, Played, a_turn, recorded
from agents.replayed import check_invariants
from ostler.agents.codex.access import UNREADABLE
from ostler.agents.codex.agent import AGENT
from ostler.agents.codex.launch import dialog_launch
from ostler.agents.dialog import Fail, Ready
from ostler.errors import OstlerError
from ostler.model import (
    Asked,
    Attachment,
    Denial,
    Exit,
    Launch,
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

FINAL = "All done. The tool ran and this is the final answer."


# -- captures ---------------------------------------------------------------------------------------


def test_recorded_asks_and_their_answers() -> None:
    played = recorded("approvals-untrusted")
    assert [r for r in played.written if "result" in r] == [
        {"id": 0, "result": {"decision": "accept"}},
        {"id": 1, "result": {"decision": "decline"}},
        {"id": 2, "result": {"decision": "acceptForSession"}},
        {"id": 3, "result": {"decision": "cancel"}},
    ]
    assert [v.outcome for v in played.verdicts] == ["done", "done", "done", "cancelled", "done"]
    assert played.verdicts[0] == Verdict(
        outcome="done",
        evidence=("turn/completed",),
        text=FINAL,
        agent_session=THREAD,
        model="gpt-5.5",
        usage=Usage(input_tokens=2468, output_tokens=112, cached_tokens=2000, reasoning_tokens=16),
    )
    assert played.verdicts[1].denied == (
        Denial(tool="command_execution", target="touch cmd-decline.txt", reason="declined"),
    )
    assert {v.usage.input_tokens for v in played.verdicts if v.outcome == "done"} == {2468}  # of each turn alone
    assert played.asks[0] == Asked(
        id=played.asks[0].id,
        tool="command_execution",
        title="touch cmd-accept.txt",
        input={"command": "touch cmd-accept.txt", "cwd": "/workspace"},
        options=OPTIONS,
    )
    # The cancelled turn leaves nothing running.
    assert {"threadId": THREAD} in [
        r["params"] for r in played.written if r.get("method") == "thread/backgroundTerminals/clean"
    ]


def test_events_of_a_recorded_turn() -> None:
    played = recorded("approvals-untrusted")
    second = [number for number, event in enumerate(played.events) if isinstance(event, Started)][1]
    first = played.events[:second]
    check_invariants(first)
    command = "/bin/bash -lc 'touch cmd-accept.txt'"
    request = Usage(input_tokens=1234, output_tokens=56, cached_tokens=1000, reasoning_tokens=8)
    both = Usage(input_tokens=2468, output_tokens=112, cached_tokens=2000, reasoning_tokens=16)
    assert [e for e in first if not isinstance(e, TextDelta | Notice)] == [
        Started(agent="codex", agent_session=THREAD, model="gpt-5.5", folder="/workspace"),
        Text(text="I will run one tool now.", id="msg_2dc0815c018b4b6d"),
        ToolStarted(
            id="call_c6f59693df2d488e",
            name="command_execution",
            title="touch cmd-accept.txt",
            input={"command": command},
        ),
        ToolEnded(id="call_c6f59693df2d488e", exit_code=0),
        UsageReport(usage=request),
        Text(text=FINAL, id="msg_944d8995049449dc"),
        UsageReport(usage=both),
    ]
    assert [e.code for e in first if isinstance(e, Notice)] == ["warning"]  # told before the first turn: no bwrap


def test_recorded_interrupts_and_models() -> None:
    played = recorded("interrupt-model")
    assert [v.outcome for v in played.verdicts] == ["cancelled"] * 3 + ["done"] * 4
    interrupts = [r["params"] for r in played.written if r.get("method") == "turn/interrupt"]
    assert len({p["turnId"] for p in interrupts}) == 3 and "" not in {p["turnId"] for p in interrupts}
    assert [e for e in played.events if isinstance(e, Raw)] == []
    models = [r["params"].get("model") for r in played.written if r.get("method") == "turn/start"]
    assert models == [None, None, None, None, "gpt-5.4", None, "no-such-model", "gpt-5.5"]
    assert [v.model for v in played.verdicts][3:] == ["gpt-5.5", "gpt-5.4", "gpt-5.4", "no-such-model"]


def test_a_recorded_command_is_ended_with_its_turn() -> None:
    played = recorded("background-terminals-exp")
    assert [v.outcome for v in played.verdicts] == ["cancelled"]
    assert [r["method"] for r in played.written][-2:] == ["turn/interrupt", "thread/backgroundTerminals/clean"]
    check_invariants(played.events)


def test_a_recorded_resume() -> None:
    thread = "01a1e19a-2a5f-7933-8b38-4d083e12dd57"
    played = recorded("resume", agent_session=thread, resume=True, first=False)
    assert [step for step in played.others if isinstance(step, Ready)] == [Ready(agent_session=thread, model="gpt-5.5")]
    assert [v.outcome for v in played.verdicts] == ["done"]
    assert played.verdicts[0].usage.input_tokens == 1234  # not what the thread had used before


# -- opening ----------------------------------------------------------------------------------------


def test_launch() -> None:
    untrusted = '--config=projects={"/workspace"={trust_level="untrusted"}}'
    assert dialog_launch(a_turn(), HOST) == Launch(argv=("/bin/codex", "app-server", untrusted))
    lean = dialog_launch(a_turn(lean=True, system="s", resume=True, agent_session=THREAD), HOST)
    assert lean.argv == ("/bin/codex", "app-server", untrusted, "--config=features.plugins=false")
    assert lean.notices == ("the system prompt was put before the first prompt",)
    assert AGENT.dialog is not None and AGENT.dialog.protocol == "app-server"
    for options in ({"command": True}, {"tools_denied": ("shell",)}, {"resume": True, "agent_session": "name"}):
        with pytest.raises(OstlerError):
            dialog_launch(a_turn(**options), HOST)


def test_a_new_thread_is_asked_for_with_its_confinement() -> None:
    played = Played(access="write", model="gpt-5.4", system="be brief").opened()
    rules = {"extends": ":workspace", "filesystem": {UNREADABLE: "deny"}, "network": {"enabled": False}}
    assert played.written == [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "clientInfo": {"name": "ostler", "title": "ostler", "version": "1"},
                "capabilities": {"experimentalApi": True},
            },
        },
        {"method": "initialized"},
        {
            "id": 2,
            "method": "thread/start",
            "params": {  # no cwd: codex would trust the folder for good
                "approvalPolicy": "untrusted",
                "approvalsReviewer": "user",
                "permissions": "ostler-t-1",
                "config": {"permissions": {"ostler-t-1": rules}},
                "runtimeWorkspaceRoots": ["/workspace"],
                "model": "gpt-5.4",
                "developerInstructions": "be brief",
            },
        },
        {"id": 3, "method": "model/list", "params": {}},  # nothing waits for its answer
    ]
    assert played.others == [Ready(agent_session=THREAD, model="gpt-5.4")]


@pytest.mark.parametrize(("fork", "method"), [(False, "thread/resume"), (True, "thread/fork")])
def test_resume_and_fork(fork: bool, method: str) -> None:
    played = Played(access="read", resume=True, fork=fork, agent_session=THREAD).opened()
    params = next(r["params"] for r in played.written if r.get("method") == method)
    assert (params["threadId"], params["cwd"], params["excludeTurns"]) == (THREAD, "/workspace", True)
    assert (params["approvalPolicy"], params["permissions"]) == ("never", "ostler-t-1")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("no rollout found for thread id 1", "not_found"),
        ("invalid session id: x", "not_found"),
        ("failed to load configuration: bad", "bad_request"),
        ("Not initialized", "unsupported"),
    ],
)
def test_a_thread_that_does_not_open(said: str, kind: str) -> None:
    played = Played(resume=True, agent_session=THREAD)
    played.do(played.dialog.open()).reply("initialize")
    played.reply("thread/resume", error={"code": -32600, "message": said})
    assert [type(step) for step in played.others] == [Fail]
    assert played.others[0].problem.kind == kind and said in played.others[0].problem.message


# -- turns ------------------------------------------------------------------------------------------


def test_what_a_turn_carries() -> None:
    schema = {"type": "object"}
    image, note = Attachment(path="/w/dot.png", image=True), Attachment(name="n", content="oats")
    played = Played(resume=True, agent_session=THREAD, system="be brief").opened()
    turn = a_turn(schema=schema, attachments=(image, note), model="gpt-5.4", system="be brief", resume=True)
    played.do(played.dialog.prompt(turn))
    assert played.written[-1]["params"] == {
        "threadId": THREAD,
        "input": [
            {"type": "text", "text": 'be brief\n\ndo it\n\n<file name="n">\noats\n</file>'},
            {"type": "localImage", "path": "/w/dot.png"},
        ],
        "model": "gpt-5.4",
        "outputSchema": schema,
    }
    with pytest.raises(OstlerError):
        played.dialog.prompt(a_turn(prompt="x" * (1 << 20 | 1)))


def test_words_and_interrupts_wait_until_the_turn_has_its_name() -> None:
    played = Played().opened()
    played.do(played.dialog.prompt(played.turn))
    played.written.clear()
    played.do(played.dialog.steer("and oats")).do(played.dialog.interrupt())
    assert played.written == []
    played.hear({"method": "turn/started", "params": {"threadId": THREAD, "turn": {"id": TURN}}})
    assert [(r["method"], r["params"]) for r in played.written] == [
        ("turn/steer", {"threadId": THREAD, "expectedTurnId": TURN, "input": [{"type": "text", "text": "and oats"}]}),
        ("turn/interrupt", {"threadId": THREAD, "turnId": TURN}),
    ]


def test_nobody_to_steer_or_interrupt() -> None:
    played = Played().begun().ended()
    with pytest.raises(OstlerError) as refused:
        played.dialog.steer("more")
    assert refused.value.kind == "not_found"
    assert played.dialog.interrupt() == []
    played.begun().do(played.dialog.steer("more")).reply("turn/steer", error={"message": "no active turn to steer"})
    assert played.events[-1] == Notice(code="refused", text="codex could not be steered: no active turn to steer")


def test_modes_cannot_be_changed() -> None:
    with pytest.raises(OstlerError) as refused:
        Played().opened().dialog.change(mode="plan")
    assert refused.value.kind == "unsupported"


def test_late_words_of_another_turn_are_dropped() -> None:
    played = Played().begun()
    played.told("item/agentMessage/delta", turnId="old", itemId="m", delta="late")
    played.told("turn/completed", turnId=None, turn={"id": "old", "status": "interrupted"})
    assert (played.events, played.verdicts) == ([], [])


def test_plans_thoughts_and_texts_that_break_off() -> None:
    played = Played().begun()
    steps = [{"step": s, "status": t} for s, t in (("a", "completed"), ("b", "inProgress"), ("c", "pending"))]
    played.told("turn/plan/updated", plan=steps)
    played.told("item/reasoning/summaryTextDelta", itemId="r", delta="hm")
    played.item("completed", type="reasoning", id="r", summary=["hm"], content=[])
    played.told("item/agentMessage/delta", itemId="m", delta="half a ")
    retry = {"message": "Reconnecting... 2/5", "additionalDetails": "unexpected status 429 Too Many Requests"}
    played.told("error", error=retry, willRetry=True)
    played.told("item/agentMessage/delta", itemId="n", delta="whole")
    played.item("completed", type="agentMessage", id="n", text="whole")
    played.item("completed", type="somethingNew", id="x")
    done, active, pending = (PlanStep(text=s, status=t) for s, t in (("a", "done"), ("b", "active"), ("c", "pending")))
    assert played.ended().events[:-1] == [
        Plan(steps=(done, active, pending)),
        ThoughtDelta(text="hm", id="r"),
        Thought(text="hm", id="r"),
        TextDelta(text="half a ", id="m"),
        Text(text="half a ", id="m"),
        Limited(error="limited", message=f"{retry['message']} ({retry['additionalDetails']})", attempt=2),
        TextDelta(text="whole", id="n"),
        Text(text="whole", id="n"),
    ]
    assert isinstance(played.events[-1], Raw)
    assert played.verdicts[0].text == "whole"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "no", "codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 401}}}, "unauthenticated"),
        ({"message": "no", "codexErrorInfo": {"responseTooManyFailedAttempts": {"httpStatusCode": 429}}}, "limited"),
        ({"message": "no", "codexErrorInfo": "internalServerError"}, "overloaded"),
        ({"message": "no", "codexErrorInfo": "usageLimitExceeded"}, "limited"),
        ({"message": "stream disconnected before completion", "codexErrorInfo": "other"}, "overloaded"),
        ({"message": "unexpected status 403 Forbidden"}, "unauthenticated"),
        ({"message": "something else"}, "crashed"),
    ],
)
def test_failures_have_their_kind(error: dict[str, Any], kind: str) -> None:
    verdict = Played().begun().ended("failed", error=error).verdicts[0]
    assert verdict.error is not None and (verdict.error.kind, verdict.error.message) == (kind, error["message"])
    assert verdict.error.hint == ("Log in: codex login" if kind == "unauthenticated" else "")


def test_a_turn_that_does_not_start_or_has_no_known_end() -> None:
    played = Played().opened()
    played.do(played.dialog.prompt(played.turn)).reply("turn/start", error={"message": "bad request"})
    assert played.verdicts[0].error == Problem(kind="bad_request", message="bad request")
    assert Played().begun().ended("vanished").verdicts[0].outcome == "unproven"


@pytest.mark.parametrize("exit", [Exit(code=0), Exit(code=1), Exit(signal=9)])
def test_a_process_that_ends_in_a_turn_has_crashed(exit: Exit) -> None:
    played = Played().begun()
    played.told("item/agentMessage/delta", itemId="m", delta="half")
    assert played.dialog.reader.flush() == [Text(text="half", id="m")]
    verdict = played.dialog.verdict(exit, "")
    assert (verdict.outcome, verdict.error.kind, verdict.text) == ("crashed", "crashed", "half")


def test_a_command_that_the_sandbox_stopped_at_once_is_told_from_the_history() -> None:
    played = Played(access="read").begun()
    for total in (10, 20):
        counts = {"total": {"inputTokens": total}, "last": {"inputTokens": 10}}
        played.told("thread/tokenUsage/updated", tokenUsage=counts)
    played.events.clear()
    played.ended()
    pattern = played.written[-1]["params"]["command"][4]
    assert TURN in pattern and played.verdicts == []  # not over before it was looked up
    played.found({"cmd": "touch x"}, output="Process exited with code 1\ntouch: x: Read-only file system")
    reason = "the sandbox refused it"
    assert played.events == [
        ToolStarted(id="call_1", name="command_execution", title="touch x"),
        ToolEnded(id="call_1", ok=False, output=reason, denied=True),
    ]
    assert played.verdicts[0].outcome == "done"
    assert played.verdicts[0].denied == (
        Denial(tool="command_execution", target="touch x", access="write", reason=reason),
    )


def test_no_history_no_wait() -> None:
    for access in ("read", "full"):  # one request: no call was made
        said = Played(access=access).begun().item("completed", type="agentMessage", id="n", text="Here.")
        assert said.ended().verdicts[0].outcome == "done"


ODD: tuple[Any, ...] = (None, 0, -1, True, 1e99, "", "x", [], [[]], {}, {"id": []}, {"type": {}}, [None, {"kind": 7}])
METHODS = (
    *("item/started", "item/completed", "item/agentMessage/delta", "turn/plan/updated", "turn/completed", "error"),
    *("thread/tokenUsage/updated", "thread/started", "serverRequest/resolved", "warning", "turn/started", "no/such"),
    *("item/commandExecution/requestApproval", "item/fileChange/requestApproval", "configWarning"),
)


@pytest.mark.parametrize("method", METHODS)
def test_no_record_however_odd_raises(method: str) -> None:
    fields = ("item", "turn", "tokenUsage", "plan", "error", "itemId", "delta", "requestId", "thread", "message")
    for odd in ODD:
        for shape in ({}, {"id": odd}):
            for params in (odd, *({"threadId": THREAD, "turnId": TURN, field: odd} for field in fields)):
                Played(access="write").begun().hear({"method": method, "params": params, **shape})
                Played().opened().hear({"method": method, "params": params, **shape})
    for kind in ("commandExecution", "fileChange", "mcpToolCall", "reasoning", "agentMessage", "webSearch"):
        for odd in ODD:
            item = dict.fromkeys(("id", "command", "changes", "summary", "status", "result", "error", "text"), odd)
            Played().begun().told(method, item={**item, "type": kind})


def test_no_answer_however_odd_raises() -> None:
    for method in ("initialize", "thread/start", "turn/start", "command/exec", "turn/steer"):
        for odd in ODD:
            for record in ({"result": odd}, {"error": odd}, {}):
                played = Played(access="write").begun().asked(**COMMAND)
                played.do(played.dialog.steer("x"))
                id = next((r["id"] for r in played.written if r.get("method") == method), 1)
                played.hear({"id": id, **record}, {"id": odd, **record})
