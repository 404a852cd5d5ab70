"""Diffs of folders that are in no git repository."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ostler.model import FileChange
from ostler.work.diff import compare as diff
from ostler.work.diff.compare import Before, Bounds, Diff

PATH = os.environ["PATH"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "plain"
    (folder / "deep/er").mkdir(parents=True)
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "deep/er/b.txt").write_text("b\n")
    (folder / "pic").write_bytes(b"\0\1\2")
    for skipped in ("node_modules", ".venv", "deep/.git"):
        (folder / skipped).mkdir()
        (folder / skipped / "x").write_text("x\n")
    return folder


def look(folder: Path, exclude: frozenset[str] = frozenset(), bounds: Bounds | None = None) -> Before:
    scratch = folder.parent / "scratch"
    scratch.mkdir(mode=0o700)
    return diff.look(str(folder), str(scratch), exclude, env={"PATH": PATH}, bounds=bounds)


def shown(done: Diff) -> str:
    """The text without the lines that name objects."""
    return "".join(line for line in done.text.splitlines(keepends=True) if not line.startswith("index "))


def test_nothing_changed(folder: Path) -> None:
    before = look(folder)
    os.utime(folder / "a.txt", (1, 1))
    assert diff.compare(before) == Diff()


def test_changes(folder: Path) -> None:
    before = look(folder, frozenset({"AGENTS.md"}))
    (folder / "a.txt").write_text("one\n2")
    (folder / "AGENTS.md").write_text("ours\n")
    (folder / "deep/er/b.txt").unlink()
    (folder / "node_modules/x").write_text("y\n")
    (folder / "pic").write_bytes(b"\0\1\2\3")
    (folder / "run").write_text("r\n")
    (folder / "run").chmod(0o755)
    os.symlink("/etc", folder / "way")
    done = diff.compare(before)
    assert done.files == (
        FileChange(path="a.txt", change="update"),
        FileChange(path="deep/er/b.txt", change="delete"),
        FileChange(path="pic", change="update"),
        FileChange(path="run", change="add"),
        FileChange(path="way", change="add"),
    )
    assert (done.notice, shown(done)) == (
        "",
        "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
        "\\ No newline at end of file\n"
        "diff --git a/deep/er/b.txt b/deep/er/b.txt\ndeleted file mode 100644\n"
        "--- a/deep/er/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"
        "diff --git a/pic b/pic\nBinary files a/pic and b/pic differ\n"
        "diff --git a/run b/run\nnew file mode 100755\n--- /dev/null\n+++ b/run\n@@ -0,0 +1 @@\n+r\n"
        "diff --git a/way b/way\nnew file mode 120000\n--- /dev/null\n+++ b/way\n@@ -0,0 +1 @@\n+/etc\n"
        "\\ No newline at end of file\n",
    )


def test_mode_alone_and_empty_files(folder: Path) -> None:
    (folder / "gone").touch()
    before = look(folder)
    (folder / "a.txt").chmod(0o755)
    (folder / "empty").touch()
    (folder / "gone").unlink()
    assert shown(diff.compare(before)) == (
        "diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n"
        "diff --git a/empty b/empty\nnew file mode 100644\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\n"
    )


def test_odd_names_and_contents(folder: Path) -> None:
    before = look(folder)
    (folder / "latin").write_bytes(b"caf\xe9\r\nx\x0cy\n")
    with open(os.fsencode(folder) + b"/n\xff", "w") as file:
        file.write("odd\n")
    os.mkfifo(folder / "pipe")
    done = diff.compare(before)
    assert [change.path for change in done.files] == ["latin", "n\ufffd"]
    assert "+caf\ufffd\r\n+x\x0cy\n" in done.text


def test_folder_that_is_gone(folder: Path) -> None:
    before = look(folder)
    shutil.rmtree(folder)
    assert [(c.path, c.change) for c in diff.compare(before).files] == [
        ("a.txt", "delete"),
        ("deep/er/b.txt", "delete"),
        ("pic", "delete"),
    ]


def test_a_repository_made_by_the_turn_is_not_looked_into(folder: Path) -> None:
    before = look(folder)
    subprocess.run(["git", "init", "-q", folder], check=True, env={"PATH": PATH})
    (folder / "new").write_text("n\n")
    assert diff.compare(before).files == (FileChange(path="new", change="add"),)


@pytest.mark.parametrize(
    ("bounds", "notice"),
    [
        (Bounds(plain_files=2), "no diff: the folder has more than 2 files and is not in git"),
        (Bounds(plain_bytes=9), "no diff: the folder has more than 0 MB of files and is not in git"),
        (Bounds(plain_seconds=0), "no diff: looking at the folder took longer than 0 s"),
    ],
)
def test_beyond_the_bounds_there_is_a_notice(folder: Path, bounds: Bounds, notice: str) -> None:
    assert diff.compare(look(folder, bounds=bounds)) == Diff(notice=notice)


def test_folder_that_outgrows_the_bounds_in_the_turn(folder: Path) -> None:
    before = look(folder, bounds=Bounds(plain_files=3))
    for name in "1234":
        (folder / name).touch()
    assert diff.compare(before) == Diff(notice="no diff: the folder has more than 3 files and is not in git")


def test_too_much_changed_text_is_left_out(folder: Path) -> None:
    before = look(folder, bounds=Bounds(text=1 << 20))
    (folder / "big").write_text("line\n" * (1 << 18))
    assert diff.compare(before) == Diff(
        "", (FileChange(path="big", change="add"),), "the text of the diff is left out: it is over 1 MB"
    )


def test_missing_scratch_folder_is_a_notice(folder: Path) -> None:
    before = diff.look(str(folder), str(folder.parent / "nowhere"), env={"PATH": PATH})
    assert diff.compare(before).notice.startswith("no diff: [Errno 2] No such file or directory")


def test_ignore_rules_and_attributes_of_the_folder_do_not_count(folder: Path) -> None:
    (folder / ".gitignore").write_text("*.txt\n")
    (folder / ".gitattributes").write_text("* -diff text eol=crlf filter=evil working-tree-encoding=UTF-16\n")
    before = look(folder)
    (folder / "a.txt").write_text("one\r\n2\n")
    (folder / "new.txt").write_text("n\n")
    assert shown(diff.compare(before)) == (
        "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n-two\n+one\r\n+2\n"
        "diff --git a/new.txt b/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+n\n"
    )


def test_repositories_within_the_folder(folder: Path) -> None:
    for name in ("whole", "broken"):
        subprocess.run(["git", "init", "-q", folder / name], check=True, env={"PATH": PATH})
        (folder / name / "f").write_text("1\n")
        (folder / name / ".gitignore").write_text("*.log\n")
    (folder / "broken/.git/index").write_bytes(b"garbage")
    before = look(folder)
    for name in ("whole", "broken"):
        (folder / name / "f").write_text("2\n")
        (folder / name / "noise.log").touch()
    done = diff.compare(before)
    assert done.files == (FileChange(path="whole/f", change="update"),)
    assert done.notice == "1 repositories within the folder were not looked at"


def test_ostlers_own_folder_is_never_looked_at(folder: Path) -> None:
    """Each turn writes there: `state = "project"`, or a command in HOME, would name it as what changed."""
    state = folder / "a [b]* !#" / "state"
    state.mkdir(parents=True)
    (state / "ostler.db").write_text("1")
    scratch = state / "scratch"
    scratch.mkdir(mode=0o700)
    before = diff.look(str(folder), str(scratch), state=str(state), env={"PATH": PATH})
    (state / "ostler.db").write_text("2")
    (state / "new").write_text("new")
    (folder / "a [b]* !#" / "mine").write_text("mine")
    assert diff.compare(before).files == (FileChange(path="a [b]* !#/mine", change="add"),)
