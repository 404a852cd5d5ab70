"""Diffs and changed files out of tool results: recorded ones, and ones that make no sense."""

import json
from typing import Any

import pytest

from agents.replayed import CAPTURES
from ostler.agents.patches import diff_of, files_of
from ostler.model import FileChange

HUNK = {"oldStart": 3, "oldLines": 2, "newStart": 3, "newLines": 2, "lines": [" a", "-b", "+c"]}


def results() -> list[dict[str, Any]]:
    """Every structured tool result that changed a file, of all captures of claude."""
    found = []
    for path in sorted((CAPTURES / "claude").glob("*.ndjson")):
        for line in path.read_bytes().splitlines():
            record = json.loads(line) if line.startswith(b"{") else {}
            detail = record.get("tool_use_result") if isinstance(record, dict) else None
            if isinstance(detail, dict) and "structuredPatch" in detail:
                found.append(detail)
    return found


def test_recorded_results() -> None:
    details = results()
    assert details
    for detail in details:
        (change,) = files_of(detail)
        assert change == FileChange(path=detail["filePath"], change="add" if detail["type"] == "create" else "update")
        added = [line[1:] for line in diff_of(detail, "/").splitlines() if line.startswith("+") and line[:3] != "+++"]
        assert added == detail["content"].splitlines()


def test_an_edit() -> None:
    detail = {"filePath": "/w/src/x.py", "structuredPatch": [HUNK, {**HUNK, "oldStart": 90, "newStart": 90}]}
    assert files_of(detail) == (FileChange(path="/w/src/x.py"),)
    assert diff_of(detail, "/w") == (
        "--- a/src/x.py\n+++ b/src/x.py\n@@ -3,2 +3,2 @@\n a\n-b\n+c\n@@ -90,2 +90,2 @@\n a\n-b\n+c\n"
    )
    assert diff_of(detail, "/w/") == diff_of(detail, "/w")
    assert diff_of(detail, "/other").startswith("--- a//w/src/x.py\n")
    assert diff_of(detail, "/w/sr").startswith("--- a//w/src/x.py\n")  # a name that begins alike is another folder


def test_a_new_file_is_all_added() -> None:
    detail = {"type": "create", "filePath": "/w/n.txt", "content": "one\ntwo\n", "structuredPatch": []}
    assert files_of(detail) == (FileChange(path="/w/n.txt", change="add"),)
    assert diff_of(detail, "/w") == "--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    empty = {**detail, "content": ""}
    assert (files_of(empty), diff_of(empty, "/w")) == ((FileChange(path="/w/n.txt", change="add"),), "")


def test_what_a_command_did_to_files() -> None:
    files = [
        {"filePath": "/w/a", "hunks": [HUNK]},
        {"filePath": "/w/b", "created": True, "hunks": [{**HUNK, "oldStart": 0, "oldLines": 0, "lines": ["+c"]}]},
    ]
    detail = {"bashEditDiff": {"files": files}}
    assert files_of(detail) == (FileChange(path="/w/a"), FileChange(path="/w/b", change="add"))
    assert diff_of(detail, "/w") == (
        "--- a/a\n+++ b/a\n@@ -3,2 +3,2 @@\n a\n-b\n+c\n--- /dev/null\n+++ b/b\n@@ -0,0 +3,2 @@\n+c\n"
    )


@pytest.mark.parametrize(
    "detail",
    [
        *({}, {"structuredPatch": None}, {"structuredPatch": "x", "filePath": 7}, {"bashEditDiff": []}),
        *({"bashEditDiff": {"files": {}}}, {"bashEditDiff": {"files": [None, 3]}}, {"structuredPatch": [[], None]}),
        {"structuredPatch": [{"lines": []}, {"lines": "abc"}, {}]},
    ],
)
def test_nonsense_is_no_change(detail: dict[str, Any]) -> None:
    assert (files_of(detail), diff_of(detail, "/w")) == ((), "")


def test_what_is_wrong_in_a_hunk_costs_that_alone() -> None:
    hunk = {"oldStart": None, "oldLines": "2", "newStart": 4.0, "newLines": True, "lines": ["+a", None, 5, "+b"]}
    detail = {"filePath": "/w/x", "structuredPatch": [hunk]}
    assert diff_of(detail, "/w") == "--- a/x\n+++ b/x\n@@ -0,0 +4,0 @@\n+a\n\n\n+b\n"
