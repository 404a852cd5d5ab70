"""qwen's side of a dialog: what is asked, what was allowed for good, and what `write` refuses unseen."""

from typing import Any

import pytest

from agents.acp_replayed import HOST, turn_of
from ostler.agents import AGENTS
from ostler.agents.dialog import Ask, Emit, Write
from ostler.model import Answered, Denial, Turn


def _qwen(**changes: Any) -> Any:
    face = AGENTS["qwen"].dialog
    assert face is not None
    turn: Turn = turn_of(agent="qwen", **changes)
    dialog = face.dialog(turn, HOST)
    dialog.prompt(turn)
    return dialog


def _asks(dialog: Any, id: str, tool: str, **input: Any) -> list[Any]:
    request = {"subtype": "can_use_tool", "tool_name": tool, "input": input}
    return list(dialog.read({"type": "control_request", "request_id": id, "request": request}))


def test_qwen_is_not_asked_twice_what_was_always_allowed() -> None:
    dialog = _qwen()
    (ask,) = _asks(dialog, "1", "run_shell_command", command="ls")
    assert [option.kind for option in ask.asked.options] == ["allow_once", "allow_always", "reject_once"]
    (write,) = dialog.answer("1", "allow_always")
    assert write.record["response"]["response"] == {"behavior": "allow", "updatedInput": {"command": "ls"}}
    told, write = _asks(dialog, "2", "run_shell_command", command="ls")
    assert told.events[-1] == Answered(id="2", option="allow_always", by="an earlier answer")
    assert write.record["response"]["request_id"] == "2"
    assert isinstance(_asks(dialog, "3", "run_shell_command", command="ls -l")[0], Ask)
    _asks(dialog, "4", "edit", file_path="/workspace/a", old_string="x", new_string="y")
    dialog.answer("4", "allow_always")
    assert isinstance(_asks(dialog, "5", "edit", file_path="/workspace/a", old_string="q", new_string="r")[0], Emit)


@pytest.mark.parametrize("path", ["/etc/x", "/workspace/../etc/x", "x", "/workspaces/x"])
def test_qwen_keeps_to_the_folder_by_its_questions(path: str) -> None:
    dialog = _qwen(access="write")
    told, write = _asks(dialog, "1", "write_file", file_path=path, content="x")
    assert (told.events[-1].option, told.events[-1].by) == ("reject_once", "access write")
    assert isinstance(write, Write) and write.record["response"]["response"]["behavior"] == "deny"
    assert [(d.target, d.access) for d in dialog.reader.denied] == [(path, "full")]
    assert isinstance(_asks(dialog, "2", "write_file", file_path="/workspace/x", content="x")[0], Ask)


def test_qwen_says_that_a_conversation_is_gone() -> None:
    dialog = _qwen(resume=True, agent_session="gone")
    assert dialog.startup_error(None, "No saved session found with ID gone.").kind == "not_found"
    assert dialog.startup_error(None, "something else") is None


def test_qwen_takes_prompts_as_they_are() -> None:
    dialog = _qwen()
    told, write = dialog.prompt(turn_of("/exit and @README.md", agent="qwen"))
    assert write.record["message"]["content"] == "\n/exit and \\@README.md"
    assert "@name" in told.events[0].text


def test_what_is_refused_by_a_person_is_listed_with_their_words() -> None:
    dialog = _qwen()
    _asks(dialog, "1", "run_shell_command", command="rm x")
    (write,) = dialog.answer("1", "reject_once", "not today")
    assert write.record["response"]["response"] == {"behavior": "deny", "message": "not today"}
    assert dialog.reader.denied == [Denial(tool="run_shell_command", target="rm x", reason="not today")]
    _asks(dialog, "2", "run_shell_command", command="rm y")
    dialog.answer("2", "cancelled")
    assert len(dialog.reader.denied) == 1


def test_always_is_for_the_very_tool_and_file() -> None:
    dialog = _qwen()
    _asks(dialog, "1", "edit", file_path="/workspace/a", old_string="x", new_string="y")
    dialog.answer("1", "allow_always")
    assert isinstance(_asks(dialog, "2", "edit", file_path="/workspace/b", old_string="x", new_string="y")[0], Ask)
    assert isinstance(_asks(dialog, "3", "write_file", file_path="/workspace/a", content="y")[0], Ask)
    assert isinstance(_asks(dialog, "4", "edit", file_path="/workspace/a", old_string="q", new_string="r")[0], Emit)


def test_nothing_that_was_allowed_for_good_leads_out_of_the_folder() -> None:
    dialog = _qwen(access="write")
    dialog._always.add(("write_file", b'"/etc/x"'))
    told, write = _asks(dialog, "1", "write_file", file_path="/etc/x", content="x")
    assert told.events[-1] == Answered(id="1", option="reject_once", by="access write")
    assert write.record["response"]["response"]["behavior"] == "deny"
    assert dialog._asks == {}


@pytest.mark.parametrize("request_", [{}, {"subtype": "hook_callback"}, {"subtype": None}])
def test_other_requests_are_refused(request_: dict[str, Any]) -> None:
    (write,) = _qwen().read({"type": "control_request", "request_id": "9", "request": request_})
    assert write.record["response"] == {
        "subtype": "error",
        "request_id": "9",
        "error": f"{request_.get('subtype')} is not served here",
    }
