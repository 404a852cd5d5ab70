"""What claude asks for and its access does not reach. What a real one asks is in tests/real."""

from typing import Any

import pytest

from ostler.access import Access
from ostler.agents.claude_dialog import beyond

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
