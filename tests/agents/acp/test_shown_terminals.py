"""Terminals in the updates of an ACP agent."""

from ostler.agents.acp.shown_terminals import shown_terminals
from ostler.agents.dialog import Call


def test_a_terminal_of_ours_that_a_tool_call_shows() -> None:
    update = {"toolCallId": "c", "content": [{"type": "terminal", "terminalId": "t"}, {"type": "diff"}]}
    assert shown_terminals(update) == [
        Call("", "terminal_show", {"terminal_id": "t", "what": "terminal_link", "tool": "c"})
    ]
    assert shown_terminals({"content": update["content"]}) == []  # of no call


def test_a_terminal_of_its_own() -> None:
    meta = {"terminal_info": {"terminal_id": "t"}, "terminal_output": "no table", "terminal_exit": {"exit_code": 0}}
    shown = [step.params for step in shown_terminals({"toolCallId": "c", "_meta": meta}) if isinstance(step, Call)]
    assert shown == [
        {"terminal_id": "t", "what": "terminal_info", "tool": "c"},
        {"exit_code": 0, "what": "terminal_exit", "tool": "c"},
    ]
