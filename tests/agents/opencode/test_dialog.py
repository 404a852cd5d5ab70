"""opencode in a dialog: an agent of ostler's own that asks, and nothing else."""

from typing import Any

import pytest

from agents.acp_replayed import HOST, opened, turn_of
from ostler.agents.acp.dialog import AcpDialog
from ostler.agents.dialog import Fail, Ready
from ostler.agents.opencode import dialog
from ostler.agents.opencode.dialog import ACP, asking, denied, tool
from ostler.agents.opencode.reader import own_agent


def test_leaving_the_mode_that_keeps_the_access_ends_the_dialog() -> None:
    dialog = AcpDialog(turn_of(id="t1"), HOST, ACP)
    mode = {"id": "mode", "category": "mode", "currentValue": "ostler-t1", "options": [{"value": "ostler-t1"}]}
    assert isinstance(opened(dialog, {"configOptions": [mode]})[0], Ready)
    dialog.prompt(turn_of())
    update = {"sessionUpdate": "config_option_update", "configOptions": [{**mode, "currentValue": "build"}]}
    (step,) = dialog.read({"method": "session/update", "params": {"sessionId": "S", "update": update}})
    assert isinstance(step, Fail) and step.problem.kind == "denied"


def test_rules_of_opencode_ask_for_what_they_allowed() -> None:
    full = dialog.asking({"*": "allow", "external_directory": "allow", "webfetch": "deny"})
    assert full == {
        "*": "ask",
        **dict.fromkeys(dialog.QUIET, "allow"),
        "external_directory": "ask",
        "webfetch": "deny",
    }
    write = dialog.asking({"*": "deny", "read": {"*": "allow"}, "edit": "allow"})
    assert write == {"*": "deny", "read": {"*": "allow"}, "edit": "ask"}


@pytest.mark.parametrize(
    ("rules", "asked"),
    [
        ({}, {}),
        ({"read": "allow", "bash": "allow", "edit": "deny"}, {"read": "allow", "bash": "ask", "edit": "deny"}),
        ({"edit": {"**": "allow"}}, {"edit": {"**": "allow"}}),
        ({"*": "deny", "skill": "allow", "mcp": "allow"}, {"*": "deny", "skill": "allow", "mcp": "ask"}),
    ],
)
def test_what_is_allowed_beyond_reading_is_asked(rules: dict[str, Any], asked: dict[str, Any]) -> None:
    assert asking(rules) == asked


def test_the_last_rule_that_matches_wins_so_the_widest_comes_first() -> None:
    rules = asking({"bash": "deny", "*": "allow", "read": "deny"})
    assert next(iter(rules)) == "*"
    assert (rules["bash"], rules["read"], rules["glob"], rules["*"]) == ("deny", "deny", "allow", "ask")


def test_its_agent_is_of_one_turn_alone() -> None:
    assert own_agent(turn_of(id="k3-1")) == "ostler-k3-1"
    assert ACP.mode_for(turn_of(id="k3-2")) == "ostler-k3-2"


def test_a_call_begins_with_the_name_of_its_tool() -> None:
    assert tool({"firstTitle": "bash", "title": "List files", "kind": "execute", "rawInput": {"command": "ls"}}) == (
        "bash",
        {"command": "ls"},
    )
    assert tool({"firstTitle": None, "kind": "execute"}) == ("shell", None)
    assert tool({}) == ("tool", None)


@pytest.mark.parametrize(
    ("output", "is_denied"),
    [
        ("The user has specified a rule which prevents you from using this tool", True),
        ("Model tried to call unavailable tool 'bash'", True),
        ("grep: The user has specified a rule", False),
        ("Permission denied", False),
        ("", False),
    ],
)
def test_what_a_rule_forbids(output: str, is_denied: bool) -> None:
    assert denied({}, output) is is_denied
