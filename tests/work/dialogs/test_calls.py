"""Files that an agent reads and writes through ostler."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ostler.access import Access
from ostler.agents.dialog import Call, CallName
from ostler.errors import OstlerError
from ostler.model import Turn
from ostler.work.dialogs.call_files import FILE_LIMIT
from ostler.work.dialogs.calls import Calls


def turn_in(folder: Path, access: Access = "write") -> Turn:
    return Turn(id="s-1", session="s", agent="script", prompt="x", folder=str(folder), access=access)


async def ask(folder: Path, name: CallName, path: Any, access: Access = "write", **params: Any) -> dict[str, Any]:
    return await Calls(turn_in(folder, access)).serve(Call("call:1", name, {"path": path, **params}))


async def refused(folder: Path, name: CallName, path: Any, access: Access = "write", **params: Any) -> str:
    with pytest.raises(OstlerError) as caught:
        await ask(folder, name, path, access, **params)
    return caught.value.kind


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


# -- reading --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, "one\ntwo\r\nthree\u2028still\nfour"),
        ({"line": None, "limit": None}, "one\ntwo\r\nthree\u2028still\nfour"),
        ({"line": 2}, "two\r\nthree\u2028still\nfour"),
        ({"line": 2, "limit": 1}, "two\r\n"),
        ({"line": 3, "limit": 1}, "three\u2028still\n"),
        ({"limit": 2}, "one\ntwo\r\n"),
        ({"line": 0, "limit": 1}, "one\n"),
        ({"line": 4, "limit": 10}, "four"),
        ({"line": 5}, ""),
        ({"limit": 0}, ""),
        ({"line": 2**31}, ""),
    ],
)
async def test_a_file_by_lines(folder: Path, params: dict[str, Any], text: str) -> None:
    (folder / "a.txt").write_bytes("one\ntwo\r\nthree\u2028still\nfour".encode())
    assert await ask(folder, "read_file", str(folder / "a.txt"), "read", **params) == {"content": text}


async def test_bytes_that_are_no_text_are_replaced(folder: Path) -> None:
    (folder / "a").write_bytes(b"a\xff\xfeb")
    assert await ask(folder, "read_file", str(folder / "a")) == {"content": "a��b"}


async def test_a_file_that_is_too_large(folder: Path) -> None:
    with open(folder / "large", "wb") as file:
        file.truncate(2 << 30)
    assert await refused(folder, "read_file", str(folder / "large")) == "bad_request"
    with open(folder / "fits", "wb") as file:
        file.truncate(FILE_LIMIT)
    assert len((await ask(folder, "read_file", str(folder / "fits")))["content"]) == FILE_LIMIT


async def test_what_is_missing_is_told_as_missing(folder: Path) -> None:
    assert await refused(folder, "read_file", str(folder / "none")) == "not_found"
    assert await refused(folder, "read_file", str(folder / "none" / "deeper")) == "not_found"


@pytest.mark.parametrize("params", [{"line": -1}, {"line": "2"}, {"limit": 1.5}, {"limit": True}])
async def test_what_is_no_number_of_lines(folder: Path, params: dict[str, Any]) -> None:
    (folder / "a").write_text("x")
    assert await refused(folder, "read_file", str(folder / "a"), **params) == "bad_request"


@pytest.mark.parametrize("path", [None, "", 7, ["a"], "a\0b", "\ud800", "x" * 5000])
async def test_what_is_no_path(folder: Path, path: Any) -> None:
    assert await refused(folder, "read_file", path) == "bad_request"
    assert await refused(folder, "write_file", path, content="x") == "bad_request"
    assert os.listdir(folder) == []


async def test_a_folder_is_no_file(folder: Path) -> None:
    (folder / "sub").mkdir()
    for path in (str(folder), str(folder / "sub"), f"{folder}/sub/", f"{folder}/sub/.", f"{folder}/sub/.."):
        assert await refused(folder, "read_file", path) == "bad_request"
        assert await refused(folder, "write_file", path, content="x") == "bad_request"


# -- writing --------------------------------------------------------------------------------------------------


async def test_a_new_file_with_its_folders(folder: Path) -> None:
    assert await ask(folder, "write_file", str(folder / "a" / "b" / "c.txt"), content="ä\n") == {}
    assert (folder / "a" / "b" / "c.txt").read_bytes() == "ä\n".encode()
    assert await ask(folder, "write_file", str(folder / "a" / "b" / "c.txt"), "full", content="") == {}
    assert (folder / "a" / "b" / "c.txt").read_bytes() == b""


async def test_a_file_keeps_its_mode(folder: Path) -> None:
    script = folder / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    await ask(folder, "write_file", str(script), content="new")
    assert (script.read_text(), stat.S_IMODE(script.stat().st_mode)) == ("new", 0o750)


async def test_access_read_writes_nothing(folder: Path) -> None:
    assert await refused(folder, "write_file", str(folder / "a"), "read", content="x") == "denied"
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".GIT/hooks/pre-commit",
        "./src/../.git/hooks/pre-commit",
        ".git/new/folder/x",
        "loop/pre-commit",
        "loop/new/x",
        "one.py",
        "dangling.py",
        ".claude/settings.json",
        "sub/.mcp.json",
        "ostler.toml",
    ],
)
async def test_access_write_reaches_neither_hooks_nor_settings(folder: Path, path: str) -> None:
    """By their names, by links, and by other ways to write a name. With full access there is no such limit."""
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("old")
    (folder / "src").mkdir(exist_ok=True)
    (folder / "loop").symlink_to(".git/hooks")
    (folder / "one.py").symlink_to(".git/hooks/pre-commit")
    (folder / "dangling.py").symlink_to(".git/hooks/post-commit")
    for given in (path, str(folder / path)):
        assert await refused(folder, "write_file", given, content="evil") == "denied"
    assert [each.name for each in hooks.iterdir()] == ["pre-commit"] and (hooks / "pre-commit").read_text() == "old"
    assert not (folder / ".claude").exists() and not (folder / "sub").exists() and not (folder / ".git/new").exists()
    await ask(folder, "write_file", path, access="full", content="meant")


async def test_a_write_that_fails_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a").write_text("old")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    assert await refused(folder, "write_file", str(folder / "a"), content="new") == "store"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a": "old"}


async def test_a_link_within_the_folder_is_written_through(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "real").write_text("old")
    (folder / "link").symlink_to("sub/real")
    (folder / "new").symlink_to("sub/made")
    await ask(folder, "write_file", str(folder / "link"), content="new")
    await ask(folder, "write_file", str(folder / "new"), content="made")
    assert (folder / "link").is_symlink() and (folder / "new").is_symlink()
    assert (folder / "sub" / "real").read_text() == "new"
    assert (folder / "sub" / "made").read_text() == "made"


@pytest.mark.parametrize("content", [None, 7, ["a"]])
async def test_what_is_no_text_is_not_written(folder: Path, content: Any) -> None:
    assert await refused(folder, "write_file", str(folder / "a"), content=content) == "bad_request"
    assert os.listdir(folder) == []


async def test_without_terminals_none_are_served(folder: Path) -> None:
    for name in ("terminal_create", "terminal_output", "terminal_wait", "terminal_kill", "terminal_release"):
        assert await refused(folder, name, None, "full", command="true") == "unsupported"
