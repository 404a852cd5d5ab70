"""codex app-server: recorded dialogs played again, asks within each access, and what must not end a turn."""

import json
from typing import Any

import pytest

from agents.replayed import CAPTURES, check_invariants, turn_of
from ostler.agents.codex import AGENT, dialog_launch
from ostler.agents.codex_access import UNREADABLE, confinement, escalates, wider, writable
from ostler.agents.codex_dialog import CodexDialog
from ostler.agents.dialog import Ask, Fail, Over, Ready, Tell, Withdrawn, Write
from ostler.errors import OstlerError
from ostler.words import (
    AnyEvent,
    Asked,
    AskOption,
    Attachment,
    Denial,
    Exit,
    FileChange,
    Host,
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
    Turn,
    Usage,
    UsageReport,
    Verdict,
)

HOST = Host(executable="/bin/codex", private="/run/private", home="/home/ann")
THREAD, TURN = "01a1e199-7d51-7143-8680-c1629be8b49d", "01a1e199-7d7f-71c0-bd3b-229a0104c5d7"
HISTORY = "/home/ann/.codex/sessions/rollout-1.jsonl"
FINAL = "All done. The tool ran and this is the final answer."
OPTIONS = (
    AskOption(id="allow_once", name="Allow", kind="allow_once"),
    AskOption(id="allow_always", name="Allow for this session", kind="allow_always"),
    AskOption(id="reject_once", name="Deny", kind="reject_once"),
)


def a_turn(**options: Any) -> Turn:
    return turn_of("codex", **options)


class Played:
    """A dialog, and what its steps came to."""

    def __init__(self, **options: Any) -> None:
        self.turn = a_turn(**options)
        self.dialog = CodexDialog(self.turn, HOST)
        self.written: list[Any] = []
        self.events: list[AnyEvent] = []
        self.asks: list[Asked] = []
        self.others: list[Any] = []
        self.verdicts: list[Verdict] = []

    def do(self, steps: list[Any]) -> "Played":
        for step in steps:
            match step:
                case Write(record):
                    self.written.append(record)
                case Tell(events):
                    self.events += events
                case Ask(asked):
                    self.asks.append(asked)
                case Over():
                    self.events += self.dialog.reader.flush()
                    self.verdicts.append(self.dialog.verdict(None, ""))
                case _:
                    self.others.append(step)
        return self

    def hear(self, *records: Any) -> "Played":
        for record in records:
            self.do(self.dialog.read(record))
        return self

    def reply(self, method: str, result: Any = None, error: Any = None) -> "Played":
        """Answers the newest request of that name."""
        id = next(r["id"] for r in reversed(self.written) if r.get("method") == method)
        return self.hear({"id": id, "error": error} if error is not None else {"id": id, "result": result or {}})

    def opened(self) -> "Played":
        self.do(self.dialog.open()).reply("initialize")
        method = next(r["method"] for r in self.written if r.get("method", "").startswith("thread/"))
        return self.reply(method, begun(self.turn))

    def begun(self) -> "Played":
        self.opened().do(self.dialog.prompt(self.turn)).reply("turn/start", {"turn": {"id": TURN}})
        self.written.clear()
        self.events.clear()
        return self

    def told(self, method: str, **params: Any) -> "Played":
        return self.hear({"method": method, "params": {"threadId": THREAD, "turnId": TURN, **params}})

    def item(self, phase: str, **item: Any) -> "Played":
        return self.told(f"item/{phase}", item=item)

    def ended(self, status: str = "completed", **turn: Any) -> "Played":
        return self.told("turn/completed", turn={"id": TURN, "status": status, **turn})

    def asked(self, method: str = "commandExecution", id: Any = 0, **params: Any) -> "Played":
        given = {"threadId": THREAD, "turnId": TURN, "itemId": "call_1", "reason": None}
        return self.hear({"method": f"item/{method}/requestApproval", "id": id, "params": given | params})

    def found(self, *calls: Any, output: str = "") -> "Played":
        """The answer to a search in codex's history."""
        payloads = [{"type": "function_call", "call_id": "call_1", "arguments": json.dumps(call)} for call in calls]
        if output:
            payloads.append({"type": "function_call_output", "call_id": "call_1", "output": output})
        lines = "".join(json.dumps({"type": "response_item", "payload": p}) + "\n" for p in payloads)
        return self.reply("command/exec", {"exitCode": 0, "stdout": lines, "stderr": ""})


def begun(turn: Turn, **changes: Any) -> dict[str, Any]:
    kinds = {"read": "readOnly", "write": "workspaceWrite", "full": "dangerFullAccess"}
    return {
        "thread": {"id": THREAD, "path": HISTORY},
        "model": turn.model or "gpt-5.5",
        "cwd": turn.folder,
        "runtimeWorkspaceRoots": [turn.folder],
        "approvalPolicy": "never" if turn.access == "read" else "untrusted",
        "approvalsReviewer": "user",
        "sandbox": {"type": kinds[turn.access], "networkAccess": False, "writableRoots": []},
        "activePermissionProfile": {"id": f"ostler-{turn.id}"} if turn.access != "full" else None,
        **changes,
    }


# -- captures ---------------------------------------------------------------------------------------

DECISIONS = {
    "accept": "allow_once",
    "acceptForSession": "allow_always",
    "decline": "reject_once",
    "cancel": "cancelled",
}


def recorded(case: str, **options: Any) -> Played:
    """A capture played again: what its client wanted is wanted of the dialog, which gets the server's records."""
    played = Played(**options)
    wants: dict[Any, str] = {}  # id in the capture → the method that was asked for
    for line in (CAPTURES / "dialogs" / "codex" / f"{case}.trace.ndjson").read_text().splitlines():
        row = json.loads(line)
        message = row["msg"]
        if row["dir"] == "client->server":
            if "method" in message:
                wants[message.get("id")] = message["method"]
            if not want(played, message):
                break
        elif "method" in message:
            played.hear(message)
        elif any(r.get("method") == wants[message["id"]] for r in played.written):
            played.reply(wants[message["id"]], message.get("result"), message.get("error"))
    return played


def want(played: Played, message: dict[str, Any]) -> bool:
    """False: the capture goes on with what ostler would never say."""
    dialog, params = played.dialog, message.get("params", {})
    match message.get("method"):
        case "initialize":
            played.do(dialog.open())
        case "turn/start":
            if dialog._turn:
                return False
            played.do(dialog.prompt(a_turn(prompt=params["input"][0]["text"], model=params.get("model"))))
        case "turn/interrupt":
            played.do(dialog.interrupt())
        case None:
            decision = message.get("result", {}).get("decision")
            if decision not in DECISIONS:
                return False
            if played.asks and played.asks[-1].id in dialog._open:
                before = len(played.written)
                played.do(dialog.answer(played.asks[-1].id, DECISIONS[decision]))
                assert played.written[before:] == [message]
        case "thread/resume" if dialog._thread:
            return False
    return True


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
    assert dialog_launch(a_turn(), HOST) == Launch(argv=("/bin/codex", "app-server"))
    lean = dialog_launch(a_turn(lean=True, system="s", resume=True, agent_session=THREAD), HOST)
    assert lean.argv == ("/bin/codex", "app-server", "--config=features.plugins=false")
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


# -- access -----------------------------------------------------------------------------------------


def test_full_access_needs_no_profile() -> None:
    assert confinement(a_turn(access="full"), "p") == {
        "approvalPolicy": "untrusted",
        "approvalsReviewer": "user",
        "sandbox": "danger-full-access",
    }


@pytest.mark.parametrize(
    ("access", "changes"),
    [
        ("read", {"sandbox": {"type": "workspaceWrite"}}),
        ("read", {"approvalPolicy": "on-request"}),
        ("write", {"sandbox": {"type": "dangerFullAccess"}}),
        ("write", {"sandbox": {"type": "somethingNew"}}),
        ("write", {"sandbox": {"type": "workspaceWrite", "networkAccess": True}}),
        ("write", {"sandbox": {"type": "workspaceWrite", "writableRoots": ["/home/ann"]}}),
        ("write", {"activePermissionProfile": {"id": "mine"}}),
        ("write", {"activePermissionProfile": None}),
        ("write", {"runtimeWorkspaceRoots": ["/workspace", "/home/ann"]}),
        ("write", {"cwd": "/home/ann"}),
        ("write", {"approvalPolicy": "never"}),
        ("full", {"approvalsReviewer": "auto_review"}),
        ("full", {"sandbox": None}),
    ],
)
def test_a_thread_that_is_wider_than_its_access_is_refused(access: str, changes: dict[str, Any]) -> None:
    turn = a_turn(access=access)
    assert wider(turn, "ostler-t-1", begun(turn)) == ""
    assert wider(turn, "ostler-t-1", begun(turn, **changes)) != ""
    played = Played(access=access)
    played.do(played.dialog.open()).reply("initialize").reply("thread/start", begun(turn, **changes))
    assert [(type(s), s.problem.kind) for s in played.others] == [(Fail, "denied")]


def test_a_narrower_thread_is_taken() -> None:
    turn = a_turn(access="full")
    assert wider(turn, "p", begun(turn, sandbox={"type": "workspaceWrite"})) == ""


@pytest.mark.parametrize(
    ("path", "may"),
    [
        ("/workspace/a/b.txt", True),
        ("a/b.txt", True),
        ("/tmp/x", True),
        ("/workspace/.gitignore", True),
        ("/workspace", False),
        ("/workspace/../home/x", False),
        ("/workspace2/x", False),
        ("/tmp/../etc/passwd", False),
        ("/home/ann/x", False),
        ("/workspace/.git/hooks/post-commit", False),
        ("/workspace/a/../.codex/config.toml", False),
        (".agents/skills/x", False),
    ],
)
def test_where_a_patch_may_go(path: str, may: bool) -> None:
    assert writable(path, "/workspace") is may


@pytest.mark.parametrize(
    ("arguments", "leaves"),
    [
        ('{"cmd":"ls"}', False),
        ('{"cmd":"ls","sandbox_permissions":"use_default"}', False),
        ('{"cmd":"ls","sandbox_permissions":null}', False),
        ('{"cmd":"ls","sandbox_permissions":"require_escalated"}', True),
        ('{"cmd":"ls","sandbox_permissions":"something_new"}', True),
        ('{"cmd":"ls","additional_permissions":{"network":{"enabled":true}}}', True),
        ('{"cmd":"ls","with_escalated_permissions":true}', True),
        ('"ls"', True),
        ("not json", True),
        ("[" * 100_000, True),
    ],
)
def test_which_calls_want_to_leave_the_sandbox(arguments: str, leaves: bool) -> None:
    assert escalates(arguments) is leaves


# -- asks -------------------------------------------------------------------------------------------

COMMAND = {"command": "/bin/bash -lc 'make hay'", "cwd": "/workspace"}


def test_a_command_within_write_is_looked_up_before_it_is_asked_for() -> None:
    played = Played(access="write").begun().asked(**COMMAND)
    search = played.written[-1]["params"]
    assert search["command"] == ["grep", "-a", "-F", "-e", '"call_id":"call_1"', "--", HISTORY]
    assert search["permissionProfile"] == ":read-only"
    assert played.asks == []
    played.found({"cmd": "make hay"})
    assert [ask.title for ask in played.asks] == ["make hay"]


def test_a_command_that_would_leave_the_sandbox_is_refused_for_the_person() -> None:
    played = Played(access="write").begun()
    played.item("started", type="commandExecution", id="call_1", command="make hay", status="inProgress")
    played.asked(**COMMAND).found({"cmd": "make hay", "sandbox_permissions": "require_escalated"})
    assert played.asks == []
    assert played.written[-1] == {"id": 0, "result": {"decision": "decline"}}
    assert Notice(code="denied", text="make hay: it asked to leave the sandbox") in played.events
    played.item("completed", type="commandExecution", id="call_1", command="make hay", status="declined")
    assert played.events[-1] == ToolEnded(id="call_1", ok=False, denied=True)
    assert played.ended().verdicts[0].denied == (
        Denial(tool="command_execution", target="make hay", access="full", reason="it asked to leave the sandbox"),
    )


def test_a_call_that_is_not_found_is_looked_for_again_and_then_refused() -> None:
    played = Played(access="write").begun().asked(**COMMAND)
    for _ in range(4):
        played.found()
    assert [r["method"] for r in played.written] == ["command/exec"] * 5
    played.reply("command/exec", error={"code": -32600, "message": "no grep"})
    assert played.asks == [] and played.written[-1] == {"id": 0, "result": {"decision": "decline"}}


@pytest.mark.parametrize(
    "more", [{"additionalPermissions": {"network": {"enabled": True}}}, {"networkApprovalContext": {"host": "x"}}]
)
def test_more_permissions_are_refused_within_write_and_asked_for_within_full(more: dict[str, Any]) -> None:
    assert Played(access="write").begun().asked(**COMMAND, **more).asks == []
    assert len(Played(access="full").begun().asked(**COMMAND, **more).asks) == 1


def test_read_answers_every_ask_with_no() -> None:
    played = Played(access="read").begun().asked(**COMMAND)
    assert played.asks == [] and played.written == [{"id": 0, "result": {"decision": "decline"}}]


CHANGES = [
    {"path": "/workspace/a.txt", "kind": {"type": "add"}, "diff": "one\n"},
    {"path": "/workspace/b.txt", "kind": {"type": "delete"}, "diff": "two\n"},
    {
        "path": "/workspace/c.txt",
        "kind": {"type": "update", "move_path": "/workspace/d.txt"},
        "diff": "@@ -1 +1 @@\n-x\n+y\n\n\nMoved to: /workspace/d.txt",
    },
]
DIFF = """\
--- /dev/null
+++ b/a.txt
@@ -0,0 +1 @@
+one
--- a/b.txt
+++ /dev/null
@@ -1 +0,0 @@
-two
--- a/c.txt
+++ b/d.txt
@@ -1 +1 @@
-x
+y
"""
FILES = (
    FileChange(path="/workspace/a.txt", change="add"),
    FileChange(path="/workspace/b.txt", change="delete"),
    FileChange(path="/workspace/c.txt", change="delete"),
    FileChange(path="/workspace/d.txt", change="add"),
)


def test_a_patch_is_asked_for_with_its_files_and_diff() -> None:
    played = Played(access="write").begun()
    played.item("started", type="fileChange", id="call_1", changes=CHANGES, status="inProgress").asked("fileChange")
    title = ", ".join(f.path for f in FILES)
    asked = Asked(id=played.asks[0].id, tool="file_change", title=title, diff=DIFF, files=FILES, options=OPTIONS)
    assert played.asks == [asked]
    played.do(played.dialog.answer(asked.id, "allow_once"))
    played.item("completed", type="fileChange", id="call_1", changes=CHANGES, status="completed")
    assert played.events[-1] == ToolEnded(id="call_1", diff=DIFF, files=FILES)


@pytest.mark.parametrize(
    "change",
    [
        {"path": "/home/ann/x", "kind": {"type": "add"}, "diff": ""},
        {"path": "/workspace/x", "kind": {"type": "update", "move_path": "/home/ann/x"}, "diff": ""},
        {"path": "/workspace/.git/config", "kind": {"type": "update"}, "diff": ""},
    ],
)
def test_a_patch_outside_is_refused_within_write(change: dict[str, Any]) -> None:
    for access, asks in (("write", 0), ("full", 1)):
        played = Played(access=access).begun()
        played.item("started", type="fileChange", id="call_1", changes=[CHANGES[0], change]).asked("fileChange")
        assert len(played.asks) == asks
    assert Played(access="write").begun().asked("fileChange").asks == []  # of a patch that was never told


def test_an_ask_that_is_not_open_cannot_be_answered() -> None:
    played = Played().begun().asked(**COMMAND)
    ask = played.asks[0].id
    with pytest.raises(OstlerError) as unknown:
        played.dialog.answer("ask:99", "allow_once")
    assert unknown.value.kind == "not_found"
    played.do(played.dialog.answer(ask, "allow_once"))
    with pytest.raises(OstlerError):
        played.dialog.answer(ask, "allow_once")


def test_an_ask_is_withdrawn_when_codex_resolves_it_or_ends_the_turn() -> None:
    played = Played().begun().asked(**COMMAND).asked(**COMMAND, id=1)
    first, second = (ask.id for ask in played.asks)
    played.hear({"method": "serverRequest/resolved", "params": {"threadId": THREAD, "requestId": 0}})
    played.ended("interrupted")
    assert [step for step in played.others if isinstance(step, Withdrawn)] == [Withdrawn(first), Withdrawn(second)]
    with pytest.raises(OstlerError):
        played.dialog.answer(second, "allow_once")


def test_asks_between_turns_and_of_other_kinds() -> None:
    played = Played().opened().asked(**COMMAND)
    assert played.asks == [] and played.written[-1] == {"id": 0, "result": {"decision": "decline"}}
    played.hear({"method": "item/tool/requestUserInput", "id": 3, "params": {}})
    assert played.written[-1] == {
        "id": 3,
        "error": {"code": -32601, "message": "item/tool/requestUserInput is not served here"},
    }


def test_a_subagent_asks_and_its_own_turn_ends_nothing() -> None:
    played = Played(access="write").begun()
    played.hear({"method": "thread/started", "params": {"thread": {"id": "child", "path": "/home/ann/child.jsonl"}}})
    played.asked(**COMMAND, threadId="child", turnId="other")
    assert played.written[-1]["params"]["command"][-1] == "/home/ann/child.jsonl"
    played.found({"cmd": "make hay", "sandbox_permissions": "require_escalated"})
    assert played.asks == []
    played.hear({"method": "turn/completed", "params": {"threadId": "child", "turn": {"id": "other"}}})
    assert played.verdicts == []
    assert [d.target for d in played.ended().verdicts[0].denied] == ["make hay"]


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
    assert played.events[-1] == Notice(code="refused", text="codex was not told more: no active turn to steer")


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
    assert Played(access="read").begun().ended().verdicts[0].outcome == "done"  # one request: no call was made
    assert Played(access="full").begun().ended().verdicts[0].outcome == "done"


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
