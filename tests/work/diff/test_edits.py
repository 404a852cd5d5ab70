"""Edits whose agent names the paths only get a diff of their own."""

import subprocess
from pathlib import Path

import pytest

from ostler.model import FileChange, Text, ToolEnded
from ostler.work.diff import compare as diff
from ostler.work.diff.edits import Edits


@pytest.mark.parametrize("place", ["git", "plain"])
async def test_each_edit_shows_its_own_diff(tmp_path: Path, place: str) -> None:
    folder, scratch = tmp_path / "project", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    if place == "git":
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    edits = Edits(str(folder), diff.look(str(folder), str(scratch)))

    def edit(path: str, text: str, change: str) -> ToolEnded:
        (folder / path).write_text(text)
        return ToolEnded(id="1", files=(FileChange(path=str(folder / path), change=change),))

    said = Text(text="unchanged")
    first = await edits.with_diffs([said, edit("a.txt", "one\n2\n", "update")])
    assert first[0] is said
    assert first[1].diff == "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    second = await edits.with_diffs([edit("a.txt", "one\n2\n3\n", "update"), edit("b.txt", "new\n", "add")])
    assert second[0].diff == "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n one\n 2\n+3\n"
    third = await edits.with_diffs([edit("..env", "new\n", "add")])
    assert third[0].diff == "--- a/..env\n+++ b/..env\n@@ -0,0 +1 @@\n+new\n"
    assert second[1].diff == "--- a/b.txt\n+++ b/b.txt\n@@ -0,0 +1 @@\n+new\n"


async def test_what_lies_outside_or_failed_or_has_a_diff_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "outside.txt").write_text("secret\n")
    edits = Edits(str(tmp_path / "project"), diff.look(str(tmp_path / "project"), str(tmp_path / "scratch")))
    outside = ToolEnded(id="1", files=(FileChange(path=str(tmp_path / "outside.txt")),))
    failed = ToolEnded(id="2", ok=False, files=(FileChange(path="x"),))
    shown = ToolEnded(id="3", diff="@@", files=(FileChange(path="x"),))
    assert await edits.with_diffs([outside, failed, shown]) == [outside, failed, shown]
