"""The control protocol of claude and qwen: requests and their ids, asks and what an answer may allow."""

from typing import Any, ClassVar

import pytest

from agents.acp_replayed import HOST, turn_of
from ostler.agents.claude.reader import ClaudeReader
from ostler.agents.dialog import Ask, Emit, Fail, Over, Ready, Withdrawn, Write
from ostler.agents.stream_dialog import ALWAYS, ONCE, REJECT, StreamDialog, rules_of
from ostler.errors import OstlerError
from ostler.model import Asked, FileChange, Notice, Problem

RULE = {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash"}], "destination": "userSettings"}


class Plain(StreamDialog):
    modes: ClassVar[Any] = {"read": ("default", "plan"), "write": ("default", "plan"), "full": ()}


def begun(**changes: Any) -> Plain:
    dialog = Plain(turn_of(**{"access": "write", **changes}), HOST, ClaudeReader)
    (write,) = dialog.open()
    assert write.record == {
        "type": "control_request",
        "request_id": "ostler-1",
        "request": {"subtype": "initialize"},
    }
    assert response(dialog, "ostler-1", session_id="S", current_permission_mode="default") == [Ready(agent_session="S")]
    return dialog


def response(dialog: Plain, id: Any, error: str = "", **told: Any) -> list[Any]:
    said = {"subtype": "error", "error": error} if error else {"subtype": "success", "response": told}
    return dialog.read({"type": "control_response", "response": {"request_id": id, **said}})


def asks(dialog: Plain, id: str = "q", **request: Any) -> list[Any]:
    whole = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, **request}
    return dialog.read({"type": "control_request", "request_id": id, "request": whole})


def answered(steps: list[Any]) -> Any:
    (write,) = steps
    assert write.record["response"]["subtype"] == "success"
    return write.record["response"]["response"]


# -- turns ------------------------------------------------------------------------------------------


def test_an_agent_that_opens_no_dialog() -> None:
    dialog = Plain(turn_of(), HOST, ClaudeReader)
    dialog.open()
    assert response(dialog, "ostler-1", error="too old") == [
        Fail(Problem(kind="unsupported", message="mine could not open a dialog: too old"))
    ]


def test_a_prompt_is_literal_and_its_result_ends_the_turn() -> None:
    dialog = begun()
    (write,) = dialog.prompt(turn_of("/exit"))
    assert write == Write({"type": "user", "message": {"role": "user", "content": "\n/exit"}})
    dialog.read({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "hi"}]}})
    steps = dialog.read({"type": "result", "subtype": "success", "is_error": False, "result": "hi", "num_turns": 1})
    assert steps[-1] == Over() and dialog.verdict(None, "").text == "hi"


@pytest.mark.parametrize("id", ["ostler-9", "", None, 1, "q"])
def test_answers_to_nothing_are_ignored(id: Any) -> None:
    assert response(begun(), id, session_id="X") == []
    assert response(begun(), id, error="boom") == []


def test_a_refused_wish_is_told_and_costs_nothing_else() -> None:
    dialog = begun()
    (write,) = dialog.change(model="m")
    assert write.record["request"] == {"subtype": "set_model", "model": "m"}
    assert response(dialog, write.record["request_id"], error="no such model") == [
        Emit([Notice(code="refused", text="mine refused set_model: no such model")])
    ]


def test_nothing_is_said_in_a_mode_that_was_not_wanted() -> None:
    dialog = begun()
    (write,) = dialog.change(mode="plan")
    assert dialog.prompt(turn_of("go")) == []
    assert response(dialog, write.record["request_id"], error="no") == [Over()]
    assert dialog.verdict(None, "").error == Problem(kind="bad_request", message="mine refused the mode: no")
    assert dialog.interrupt()[0].record["request"] == {"subtype": "interrupt"}  # nothing is held any more


@pytest.mark.parametrize(("access", "ended"), [("read", True), ("write", True), ("full", False)])
def test_leaving_the_modes_of_the_access_ends_the_dialog(access: str, ended: bool) -> None:
    dialog = begun(access=access)
    dialog.prompt(turn_of())
    steps = dialog.read({"type": "system", "subtype": "status", "permission_mode": "yolo"})
    assert [step for step in steps if isinstance(step, Fail)] == (
        [
            Fail(
                Problem(
                    kind="denied",
                    message=f"mine left the modes of access {access} for 'yolo'",
                    hint="The next turn starts a new process. To allow this mode, use a wider --access",
                )
            )
        ]
        if ended
        else []
    )


# -- asks -------------------------------------------------------------------------------------------


def test_an_ask_with_what_it_would_change() -> None:
    input = {"file_path": "/workspace/a", "old_string": "1", "new_string": "2"}
    assert asks(begun(), tool_name="Edit", input=input, decision_reason="a rule", permission_suggestions=[RULE]) == [
        Ask(
            Asked(
                id="q",
                tool="Edit",
                title="/workspace/a",
                input=input,
                diff="--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n",
                files=(FileChange(path="/workspace/a"),),
                options=(ONCE, ALWAYS, REJECT),
                reason="a rule",
            )
        )
    ]


def test_an_ask_that_says_nothing_can_still_be_answered() -> None:
    dialog = begun()
    assert asks(dialog, tool_name=None, input=None, description="look") == [
        Ask(Asked(id="q", tool="", title="look", input={}, options=(ONCE, REJECT)))
    ]
    assert answered(dialog.answer("q", "allow_once")) == {"behavior": "allow", "updatedInput": {}}


@pytest.mark.parametrize(
    ("kind", "message", "told"),
    [
        ("allow_once", "", {"behavior": "allow", "updatedInput": {"command": "ls"}}),
        (
            "allow_always",
            "",
            {
                "behavior": "allow",
                "updatedInput": {"command": "ls"},
                "updatedPermissions": [{**RULE, "destination": "session"}],
            },
        ),
        ("reject_once", "no", {"behavior": "deny", "message": "no"}),
        ("reject_always", "", {"behavior": "deny", "message": "The user refused this."}),
        ("cancelled", "x", {"behavior": "deny", "message": "cancelled", "interrupt": True}),
    ],
)
def test_answers(kind: Any, message: str, told: dict[str, Any]) -> None:
    dialog = begun()
    asks(dialog, permission_suggestions=[RULE])
    assert answered(dialog.answer("q", kind, message)) == told
    with pytest.raises(OstlerError) as refused:
        dialog.answer("q", kind)
    assert refused.value.kind == "not_found"


def test_an_ask_that_was_taken_back() -> None:
    dialog = begun()
    asks(dialog)
    assert dialog.read({"type": "control_cancel_request", "request_id": "other"}) == []
    assert dialog.read({"type": "control_cancel_request", "request_id": "q"}) == [Withdrawn("q")]
    assert dialog.read({"type": "control_cancel_request", "request_id": "q"}) == []


@pytest.mark.parametrize("subtype", ["hook_callback", "mcp_message", None])
def test_what_we_never_announced_is_refused(subtype: Any) -> None:
    (write,) = asks(begun(), subtype=subtype)
    assert write.record["response"] == {
        "subtype": "error",
        "request_id": "q",
        "error": f"{subtype} is not served here",
    }


@pytest.mark.parametrize(
    "suggestion",
    [
        {**RULE, "behavior": "deny"},
        {**RULE, "type": "setMode", "mode": "bypassPermissions"},
        {**RULE, "type": "addDirectories", "directories": ["/"]},
        {"type": "addRules"},
        {},
        "addRules",
        None,
    ],
)
def test_only_rules_that_allow_are_taken_of_what_the_agent_proposes(suggestion: Any) -> None:
    assert rules_of({"permission_suggestions": [suggestion]}) == []
    assert rules_of({"permission_suggestions": suggestion}) == []
    mixed = rules_of({"permission_suggestions": [suggestion, RULE]})
    assert mixed == [{**RULE, "destination": "session"}]  # never the user's settings
