"""Git worktrees in a real repository."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.pipelines.git import GitWorktree

SLOW = """#!/bin/sh
case "$*" in *" merge "*)
    mkdir merging || touch overlap
    sleep 0.2
    {git} "$@"
    code=$?
    rmdir merging
    exit $code
esac
exec {git} "$@"
"""


def git(folder: Path, *args: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@y"]
    return subprocess.run(["git", "-C", str(folder), *who, *args], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "old.txt").write_text("old\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


async def worktree(repository: Path, name: str, text: str, path: str = os.environ["PATH"]) -> GitWorktree:
    """One with a commit that writes `old.txt` and a file of its own."""
    place, locks = repository.parent / name, str(repository.parent)
    tree = GitWorktree(str(repository), str(place), f"ostler/r1/{name}", "HEAD", {"PATH": path}, locks)
    await tree.make()
    (place / "old.txt").write_text(text)
    (place / f"{name}.txt").write_text(text)
    await tree.commit("work")
    return tree


async def test_merges_into_one_repository_wait_for_each_other(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin = repository.parent / "bin"
    bin.mkdir()
    (bin / "git").write_text(SLOW.format(git=subprocess.check_output(["which", "git"], text=True).strip()))
    (bin / "git").chmod(0o755)
    monkeypatch.chdir(repository.parent)
    names = ["a", "b", "c"]
    trees = [await worktree(repository, name, "old\n", f"{bin}:{os.environ['PATH']}") for name in names]
    assert await asyncio.gather(*(tree.finish("merge") for tree in trees)) == [
        f"ostler/r1/{name} was merged" for name in names
    ]
    assert not (repository.parent / "overlap").exists()
    assert sorted(each.name for each in repository.glob("?.txt")) == ["a.txt", "b.txt", "c.txt"]


async def test_what_cannot_be_merged_is_kept_and_the_merge_of_a_person_goes_on(repository: Path) -> None:
    tree = await worktree(repository, "a", "other\n")
    git(repository, "checkout", "-q", "-b", "hers")
    (repository / "old.txt").write_text("hers\n")
    git(repository, "commit", "-qam", "hers")
    with pytest.raises(OstlerError, match="could not be merged"):
        await tree.finish("merge")
    assert git(repository, "status", "--porcelain") == "" and not Path(tree.path).exists()
    git(repository, "checkout", "-q", "-b", "theirs", "main")
    (repository / "old.txt").write_text("theirs\n")
    git(repository, "commit", "-qam", "theirs")
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, "merge", "hers")
    with pytest.raises(OstlerError, match="could not be merged"):
        await tree.finish("merge")
    assert git(repository, "rev-parse", "MERGE_HEAD") == git(repository, "rev-parse", "hers")
    git(repository, "merge", "--abort")
    git(repository, "checkout", "-q", "main")
    assert await tree.finish("merge") == "ostler/r1/a was merged"
    assert (repository / "old.txt").read_text() == "other\n"


async def test_a_merge_that_a_crash_has_left_is_begun_again(repository: Path) -> None:
    tree = await worktree(repository, "a", "other\n")
    (repository / "new.txt").write_text("new\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "second")
    git(repository, "merge", "--no-commit", "-q", tree.branch)
    assert await tree.finish("merge") == "ostler/r1/a was merged"
    assert (repository / "a.txt").exists() and git(repository, "log", "--merges", "--format=%s").count("\n") == 1
