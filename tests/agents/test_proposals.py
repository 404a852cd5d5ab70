"""What an edit would change, before it has run: what people are shown when they are asked."""

from typing import Any

import pytest

from ostler.agents.proposals import proposed, unified
from ostler.model import FileChange

FILE = (FileChange(path="/w/a.py"),)
NEW = (FileChange(path="/w/a.py", change="add"),)


@pytest.mark.parametrize("path", ["file_path", "filePath", "path", "absolute_path", "notebook_path"])
@pytest.mark.parametrize("names", [("old_string", "new_string"), ("oldString", "newString")])
def test_a_replacement_by_whatever_names(path: str, names: tuple[str, str]) -> None:
    input = {path: "/w/a.py", names[0]: "one\ntwo", names[1]: "one\n2"}
    assert proposed(input, "/w") == (FILE, "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")


def test_an_edit_of_nothing_adds_a_file() -> None:
    diff = "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+b\n"
    assert proposed({"file_path": "/w/a.py", "old_string": "", "new_string": "b"}, "/w") == (NEW, diff)
    both = [{"old_string": "", "new_string": "b"}, {"old_string": "b", "new_string": "c"}]
    assert proposed({"file_path": "/w/a.py", "edits": both}, "/w")[0] == FILE


def test_several_replacements_are_all_shown() -> None:
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": ""}]
    assert proposed({"file_path": "/w/a.py", "edits": edits}, "/w/") == (
        FILE,
        "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n--- a/a.py\n+++ b/a.py\n@@ -1 +0,0 @@\n-c\n",
    )


@pytest.mark.parametrize("name", ["content", "new_source"])
def test_a_whole_file_may_stand_in_for_another(name: str) -> None:
    assert proposed({"path": "/w/a.py", name: "x\ny\n"}, "/w") == (
        FILE,
        "--- a/a.py\n+++ b/a.py\n@@ -0,0 +1,2 @@\n+x\n+y\n",
    )
    assert proposed({"path": "/w/a.py", name: ""}, "/w") == (FILE, "")


def test_a_file_elsewhere_is_shown_with_its_whole_path() -> None:
    files, diff = proposed({"file_path": "/etc/passwd", "content": "x"}, "/w")
    assert files == (FileChange(path="/etc/passwd"),)
    assert diff == "--- a//etc/passwd\n+++ b//etc/passwd\n@@ -0,0 +1 @@\n+x\n"


@pytest.mark.parametrize(
    "input",
    [
        *({}, {"file_path": "/w/a.py"}, {"content": "x"}, {"command": "rm a.py", "path": "/w"}),
        *({"file_path": None, "content": "x"}, {"file_path": "/w/a.py", "content": None}, {"file_path": 5, "edits": 7}),
        {"file_path": "/w/a.py", "edits": [None, "x"]},
    ],
)
def test_what_is_no_edit(input: dict[str, Any]) -> None:
    assert proposed(input, "/w") == ((), "")


def test_a_replacement_of_the_wrong_types_shows_what_there_is() -> None:
    assert proposed({"file_path": "/w/a.py", "old_string": None, "new_string": "b"}, "/w") == (
        NEW,
        "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+b\n",
    )


def test_unified() -> None:
    assert unified("x", "a\n", "a\n") == ""
    assert unified("x", None, "") == ""
    assert unified("x", "", "a") == "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+a\n"
    assert unified("x", "a\nb", "") == "--- a/x\n+++ b/x\n@@ -1,2 +0,0 @@\n-a\n-b\n"
    far = "\n".join(map(str, range(20)))
    assert unified("x", far, far.replace("9\n", "nine\n", 1)) == (
        "--- a/x\n+++ b/x\n@@ -7,7 +7,7 @@\n 6\n 7\n 8\n-9\n+nine\n 10\n 11\n 12\n"
    )
