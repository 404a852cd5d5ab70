"""What a turn planted: by marks of the folder before and after."""

import os
import subprocess
from pathlib import Path

import pytest

from ostler.model import FileChange
from ostler.work.diff.planted import KEPT, keep_marks, kept_marks, marks_of, planted
from work.scripted import Stable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path / "w")], check=True)
    (tmp_path / "w" / ".claude").mkdir()
    (tmp_path / "w" / ".claude" / "settings.json").write_text("{}")
    return tmp_path / "w"


def changes(folder: Path, line: str) -> dict[str, str]:
    before = marks_of(str(folder))
    subprocess.run(["sh", "-ec", line], cwd=folder, check=True, capture_output=True)
    return {file.path: file.change for file in planted(before, marks_of(str(folder)), ())}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("echo x > .git/hooks/pre-commit", {".git/hooks/pre-commit": "add"}),
        ("git config core.fsmonitor evil", {".git/config": "update"}),
        ("chmod +x .git/hooks/*.sample && mkdir -p .git/info && echo x > .git/info/attributes", None),
        ("echo '{\"hooks\": {}}' > .claude/settings.json", {".claude/settings.json": "update"}),
        ("rm .claude/settings.json", {".claude/settings.json": "delete"}),
        ("mkdir -p .gemini .vscode; echo x > .gemini/settings.json; echo x > .vscode/mcp.json", None),
        ("echo x > .mcp.json; echo x > opencode.json; echo x > ostler.toml", None),
        ("ln -s /tmp/x .git/hooks/post-merge", {".git/hooks/post-merge": "add"}),
        ("mkdir -p .git/modules/m/hooks; echo x > .git/modules/m/hooks/post-checkout", None),
        ("git -c user.name=x -c user.email=x commit -q --allow-empty -m x", {}),
        ("echo x > app.py; touch .claude/settings.json", {}),
    ],
)
def test_what_is_told(folder: Path, line: str, expected: dict[str, str] | None) -> None:
    found = changes(folder, line)
    assert found == expected if expected is not None else found, found


def test_the_repository_of_a_work_tree(folder: Path) -> None:
    """Its git folder can be written too, or nothing could be committed."""
    git = ["git", "-c", "user.name=x", "-c", "user.email=x", "-C", str(folder)]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(folder.parent / "tree")], check=True, capture_output=True)
    found = changes(folder.parent / "tree", f"echo x > {folder}/.git/hooks/post-commit; git config a.b c")
    assert found == {"../w/.git/hooks/post-commit": "add", "../w/.git/config": "update"}


def test_several_at_once_are_all_told(folder: Path) -> None:
    line = "mkdir -p .gemini .vscode; echo x > .gemini/settings.json; echo x > .vscode/mcp.json; echo x > ostler.toml"
    assert changes(folder, line) == dict.fromkeys((".gemini/settings.json", ".vscode/mcp.json", "ostler.toml"), "add")


def test_further_down_the_diff_tells_it() -> None:
    files = (FileChange(path="sub/.claude/settings.json", change="add"), FileChange(path="sub/app.py"))
    assert planted({}, {}, files) == files[:1]


def test_what_a_hostile_folder_has_there(folder: Path) -> None:
    """Pipes, links in a circle, a folder without rights, very many files: it is bounded, and nothing hangs."""
    os.mkfifo(folder / ".mcp.json")
    (folder / ".codex").symlink_to(folder)
    many = folder / ".gemini"
    many.mkdir()
    for number in range(3000):
        (many / f"{number}.toml").touch()
    assert len(marks_of(str(folder))) <= 2000


@pytest.mark.parametrize("access", ["write", "full"])
async def test_in_the_envelope(stable: Stable, access: str) -> None:
    subprocess.run(["git", "init", "-q", str(stable.folder)], check=True)
    stable.script.plays([{"run": "echo x > .git/hooks/pre-commit; mkdir sub; echo x > sub/.mcp.json; echo x > app.py"}])
    envelope, _ = await stable.turn("go", access=access)
    expected = [(".git/hooks/pre-commit", "add"), ("sub/.mcp.json", "add")] if access == "write" else []
    assert [(file.path, file.change) for file in envelope.planted] == expected
    assert {file.path for file in envelope.files} == {"sub/.mcp.json", "app.py"}


def test_marks_are_kept_for_another_process(tmp_path: Path) -> None:
    scratch = str(tmp_path)
    assert kept_marks(scratch) is None
    marks = {".git/hooks/\udcff": "33188 abc", "ü": "link x"}  # a name that is no UTF-8
    keep_marks(marks, scratch)
    assert kept_marks(scratch) == marks and (tmp_path / KEPT).stat().st_mode & 0o777 == 0o600
    for broken in ("{", "7", "[1]"):
        (tmp_path / KEPT).write_text(broken)
        assert kept_marks(scratch) is None
