"""Repositories are known by the same words on every machine, and logins are left out."""

import subprocess
from pathlib import Path

import pytest

from ostler.machines.remotes import plain_remote, remote_of, top_of


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://github.com/Owner/name.git", "github.com/Owner/name"),
        ("https://ann:ghp_secret@GitHub.com/owner/name", "github.com/owner/name"),
        ("https://oauth2:token@host:8443/a/b/c.git/", "host/a/b/c"),
        ("git@github.com:owner/name.git", "github.com/owner/name"),
        ("host.example:name", "host.example/name"),
        ("ssh://git@host:22/owner/name.git", "host/owner/name"),
        ("file:///srv/name.git", ""),
        ("/srv/name.git", ""),
        ("../name", ""),
        ("https://host/", ""),
        ("https://[bad/x.git", ""),
        ("", ""),
    ],
)
def test_plain_remote(url: str, plain: str) -> None:
    assert plain_remote(url) == plain


def git(*args: str, cwd: Path) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *args], cwd=cwd, check=True, capture_output=True)


def test_a_worktree_whose_file_holds_no_path_has_no_remote(tmp_path: Path) -> None:
    (tmp_path / ".git").write_bytes(b"gitdir: \0")
    assert remote_of(str(tmp_path)) == ""


def test_remote_of_a_folder_below_a_clone_and_of_a_worktree(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    (clone / "deep" / "er").mkdir(parents=True)
    assert remote_of(str(clone)) == ""
    git("init", cwd=clone)
    assert remote_of(str(clone)) == ""
    git("remote", "add", "upstream", "https://host/up/stream", cwd=clone)
    assert remote_of(str(clone)) == "host/up/stream"
    git("remote", "add", "origin", "https://me:secret@host/own/er.git", cwd=clone)
    git("commit", "--allow-empty", "-m", "first", cwd=clone)
    git("worktree", "add", str(tmp_path / "tree"), cwd=clone)
    for folder in (clone, clone / "deep" / "er", tmp_path / "tree"):
        assert remote_of(str(folder)) == "host/own/er"


def test_a_broken_config_is_no_remote(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_bytes(b"\xff[[[\nnonsense")
    assert remote_of(str(tmp_path)) == ""
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / ".git").write_text("gitdir: nowhere")
    assert remote_of(str(tmp_path / "file")) == ""


def test_the_top_of_a_repository_is_found_from_below(tmp_path: Path) -> None:
    (tmp_path / "oats" / ".git").mkdir(parents=True)
    (tmp_path / "oats" / "a" / "b").mkdir(parents=True)
    assert top_of(str(tmp_path / "oats" / "a" / "b")) == tmp_path / "oats" == top_of(str(tmp_path / "oats"))
    assert top_of(str(tmp_path)) is None
