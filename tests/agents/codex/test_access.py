"""codex app-server: asks, and that neither an answer nor a config widens the access."""

from typing import Any

import pytest

from agents.codex_played import COMMAND, HISTORY, OPTIONS, THREAD, Played, a_turn, begun
from ostler.agents.codex.access import confinement, escalates, wider, writable
from ostler.agents.dialog import Fail, Withdrawn
from ostler.errors import OstlerError
from ostler.model import (
    Asked,
    Denial,
    FileChange,
    Notice,
    ToolEnded,
)

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


BROKEN = {"exitCode": 1, "stdout": "", "stderr": "bwrap: Failed to make / slave: Operation not permitted\n"}


def test_a_sandbox_that_does_not_start_is_told_as_that_and_not_as_a_refusal() -> None:
    """What is asked of codex's history runs in its sandbox, too."""
    played = Played(access="write").begun()
    played.item("started", type="commandExecution", id="call_1", command="make hay", status="inProgress")
    played.asked(**COMMAND).reply("command/exec", BROKEN)
    assert played.asks == [] and played.written[-1] == {"id": 0, "result": {"decision": "decline"}}
    (told,) = [event for event in played.events if isinstance(event, Notice)]
    assert told.code == "no_sandbox" and "bwrap: Failed to make / slave" in told.text and "access" not in told.text
    played.item("completed", type="commandExecution", id="call_1", command="make hay", status="declined")
    said = "bwrap: Failed to make / slave: Operation not permitted"
    assert played.events[-1] == ToolEnded(id="call_1", ok=False, output=said)
    assert played.ended().verdicts[0].denied == ()


def test_a_sandbox_that_does_not_start_is_told_once_at_the_end_where_no_item_tells_of_it() -> None:
    played = Played(access="read").begun()
    for total in (10, 20):
        usage = {"total": {"inputTokens": total, "outputTokens": 1}, "last": {"inputTokens": 10, "outputTokens": 1}}
        played.told("thread/tokenUsage/updated", tokenUsage=usage)
    played.ended().reply("command/exec", BROKEN)
    assert [event.code for event in played.events if isinstance(event, Notice)] == ["no_sandbox"]
    assert (played.verdicts[0].outcome, played.verdicts[0].denied) == ("done", ())


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
