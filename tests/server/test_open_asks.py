"""An open ask in one line: what may be judged at a glance, and what may not."""

from typing import Any

import pytest

from ostler.model import Asked, AskOption, FileChange
from ostler.server.open_asks import AskView, ask_view

OPTIONS = (
    AskOption(id="1", name="Yes", kind="allow_once"),
    AskOption(id="2", name="No", kind="reject_once"),
)


def view(**fields: Any) -> AskView:
    return ask_view(
        Asked(**{"id": "q", "turn": "k3-1", "tool": "Bash", "category": "shell", "options": OPTIONS, **fields})
    )


def test_a_short_command_is_all_that_there_is() -> None:
    assert view(input={"command": "ls -l"}, title="List", expires_at=5.0) == AskView(
        id="q",
        turn="k3-1",
        tool="Bash",
        category="shell",
        title="ls -l",
        options=("allow_once", "reject_once"),
        expires_at=5.0,
        whole=True,
    )


@pytest.mark.parametrize(
    "input",
    [
        {"command": "rm -rf /\nls"},
        {"command": "ls" + " " * 150 + "; rm -rf /"},
        {"command": "echo " + "x" * 200},
        {"command": "ls \u202e x"},
        {"command": "ls\x1b[2Jx"},
        {"command": " ls"},
    ],
)
def test_a_command_that_one_line_does_not_show_is_not_whole(input: dict[str, Any]) -> None:
    shown = view(input=input)
    assert not shown.whole and len(shown.title) <= 200 and shown.title.isprintable()


def test_the_first_line_is_shown() -> None:
    """The last one would hide what it begins with."""
    assert view(input={"command": "rm -rf build\n\nmake\nls"}).title == "rm -rf build …"
    assert view(input={"command": "rm -rf build; " + "x" * 300}).title == "rm -rf build; " + "x" * 185 + "…"


@pytest.mark.parametrize(
    "fields",
    [
        {"input": {"command": "ls", "cluster": "production"}},
        {"input": {"command": "ls", "cmd": "rm -rf /"}},
        {"input": {"command": "ls"}, "tool": "mcp__cluster__exec", "category": "mcp"},
    ],
)
def test_a_command_with_more_to_it_is_not_whole(fields: dict[str, Any]) -> None:
    assert not view(**fields).whole


def test_what_the_agent_says_of_its_command_need_not_be_read() -> None:
    assert view(input={"command": "ls", "description": "Looks around"}).whole


def test_a_command_that_changes_files_is_not_whole() -> None:
    assert not view(input={"command": "ls"}, diff="--- a/x\n").whole


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"title": "Edit x.py"}, "Edit x.py"),
        ({"files": (FileChange(path="/w/a"), FileChange(path="/w/b"))}, "/w/a"),
        ({"input": {"file_path": "/w/c"}}, "/w/c"),
        ({"input": ["x"]}, "Bash"),
        ({"input": {"command": 5}}, "Bash"),
        ({}, "Bash"),
    ],
)
def test_what_is_no_command_is_never_whole(fields: dict[str, Any], title: str) -> None:
    shown = view(**fields)
    assert (shown.title, shown.whole) == (title, False)
