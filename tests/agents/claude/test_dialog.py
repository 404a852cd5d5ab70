"""What claude asks for and its access does not reach. What a real one asks is in tests/real."""

from typing import Any

import pytest

from agents.acp_replayed import HOST, turn_of
from ostler.access import Access
from ostler.agents.claude.dialog import ClaudeDialog, beyond
from ostler.agents.claude.reader import ClaudeReader
from ostler.agents.dialog import AnswerKind
from ostler.model import Denial, Exit, Verdict

IN = {"file_path": "/home/me/project/app.py"}


def ask(tool: str, input: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"subtype": "can_use_tool", "tool_name": tool, "input": input, **more}


@pytest.mark.parametrize(
    ("access", "request_", "refused"),
    [
        ("write", ask("Write", IN), False),
        ("write", ask("NotebookEdit", {"notebook_path": "/home/me/project/a.ipynb"}), False),
        ("write", ask("Bash", {"command": "ls"}), False),  # in claude's sandbox
        ("write", ask("WebFetch", {"url": "x"}), False),
        ("write", ask("Write", {"file_path": "/home/me/project-2/app.py"}), True),
        ("write", ask("Edit", {"file_path": "/home/me/project/../app.py"}), True),
        ("write", ask("Edit", {"file_path": "app.py"}), True),
        ("write", ask("Edit", {}), True),
        ("write", ask("Edit", {"file_path": 5}), True),
        ("write", ask("NotebookEdit", {"notebook_path": "/etc/a.ipynb", **IN}), True),
        ("write", ask("Write", IN, blocked_path="/home/me/app.py"), True),
        ("write", ask("Write", IN, decision_reason_type="workingDir"), True),
        ("write", ask("Write", IN, decision_reason_type="safetyCheck"), True),
        ("write", ask("Write", IN, permission_suggestions=[{"type": "addDirectories", "directories": ["/x"]}]), True),
        ("read", ask("Write", IN), True),
        ("read", ask("Bash", {"command": "ls"}), True),
        ("read", ask("WebFetch", {"url": "x"}), False),
    ],
)
def test_what_goes_beyond_an_access(access: Access, request_: dict[str, Any], refused: bool) -> None:
    assert beyond(request_, access, "/home/me/project") is refused


# -- what was refused, and whether another access would help ------------------------------------------

COMMAND = {"command": "touch x"}


def refused(access: Access, kind: AnswerKind | None, message: str = "") -> Verdict:
    """A turn that wanted to run a command, as claude tells it; None: nobody was asked."""
    dialog = ClaudeDialog(turn_of(agent="claude", access=access), HOST, ClaudeReader)
    dialog.open()
    response = {"request_id": "ostler-1", "subtype": "success", "response": {"current_permission_mode": "default"}}
    dialog.read({"type": "control_response", "response": response})
    dialog.prompt(dialog.first)
    use = {"type": "tool_use", "id": "call", "name": "Bash", "input": COMMAND}
    dialog.read({"type": "assistant", "message": {"id": "m", "content": [use]}, "session_id": "S"})
    if kind is not None:
        asked = ask("Bash", COMMAND, tool_use_id="call")
        dialog.read({"type": "control_request", "request_id": "q", "request": asked})
        dialog.answer("q", kind, message)
    told = {"type": "tool_result", "tool_use_id": "call", "is_error": True, "content": "The user refused this."}
    decision = [{"id": "call", "permission_decision": {"decision": "reject"}}]
    dialog.read({"type": "user", "message": {"content": [told]}, "tool_result_meta": decision})
    denial = {"tool_name": "Bash", "tool_use_id": "call", "tool_input": COMMAND}
    ended = {"subtype": "success", "is_error": False, "num_turns": 1, "result": "So be it."}
    dialog.read({"type": "result", **ended, "permission_denials": [denial], "usage": {"output_tokens": 3}})
    assert dialog.reader is not None
    return dialog.reader.end(Exit(code=0), "")


@pytest.mark.parametrize(
    ("kind", "message", "wanted"),
    [
        ("reject_once", "", [Denial(tool="Bash", target="touch x", reason="it was refused")]),
        ("reject_once", "not today", [Denial(tool="Bash", target="touch x", reason="not today")]),
        ("reject_always", "", [Denial(tool="Bash", target="touch x", reason="it was refused")]),
        ("cancelled", "", []),  # Ctrl-C at the ask: nothing was refused
    ],
)
@pytest.mark.parametrize("access", ["write", "full"])
def test_after_a_no_no_other_access_is_advised(
    access: Access, kind: AnswerKind, message: str, wanted: list[Denial]
) -> None:
    verdict = refused(access, kind, message)
    assert [*verdict.denied] == wanted
    assert "--access" not in str(verdict)


def test_what_the_access_forbids_is_advised() -> None:
    [denial] = refused("write", None).denied
    assert (denial.tool, denial.access) == ("Bash", "full")
