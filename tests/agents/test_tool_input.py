from typing import Any

import pytest

from ostler.agents.tool_input import command_of, paths_in, paths_of, title_of
from ostler.model import Asked, FileChange


def test_the_command_of_a_call() -> None:
    assert command_of({"command": ["ls", "-l"]}) == "ls -l"
    assert [command_of(value) for value in (None, [], {}, {"command": 3}, {"cmd": "ls"})] == ["", "", "", "", "ls"]


def test_the_files_of_a_call() -> None:
    assert paths_in({"path": "b", "file_path": "a", "fileName": "c"}) == ["a", "b", "c"]
    assert [paths_in(value) for value in (None, [], {}, {"path": 3}, {"path": ""})] == [[], [], [], [], []]


def test_the_files_of_an_ask() -> None:
    asked = Asked(id="1", tool="x", input={"path": "b", "filePath": 3}, files=(FileChange(path="a"),))
    assert paths_of(asked) == ["a", "b"]


@pytest.mark.parametrize(
    ("input", "title"),
    [
        ({"command": "npm test\nnpm run build"}, "npm test"),
        ({"cmd": ["git", "log", 3]}, "git log 3"),
        ({"command": "  ", "file_path": "/workspace/a.py"}, "/workspace/a.py"),
        ({"notebook_path": "/workspace/a.ipynb"}, "/workspace/a.ipynb"),
        ({"description": "look around", "pattern": "*.py"}, "*.py"),  # what it does says more than why
        ({"description": "look around", "command": 5}, "look around"),
        ({"notebook_path": "/w/a.ipynb", "new_source": "x"}, "/w/a.ipynb"),
        ({"description": "look around", "filepath": "/w/a"}, "/w/a"),
        ({"fileName": "a"}, "a"),
        ({"prompt": "\n find it\nand more"}, "find it"),
        ({"command": "x" * 500}, "x" * 200),
        *((nothing, "") for nothing in ({}, None, [], "ls", 5, {"command": None}, {"path": ""})),
    ],
)
def test_the_title_of_a_tool_call(input: Any, title: str) -> None:
    assert title_of("Bash", input) == title
