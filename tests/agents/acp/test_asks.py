"""Permission requests: what is shown, what an answer covers, and what no answer may allow."""

from typing import Any

import pytest

from agents.acp_replayed import running
from ostler.agents.acp.asks import (
    asked_of,
    diffs_of,
    edited_paths,
    key_of,
    malformed,
    needed,
    option_of,
)
from ostler.agents.acp.protocol import Acp
from ostler.agents.dialog import Ask
from ostler.model import Asked, AskOption, FileChange

ONCE = {"optionId": "y", "name": "Yes", "kind": "allow_once"}
NEVER = {"optionId": "n", "name": "No", "kind": "reject_always"}
DIFF = {"type": "diff", "path": "/w/a.py", "oldText": "1\n", "newText": "2\n"}
SHOWN = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n"


def edit(*paths: str, **more: Any) -> dict[str, Any]:
    return {"kind": "edit", "locations": [{"path": path} for path in paths], **more}


# -- what is shown ----------------------------------------------------------------------------------


def test_an_ask_of_an_edit() -> None:
    call = edit("/w/a.py", content=[DIFF], title="Edit a.py", rawInput={"path": "/w/a.py"})
    assert asked_of("ask:1", call, {"options": [ONCE, NEVER]}, Acp(), "/w") == Asked(
        id="ask:1",
        tool="edit",
        category="edit",
        title="/w/a.py",
        input={"path": "/w/a.py"},
        diff=SHOWN,
        files=(FileChange(path="/w/a.py"),),
        options=(
            AskOption(id="allow_once", name="Allow", kind="allow_once"),
            AskOption(id="allow_always", name="Allow for this session", kind="allow_always"),
            AskOption(id="reject_always", name="Deny always", kind="reject_always"),
        ),
    )


@pytest.mark.parametrize("before", [{}, {"oldText": None}, {"oldText": ""}])
def test_an_edit_without_a_text_before_adds_a_file(before: dict[str, Any]) -> None:
    new = {"type": "diff", "path": "/w/b.py", "newText": "2\n", **before}
    asked = asked_of("q", edit("/w/a.py", content=[DIFF, new]), {"options": [ONCE]}, Acp(), "/w")
    assert asked.files == (FileChange(path="/w/a.py"), FileChange(path="/w/b.py", change="add"))


def test_an_ask_of_a_command_and_one_that_says_nothing() -> None:
    call = {"kind": "execute", "title": "T" * 300, "rawInput": None}
    assert asked_of("q", call, {"options": [NEVER]}, Acp(), "/w") == Asked(
        id="q",
        tool="shell",
        category="shell",
        title="T" * 200,
        options=(AskOption(id="reject_always", name="Deny always", kind="reject_always"),),
    )
    assert asked_of("q", {}, {}, Acp(), "/w") == Asked(id="q", tool="tool")


@pytest.mark.parametrize(
    ("content", "diffs"),
    [
        ([DIFF, DIFF], [("/w/a.py", SHOWN)] * 2),
        ([{**DIFF, "oldText": None}], [("/w/a.py", "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+2\n")]),
        ([{**DIFF, "path": "/etc/x"}], [("/etc/x", SHOWN.replace("a.py", "/etc/x"))]),
        ([{**DIFF, "newText": None}, {**DIFF, "type": "content"}, None, 5], []),
        (None, []),
    ],
)
def test_diffs(content: Any, diffs: list[tuple[str, str]]) -> None:
    assert diffs_of({"content": content}, "/w") == diffs_of({"content": content}, "/w/") == diffs


def test_paths_are_of_edits_alone_from_wherever_they_are_told() -> None:
    content = [{"type": "diff", "path": "/b", "newText": ""}]
    call = edit("/a", content=content, rawInput={"filepath": "/c", "absolute_path": "/d", "command": "/e"})
    assert edited_paths(call) == ["/a", "/b", "/c", "/d"]
    assert edited_paths({**call, "kind": "read"}) == edited_paths({**call, "kind": "execute"}) == []
    assert edited_paths({"kind": "move", "locations": [{"path": ""}, {}, None], "rawInput": "x"}) == []


# -- answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind", "id"),
    [
        ([ONCE, NEVER], "allow_once", "y"),
        ([ONCE, NEVER], "reject_always", "n"),
        ([ONCE, NEVER], "reject_once", "n"),  # the only no that there is
        ([ONCE, NEVER], "allow_always", None),
        ([{"optionId": "allow_once", "kind": "reject_once"}], "allow_once", None),  # an id is no kind
        ([{"optionId": "", "kind": "allow_once"}, {**ONCE, "optionId": "z"}], "allow_once", "z"),
        ([{"optionId": 5, "kind": "allow_once"}], "allow_once", None),
        (None, "allow_once", None),
    ],
)
def test_options_by_their_kind(options: Any, kind: str, id: str | None) -> None:
    assert option_of({"options": options}, kind) == id


@pytest.mark.parametrize(
    ("request_", "wrong"),
    [
        ({"toolCall": {}, "options": []}, ""),
        ({"toolCall": {}, "options": [ONCE]}, ""),
        ({"options": [ONCE]}, "toolCall is not an object"),
        ({"toolCall": [], "options": [ONCE]}, "toolCall is not an object"),
        ({"toolCall": {}}, "options is not a list"),
        ({"toolCall": {}, "options": {}}, "options is not a list"),
        ({"toolCall": {}, "options": [ONCE, None]}, "an option is not an object with an optionId"),
        ({"toolCall": {}, "options": [{"optionId": 5, "kind": "x"}]}, "an option is not an object with an optionId"),
        ({"toolCall": {}, "options": [{"optionId": "a"}]}, "an option has no kind"),
    ],
)
def test_what_nobody_could_answer(request_: dict[str, Any], wrong: str) -> None:
    assert malformed(request_) == wrong


def test_an_answer_for_the_session_covers_the_same_files_or_the_very_same_call() -> None:
    acp = Acp()
    assert key_of(edit("/w/a", "/w/b", title="x"), acp) == key_of(edit("/w/b", "/w/a", "/w/a", title="y"), acp)
    assert key_of(edit("/w/a"), acp) != key_of(edit("/w/a", "/w/b"), acp)
    run = {"kind": "execute", "rawInput": {"command": "ls"}, "title": "ls"}
    assert key_of(run, acp) == key_of({**run, "toolCallId": "other"}, acp)
    for other in ({"rawInput": {"command": "ls\nrm x"}}, {"title": "rm"}, {"kind": "read"}):
        assert key_of({**run, **other}, acp) != key_of(run, acp)


# -- the access that it needs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "access"),
    [
        *(({"kind": kind}, "read") for kind in ("read", "search", "fetch", "think")),
        *(({"kind": kind}, "full") for kind in ("execute", "switch_mode", "other", "", None, 7, ["edit"])),
        (edit("/w/a"), "write"),
        (edit("a/b", ".hidden", "..a/b.."), "write"),
        ({**edit("/w/a"), "kind": "delete"}, "write"),
        ({**edit("/w/a"), "kind": "move"}, "write"),
        (edit("/w/a", "/etc/passwd"), "full"),
        (edit("/wx/a"), "full"),
        (edit("/w"), "full"),
        (edit("../a"), "full"),
        (edit("/w/x/../../a"), "full"),
        (edit("~/.ssh/authorized_keys"), "full"),
        (edit("/w/a", rawInput={"file_path": "/etc/x"}), "full"),
        (edit("/w/a", content=[{"type": "diff", "path": "/etc/x", "newText": ""}]), "full"),
        # An edit that names no file may be of any.
        (edit(), "full"),
        ({"kind": "delete", "rawInput": {"target": "/etc/x"}}, "full"),
    ],
)
def test_what_a_call_needs(call: dict[str, Any], access: str) -> None:
    assert needed(call, "/w") == needed(call, "/w/") == access
    assert needed(call, "/w", walled=True) == ("write" if call.get("kind") == "execute" else access)


@pytest.mark.parametrize(
    ("before", "asked", "is_asked"),
    [
        # The call was announced without its input: the question names the file.
        ({"kind": "edit", "locations": [], "rawInput": {}}, edit("/workspace/a"), True),
        ({"kind": "edit"}, edit("/etc/x"), False),
        # It names the file first: the question need not.
        (edit("/workspace/a"), {"kind": "edit"}, True),
        (edit("/etc/x"), edit("/workspace/a"), False),
        # Neither names one.
        ({"kind": "edit"}, {"kind": "edit"}, False),
        ({}, {"kind": "edit", "rawInput": {"target": "/etc/x"}}, False),
    ],
)
def test_both_the_call_and_its_question_count(before: dict[str, Any], asked: dict[str, Any], is_asked: bool) -> None:
    dialog = running(access="write")
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Edit", **before}
    if before:
        dialog.read({"method": "session/update", "params": {"sessionId": "S", "update": update}})
    params = {"sessionId": "S", "toolCall": {"toolCallId": "c", **asked}, "options": [ONCE]}
    steps = dialog.read({"id": 9, "method": "session/request_permission", "params": params})
    assert any(isinstance(step, Ask) for step in steps) is is_asked
