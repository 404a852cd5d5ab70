"""Private folders and files."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from needs import needs
from ostler.errors import OstlerError
from ostler.store.files import (
    create_exclusive,
    open_private_append,
    private_folder,
    turn_folder,
    write_new_private,
    write_private,
)


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.lstat().st_mode))


def kind_of(call: Callable[[], object]) -> str:
    with pytest.raises(OstlerError) as caught:
        call()
    return caught.value.kind


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


# -- private ----------------------------------------------------------------------------------------


def test_modes_do_not_depend_on_the_umask(tmp_path: Path, umask: int) -> None:
    folder = private_folder(tmp_path / "f")
    write_private(folder / "w", b"one")
    with open_private_append(folder / "a") as file:
        file.write(b"x")
    create_exclusive(folder, "c", "text")
    assert {path.name: mode(path) for path in [folder, *folder.iterdir()]} == {
        "f": "0o700",
        "w": "0o600",
        "a": "0o600",
        "c": "0o600",
    }


def test_a_private_folder_is_neither_a_symlink_nor_a_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(0o700)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").write_text("")
    for name in ("link", "dangling", "file"):
        assert kind_of(lambda name=name: private_folder(tmp_path / name)) == "store"
    assert not (tmp_path / "nowhere").exists()


@needs("root")
def test_a_private_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir(0o700)
    os.chown(tmp_path / "f", 65534, 65534)
    with pytest.raises(OstlerError, match="belongs to another user"):
        private_folder(tmp_path / "f")


def test_a_full_wide_folder_is_not_closed_by_mistake(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f").chmod(0o777)
    (tmp_path / "f" / "x").write_text("")
    assert kind_of(lambda: private_folder(tmp_path / "f")) == "store"
    assert mode(tmp_path / "f") == "0o777"
    assert private_folder(tmp_path / "f", known="x") == tmp_path / "f"
    assert mode(tmp_path / "f") == "0o700"


def test_write_private_replaces_a_planted_symlink_and_leaves_its_target(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "w").symlink_to("target")
    write_private(tmp_path / "w", b"new")
    assert ((tmp_path / "w").read_bytes(), (tmp_path / "w").is_symlink()) == (b"new", False)
    write_private(tmp_path / "w", b"newer")
    assert ((tmp_path / "w").read_bytes(), (tmp_path / "target").read_bytes()) == (b"newer", b"precious")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target", "w"]


def test_a_new_private_file_is_written_at_once_and_never_through_a_symlink(tmp_path: Path) -> None:
    write_new_private(tmp_path / "n", iter([b"one ", b"two"]))
    assert ((tmp_path / "n").read_bytes(), mode(tmp_path / "n")) == (b"one two", "0o600")
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "w").symlink_to("target")
    write_new_private(tmp_path / "w", iter([b"new"]))
    assert ((tmp_path / "w").read_bytes(), (tmp_path / "w").is_symlink()) == (b"new", False)
    assert (tmp_path / "target").read_bytes() == b"precious"
    assert kind_of(lambda: write_new_private(tmp_path / "none" / "w", b"x")) == "store"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n", "target", "w"]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert kind_of(lambda: write_private(tmp_path / "folder", b"x")) == "store"
    assert kind_of(lambda: write_private(tmp_path / "none" / "w", b"x")) == "store"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_append_adds_and_refuses_what_is_not_a_file_of_ours(tmp_path: Path) -> None:
    for part in (b"one", b"two"):
        with open_private_append(tmp_path / "a") as file:
            file.write(part)
    assert (tmp_path / "a").read_bytes() == b"onetwo"
    (tmp_path / "link").symlink_to("a")
    os.link(tmp_path / "a", tmp_path / "hard")
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        for name in ("link", "hard", "fifo"):
            assert kind_of(lambda name=name: open_private_append(tmp_path / name)) == "store"
    finally:
        os.close(reader)
    assert kind_of(lambda: open_private_append(tmp_path / "fifo")) == "store"  # no reader: must not block
    assert (tmp_path / "a").read_bytes() == b"onetwo"


def test_create_exclusive_never_touches_what_is_there(tmp_path: Path) -> None:
    assert create_exclusive(tmp_path, "AGENTS.md", "be kind ü\n").read_text() == "be kind ü\n"
    (tmp_path / "link").symlink_to("planted")
    assert kind_of(lambda: create_exclusive(tmp_path, "AGENTS.md", "x")) == "exists"
    assert kind_of(lambda: create_exclusive(tmp_path, "link", "x")) == "exists"
    assert not (tmp_path / "planted").exists()
    for name in ("", ".", "..", "a/b", "/etc/x", "a\0"):
        assert kind_of(lambda name=name: create_exclusive(tmp_path, name, "x")) == "bad_request"


def test_turn_folders_are_below_the_store_whatever_the_ids(tmp_path: Path) -> None:
    folder = turn_folder(tmp_path / "s", "k3", "t1")
    assert folder == turn_folder(tmp_path / "s", "k3", "t1") == tmp_path / "s" / "sessions" / "k3" / "t1"
    assert kind_of(lambda: turn_folder(tmp_path / "s", "..", "t1")) == "bad_request"
    assert kind_of(lambda: turn_folder(tmp_path / "s", "k3", "a/../../x")) == "bad_request"
