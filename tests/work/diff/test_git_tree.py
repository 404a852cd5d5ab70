"""Diffs in real git repositories, made by a real git."""

import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ostler.model import FileChange
from ostler.work.diff import compare as diff
from ostler.work.diff.compare import Before, Bounds, Diff
from waiting import ends

PATH = os.environ["PATH"]
WHO = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(folder: Path, *args: str) -> str:
    env = {"PATH": PATH, "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **WHO}
    command = ["git", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main", *args]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout


def prints(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Every file below a folder: hash, mode and modification time."""
    found = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(info.st_mode) else ""
        found[str(path.relative_to(folder))] = (digest, info.st_mode, info.st_mtime_ns)
    return found


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with two committed files, one staged, one modified, one untracked, one ignored."""
    folder = tmp_path / "repo"
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "sub/b.txt").write_text("b\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    (folder / "staged.txt").write_text("staged\n")
    git(folder, "add", "staged.txt")
    (folder / "sub/b.txt").write_text("b\nmine\n")
    (folder / "untracked.txt").write_text("u\n")
    (folder / "noise.log").write_text("x\n")
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "scratch"
    folder.mkdir(mode=0o700)
    yield folder


def look(folder: Path, scratch: Path, **more: object) -> Before:
    before = diff.look(str(folder), str(scratch), env={"PATH": PATH}, **more)  # type: ignore[arg-type]
    assert before.tree is not None and (before.notice, before.tree.alone) == ("", False)
    return before


def changes(done: Diff) -> list[tuple[str, str]]:
    return [(change.path, change.change) for change in done.files]


def test_nothing_changed_is_an_empty_diff(repo: Path, scratch: Path) -> None:
    before = look(repo, scratch)
    assert [path.stat().st_mode & 0o777 for path in scratch.iterdir()] == [0o700]
    assert diff.compare(before) == Diff("", (), "")
    assert list(scratch.iterdir()) == []


def test_only_what_the_turn_did_is_told(repo: Path, scratch: Path) -> None:
    before = look(repo, scratch)
    (repo / "a.txt").write_text("one\n2\n")
    (repo / "new.txt").write_text("new\n")
    (repo / "untracked.txt").unlink()
    (repo / "more.log").write_text("ignored\n")
    done = diff.compare(before)
    assert (changes(done), done.notice) == ([("a.txt", "update"), ("new.txt", "add"), ("untracked.txt", "delete")], "")
    lines = [line for line in done.text.splitlines() if not line.startswith("index ")]
    assert lines == [
        "diff --git a/a.txt b/a.txt",
        "--- a/a.txt",
        "+++ b/a.txt",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+2",
        "diff --git a/new.txt b/new.txt",
        "new file mode 100644",
        "--- /dev/null",
        "+++ b/new.txt",
        "@@ -0,0 +1 @@",
        "+new",
        "diff --git a/untracked.txt b/untracked.txt",
        "deleted file mode 100644",
        "--- a/untracked.txt",
        "+++ /dev/null",
        "@@ -1 +0,0 @@",
        "-u",
    ]


def test_the_diff_applies(repo: Path, scratch: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(repo, copy)
    before = look(repo, scratch)
    (repo / "sub/b.txt").rename(repo / "sub/ü c.txt")
    (repo / "a.txt").write_text("no newline at the end")
    (repo / "run.sh").write_text("#!/bin/sh\n")
    (repo / "run.sh").chmod(0o755)
    os.symlink("a.txt", repo / "link")
    done = diff.compare(before)
    assert changes(done) == [
        ("a.txt", "update"),
        ("link", "add"),
        ("run.sh", "add"),
        ("sub/b.txt", "delete"),
        ("sub/ü c.txt", "move"),
    ]
    (tmp_path / "x.diff").write_text(done.text)
    git(copy, "apply", str(tmp_path / "x.diff"))
    assert {p.name: p.lstat().st_mode for p in copy.glob("*")} == {p.name: p.lstat().st_mode for p in repo.glob("*")}
    assert (copy / "a.txt").read_text() == "no newline at the end"
    assert (copy / "sub/ü c.txt").read_text() == "b\nmine\n"


def test_git_folder_is_untouched(repo: Path, scratch: Path) -> None:
    os.utime(repo / "a.txt", (1, 1))  # stat differs from the index, content does not
    was = prints(repo / ".git")
    before = look(repo, scratch)
    (repo / "a.txt").write_text("changed\n")
    (repo / "again.txt").write_text("one\ntwo\n")  # an object that the repository has already
    assert len(diff.compare(before).files) == 2
    assert prints(repo / ".git") == was


def test_commits_of_the_turn_are_part_of_the_diff(repo: Path, scratch: Path) -> None:
    before = look(repo, scratch)
    (repo / "a.txt").write_text("one\nthree\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "second")
    git(repo, "gc", "-q", "--prune=now")
    done = diff.compare(before)
    assert (changes(done), done.notice) == ([("a.txt", "update")], "")
    assert "-two\n+three\n" in done.text


def test_subfolder_is_told_alone_and_relative(repo: Path, scratch: Path) -> None:
    before = look(repo / "sub", scratch, exclude=frozenset({"AGENTS.md"}))
    (repo / "a.txt").write_text("outside\n")
    (repo / "sub/b.txt").write_text("b\nyours\n")
    (repo / "sub/AGENTS.md").write_text("ours\n")
    done = diff.compare(before)
    assert changes(done) == [("b.txt", "update")]
    assert done.text.startswith("diff --git a/b.txt b/b.txt\n")


def test_excluded_names_are_left_out(repo: Path, scratch: Path) -> None:
    before = look(repo, scratch, exclude=frozenset({"AGENTS.md", "a.txt"}))
    (repo / "AGENTS.md").write_text("ours\n")
    (repo / "a.txt").write_text("ours\n")
    (repo / "sub/AGENTS.md").write_text("theirs\n")
    assert changes(diff.compare(before)) == [("sub/AGENTS.md", "add")]


def test_worktree(repo: Path, scratch: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(repo, "worktree", "add", "-q", str(other))
    was = prints(repo / ".git")
    before = look(other, scratch)
    (other / "a.txt").write_text("one\nTWO\n")
    done = diff.compare(before)
    assert (changes(done), "-two\n+TWO\n" in done.text) == ([("a.txt", "update")], True)
    assert prints(repo / ".git") == was


def test_separate_git_folder(tmp_path: Path, scratch: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q", f"--separate-git-dir={tmp_path}/elsewhere.git")
    (folder / "a").write_text("1\n")
    before = look(folder, scratch)
    (folder / "a").write_text("2\n")
    assert changes(diff.compare(before)) == [("a", "update")]


@pytest.mark.parametrize("format", ["sha1", "sha256"])
def test_repository_without_commits(tmp_path: Path, scratch: Path, format: str) -> None:
    git(tmp_path, "init", "-q", f"--object-format={format}", "repo")
    repo = tmp_path / "repo"
    before = look(repo, scratch)
    (repo / "a").write_text("1\n")
    done = diff.compare(before)
    assert (changes(done), "+1\n" in done.text) == ([("a", "add")], True)


def test_conflict_in_progress(repo: Path, scratch: Path) -> None:
    git(repo, "commit", "-qam", "mine")
    git(repo, "checkout", "-qb", "side", "HEAD~1")
    (repo / "a.txt").write_text("side\n")
    git(repo, "commit", "-qam", "side")
    git(repo, "checkout", "-q", "main")
    (repo / "a.txt").write_text("main\n")
    git(repo, "commit", "-qam", "main")
    with pytest.raises(subprocess.CalledProcessError):
        git(repo, "merge", "side")
    before = look(repo, scratch)
    (repo / "a.txt").write_text("solved\n")
    done = diff.compare(before)
    assert (changes(done), "-<<<<<<< HEAD\n" in done.text, "+solved\n" in done.text) == (
        [("a.txt", "update")],
        True,
        True,
    )


def test_files_become_folders_and_symlinks(repo: Path, scratch: Path) -> None:
    before = look(repo, scratch)
    (repo / "a.txt").unlink()
    (repo / "a.txt").mkdir()
    (repo / "a.txt/inner").write_text("i\n")
    shutil.rmtree(repo / "sub")
    os.symlink("a.txt", repo / "sub")
    done = diff.compare(before)
    assert changes(done) == [("a.txt", "delete"), ("a.txt/inner", "add"), ("sub", "add"), ("sub/b.txt", "delete")]


def test_binary_files_and_names_that_are_not_utf8(repo: Path, scratch: Path) -> None:
    (repo / "pic").write_bytes(b"\x00\x01")
    before = look(repo, scratch)
    (repo / "pic").write_bytes(b"\x00\x02")
    (repo / "latin.txt").write_bytes(b"caf\xe9\n")
    with open(os.fsencode(repo) + b"/n\xff\nl", "w") as file:
        file.write("odd\n")
    done = diff.compare(before)
    assert changes(done) == [("latin.txt", "add"), ("n\ufffd\nl", "add"), ("pic", "update")]
    assert "Binary files a/pic and b/pic differ\n" in done.text
    assert "+caf\ufffd\n" in done.text
    assert msgspec.json.decode(msgspec.json.encode(done), type=Diff) == done


def test_large_files_are_named_only(repo: Path, scratch: Path) -> None:
    bounds = Bounds(git_file=1000)
    for name in ("same", "grown", "gone"):
        (repo / name).write_text("x" * 2000)
    before = look(repo, scratch, bounds=bounds)
    (repo / "grown").write_text("y" * 3000)
    (repo / "a.txt").write_text("z" * 3000)
    (repo / "new").write_text("z" * 3000)
    (repo / "gone").unlink()
    done = diff.compare(before)
    expected = [("a.txt", "update"), ("gone", "delete"), ("grown", "update"), ("new", "add")]
    assert (changes(done), done.text) == (expected, "")


def test_too_much_to_hash_is_a_notice(repo: Path, scratch: Path) -> None:
    (repo / "many").write_text("x" * (2 << 20))
    before = diff.look(str(repo), str(scratch), env={"PATH": PATH}, bounds=Bounds(git_bytes=1 << 20))
    assert diff.compare(before) == Diff(notice="no diff: more than 1 MB of files are changed or not tracked")


def test_too_much_text_is_left_out(repo: Path, scratch: Path) -> None:
    before = look(repo, scratch, bounds=Bounds(text=1 << 20))
    (repo / "new").write_text("line\n" * (1 << 19))
    assert diff.compare(before) == Diff(
        "", (FileChange(path="new", change="add"),), "the text of the diff is left out: it is over 1 MB"
    )


# -- repositories within ----------------------------------------------------------------------------


@pytest.fixture
def parent(repo: Path, tmp_path: Path) -> Path:
    """A repository with a submodule `mod` and an untracked repository `loose`."""
    folder = tmp_path / "parent"
    folder.mkdir()
    git(folder, "init", "-q")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "all")
    git(folder, "submodule", "--quiet", "add", str(repo), "mod")
    git(folder, "commit", "-qm", "mod")
    git(folder, "clone", "-q", str(repo), "loose")
    return folder


def test_submodules_and_nested_repositories(parent: Path, scratch: Path) -> None:
    before = look(parent, scratch)
    (parent / "mod/a.txt").write_text("one\nmod\n")
    git(parent / "mod", "commit", "-qam", "mod")
    (parent / "loose/a.txt").write_text("one\nloose\n")
    git(parent, "init", "-q", "fresh")
    (parent / "fresh/f").write_text("fresh\n")
    done = diff.compare(before)
    assert changes(done) == [
        ("fresh/f", "add"),
        ("loose/a.txt", "update"),
        ("mod", "update"),
        ("mod/a.txt", "update"),
    ]
    assert "diff --git a/loose/a.txt b/loose/a.txt\n" in done.text
    assert "+Subproject commit " in done.text


def test_submodule_that_is_not_checked_out(parent: Path, scratch: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(parent), "clone")
    before = look(tmp_path / "clone", scratch)
    (tmp_path / "clone/new").write_text("n\n")
    done = diff.compare(before)
    assert (changes(done), done.notice) == ([("new", "add")], "")


def test_untouched_submodules_show_nothing(parent: Path, scratch: Path) -> None:
    (parent / "mod/a.txt").write_text("dirty before\n")
    was = prints(parent / ".git")
    assert diff.compare(look(parent, scratch)) == Diff()
    assert prints(parent / ".git") == was


def test_removed_repository(parent: Path, scratch: Path) -> None:
    before = look(parent, scratch)
    shutil.rmtree(parent / "loose")
    done = diff.compare(before)
    expected = [".gitignore", "a.txt", "staged.txt", "sub/b.txt", "untracked.txt"]
    assert changes(done) == [(f"loose/{name}", "delete") for name in expected]
    assert done.notice.startswith("the text of the diff is missing: git diff-tree failed: ")


def test_more_nested_repositories_than_looked_at(parent: Path, scratch: Path) -> None:
    before = look(parent, scratch, bounds=Bounds(nested=1))
    (parent / "loose/a.txt").write_text("x\n")
    (parent / "mod/a.txt").write_text("x\n")
    done = diff.compare(before)
    assert (changes(done), done.notice) == (
        [("loose/a.txt", "update")],
        "1 repositories within the folder were not looked at",
    )


def test_removed_git_folder_still_tells_the_files(repo: Path, scratch: Path) -> None:
    before = look(repo, scratch)
    shutil.rmtree(repo / ".git")
    (repo / "a.txt").write_text("x\n")
    done = diff.compare(before)
    assert changes(done) == [("a.txt", "update")]
    assert done.notice.startswith("the text of the diff is missing")


def test_ignored_folder_is_compared_by_itself(repo: Path, scratch: Path) -> None:
    (repo / ".gitignore").write_text("build/\n")
    (repo / "build").mkdir()
    before = diff.look(str(repo / "build"), str(scratch), env={"PATH": PATH})
    (repo / "build/out").write_text("o\n")
    assert changes(diff.compare(before)) == [("out", "add")]


def test_split_and_sparse_indexes(repo: Path, scratch: Path, tmp_path: Path) -> None:
    git(repo, "update-index", "--split-index")
    before = look(repo, scratch)
    (repo / "a.txt").write_text("split\n")
    assert changes(diff.compare(before)) == [("a.txt", "update")]
    git(repo, "commit", "-qam", "x")
    git(repo, "clone", "-q", "--sparse", str(repo), str(tmp_path / "sparse"))
    sparse = tmp_path / "sparse"
    git(sparse, "sparse-checkout", "set", "--cone", "--sparse-index")
    assert not (sparse / "sub").exists()
    (tmp_path / "second").mkdir()
    before = look(sparse, tmp_path / "second")
    (sparse / "a.txt").write_text("sparse\n")
    assert changes(diff.compare(before)) == [("a.txt", "update")]


def test_line_ends_as_the_user_has_them(tmp_path: Path, scratch: Path) -> None:
    git(tmp_path, "init", "-q", "repo")
    repo = tmp_path / "repo"
    git(repo, "config", "core.autocrlf", "true")
    (repo / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "x")
    before = look(repo, scratch)
    (repo / "a.txt").write_bytes(b"one\r\n2\r\n")
    assert "@@ -1,2 +1,2 @@\n one\n-two\n+2\n" in diff.compare(before).text


# -- hostile and broken -----------------------------------------------------------------------------


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def arm(git_folder: Path, work: Path, canary: Path) -> None:
    """Everything in a repository's configuration that makes git run a program."""
    script = canary.parent / "evil.sh"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >> {canary}\ncat\n')
    script.chmod(0o755)
    append(
        git_folder / "config",
        f"""
[core]
\tfsmonitor = {script}
\thooksPath = {canary.parent}/hooks
\tpager = {script}
\teditor = {script}
\tsshCommand = {script}
\tworktree = /
[filter "evil"]
\tclean = {script}
\tsmudge = {script}
\tprocess = {script}
\trequired = true
[diff "evil"]
\tcommand = {script}
\ttextconv = {script}
[diff]
\texternal = {script}
[merge "evil"]
\tdriver = {script}
""",
    )
    hooks = canary.parent / "hooks"
    for folder in (hooks, git_folder / "hooks"):
        folder.mkdir(exist_ok=True)
        for name in ("post-index-change", "pre-commit", "reference-transaction", "fsmonitor-watchman"):
            shutil.copy(script, folder / name)
    (work / ".gitattributes").write_text("* filter=evil diff=evil merge=evil text\n")


def test_hostile_repository_runs_nothing(parent: Path, scratch: Path, tmp_path: Path) -> None:
    canary = tmp_path / "trap" / "canary"
    canary.parent.mkdir()
    arm(parent / ".git", parent, canary)
    arm(parent / ".git/modules/mod", parent / "mod", canary)
    arm(parent / "loose/.git", parent / "loose", canary)
    append(parent / ".gitmodules", "\tignore = none\n\tupdate = !touch canary\n")
    (parent / "f").write_text("1\n")
    before = look(parent, scratch)
    for name in ("f", "mod/a.txt", "loose/a.txt"):
        (parent / name).write_text("changed\n")
    done = diff.compare(before)
    assert changes(done) == [("f", "update"), ("loose/a.txt", "update"), ("mod/a.txt", "update")]
    assert done.text.count("+changed\n") == 3
    assert not canary.exists()
    git(tmp_path, "config", "--file", str(parent / ".git/config"), "--unset", "core.worktree")
    with pytest.raises(subprocess.CalledProcessError):  # the trap itself works: git alone falls into it
        git(parent, "add", "-A")
    assert canary.exists()


def test_submodule_paths_cannot_leave_the_folder(repo: Path, scratch: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    git(tmp_path, "init", "-q", "outside")
    os.symlink(outside, repo / "door")
    (repo / ".gitmodules").write_text(
        f'[submodule "a"]\n\tpath = ../outside\n[submodule "b"]\n\tpath = door\n[submodule "c"]\n\tpath = {outside}\n'
    )
    before = look(repo, scratch)
    (outside / "secret").write_text("s\n")
    assert diff.compare(before) == Diff()


def test_planted_pipes_do_not_block(repo: Path, scratch: Path) -> None:
    for name in (".git/info/exclude", ".git/index", "pipe"):
        (repo / name).unlink(missing_ok=True)
        os.mkfifo(repo / name)
    before = look(repo, scratch)
    (repo / "a.txt").write_text("x\n")
    assert changes(diff.compare(before)) == [("a.txt", "update")]


def test_slow_git_is_killed(repo: Path, scratch: Path, tmp_path: Path) -> None:
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "git").write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {tmp_path}/pid\nwait\n")
    (bin / "git").chmod(0o755)
    env = {"PATH": f"{bin}:{PATH}"}
    for seconds in (1, 5, 40):  # a busy machine may need longer to start it
        before = diff.look(str(repo), str(scratch), env=env, bounds=Bounds(git_seconds=seconds))
        assert diff.compare(before) == Diff(notice=f"no diff: looking at the folder took longer than {seconds} s")
        if (pid := tmp_path / "pid").exists() and pid.read_text().endswith("\n"):
            break
    assert ends(pid.read_text().strip())


@pytest.mark.parametrize("index", [b"garbage", b""])
def test_broken_repository_is_compared_as_a_plain_folder(repo: Path, scratch: Path, index: bytes) -> None:
    (repo / ".git/index").write_bytes(index)
    before = diff.look(str(repo), str(scratch), env={"PATH": PATH})
    (repo / "a.txt").write_text("x\n")
    done = diff.compare(before)
    assert (changes(done), done.notice) == ([("a.txt", "update")], "")


def test_without_git_there_is_a_notice(repo: Path, scratch: Path, tmp_path: Path) -> None:
    before = diff.look(str(repo), str(scratch), env={"PATH": str(tmp_path)})
    (repo / "a.txt").write_text("one\n2\n")
    assert diff.compare(before) == Diff(notice="no diff: git is not on PATH")


def test_git_in_the_folder_is_never_run(repo: Path, scratch: Path, tmp_path: Path) -> None:
    (repo / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    (repo / "git").chmod(0o755)
    before = diff.look(str(repo), str(scratch), env={"PATH": f".::{PATH}"})
    assert (before.tree is not None, diff.compare(before), (tmp_path / "canary").exists()) == (True, Diff(), False)


def test_git_that_fails_afterwards_is_a_notice(repo: Path, scratch: Path, tmp_path: Path) -> None:
    before = look(repo, scratch)
    assert before.tree is not None
    Path(before.tree.git.index).write_bytes(b"garbage")
    done = diff.compare(before)
    assert (done.text, done.files, done.notice.startswith("git ls-files failed: ")) == ("", (), True)


def test_ostlers_own_folder_is_never_looked_at(repo: Path) -> None:
    state = repo / "sub/state"
    (state / "scratch").mkdir(parents=True, mode=0o700)
    before = diff.look(str(repo / "sub"), str(state / "scratch"), state=str(state), env={"PATH": PATH})
    (state / "ostler.db").write_text("1")
    (repo / "sub/mine").write_text("mine")
    assert diff.compare(before).files == (FileChange(path="mine", change="add"),)
