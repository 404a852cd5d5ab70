"""The words of ACP: what a tool is called, and which modes act unasked."""

from typing import Any, get_args

import pytest

from ostler.agents.acp.protocol import CALLS, OPTIONS, TOOLS, Acp, AskOptionKind, tool_and_input, unasking
from ostler.agents.dialog import CallName


@pytest.mark.parametrize(
    "mode",
    [
        *("yolo", "YOLO", "auto", "autopilot", "bypassPermissions", "bypass-permissions", "acceptEdits", "dontAsk"),
        *("agent-full-access", "danger-full-access", "full-auto", "auto-edit", "Auto Edit", "auto_edit", "never"),
        *("https://agentclientprotocol.com/protocol/session-modes#autopilot", "x#y#yolo", " yolo! "),
    ],
)
def test_modes_that_do_not_ask(mode: str) -> None:
    assert unasking(mode)


@pytest.mark.parametrize(
    "mode",
    [
        *("default", "plan", "ask", "agent", "read-only", "code", "", "#", "yolo#plan", "architect", "build"),
        *("not-auto", "autonomous-with-asks", "never-mind", "trusted?no", "untrusted", "semi-auto"),
    ],
)
def test_modes_of_which_that_is_not_known(mode: str) -> None:
    assert not unasking(mode)


@pytest.mark.parametrize(
    ("call", "tool"),
    [
        ({"name": "Bash", "kind": "execute", "rawInput": {"command": "ls"}}, ("Bash", {"command": "ls"})),
        ({"_meta": {"claudeCode": {"toolName": "Write"}}, "kind": "edit"}, ("Write", None)),
        ({"kind": "execute", "rawInput": [1]}, ("shell", [1])),
        ({"kind": "delete"}, ("edit", None)),
        ({"kind": "switch_mode"}, ("switch_mode", None)),
        ({"kind": 7, "name": None, "_meta": {"claudeCode": "x"}}, ("tool", None)),
        ({"_meta": []}, ("tool", None)),
        ({}, ("tool", None)),
    ],
)
def test_what_a_tool_is_called(call: dict[str, Any], tool: tuple[str, Any]) -> None:
    assert tool_and_input(call) == tool


def test_every_call_and_option_is_known() -> None:
    assert {*CALLS.values(), "terminal_show"} == {*get_args(CallName)}  # that one is told, not asked for
    assert [*OPTIONS] == [*get_args(AskOptionKind)]
    assert {*TOOLS.values()} == {"shell", "read", "search", "web", "edit"}


def test_an_agent_of_which_nothing_is_known() -> None:
    acp = Acp()
    assert (acp.modes, acp.names, acp.safe_modes, acp.counts) == ({}, (), (), "turn")
    assert acp.denied({"status": "failed"}, "Permission denied") is False
    assert acp.aside("Error: x") is None and acp.tool({"kind": "read"}) == ("read", None)
