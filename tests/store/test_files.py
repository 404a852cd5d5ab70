"""Private files, and paths from outside that must stay inside."""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.store import files
from ostler.store.files import (
    create_exclusive,
    free_bytes,
    open_beneath,
    open_private_append,
    private_folder,
    turn_folder,
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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
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


def test_free_bytes_also_of_what_does_not_exist_yet(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    assert 0 < free_bytes(tmp_path / "not" / "yet") <= found.f_blocks * found.f_frsize


# -- open_beneath -----------------------------------------------------------------------------------


@pytest.fixture(params=["openat2", "walk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of opening; the second is for systems without openat2."""
    if request.param == "openat2" and not files._has_openat2():
        pytest.skip("this kernel or sandbox has no openat2")
    if request.param == "walk":
        monkeypatch.setattr(files, "_found_openat2", False)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "in.txt").write_text("inside")
    (tmp_path / "ws-evil").mkdir()
    for secret in (tmp_path / "secret.txt", tmp_path / "ws-evil" / "secret.txt"):
        secret.write_text("outside")
    return root


def read(root: Path, path: str) -> str:
    fd = open_beneath(root, path)
    with os.fdopen(fd) as file:
        return file.read()


def test_what_is_inside_opens(root: Path, way: str) -> None:
    assert read(root, "sub/in.txt") == read(root, "./sub//in.txt") == "inside"
    fd = open_beneath(root, "sub/new.txt", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, b"new")
    os.close(fd)
    assert ((root / "sub" / "new.txt").read_text(), mode(root / "sub" / "new.txt")) == ("new", "0o600")
    fd = open_beneath(root, "sub", os.O_RDONLY | os.O_DIRECTORY)
    assert sorted(os.listdir(fd)) == ["in.txt", "new.txt"]
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_what_is_outside_is_denied(root: Path, way: str) -> None:
    (root / "out").symlink_to("../secret.txt")
    (root / "absolute").symlink_to(root.parent / "secret.txt")
    (root / "up").symlink_to("..")
    (root / "dangling").symlink_to("../nowhere")
    (root / "loop").symlink_to("loop")
    (root / "proc").symlink_to(f"/proc/self/root{root.parent}/secret.txt")
    paths = ["../secret.txt", "../ws-evil/secret.txt", "sub/../../secret.txt", str(root.parent / "secret.txt"), "/"]
    paths += [str(root / "sub" / "in.txt"), "/proc/self/root/etc/passwd"]
    paths += ["out", "absolute", "up/secret.txt", "dangling", "loop", "proc"]
    kinds = {path: kind_of(lambda path=path: open_beneath(root, path)) for path in paths}
    # The walk meets `up` as a folder that it may not follow.
    assert kinds == dict.fromkeys(paths, "denied") | ({"up/secret.txt": "bad_request"} if way == "walk" else {})
    assert kind_of(lambda: open_beneath(root, "dangling", os.O_WRONLY | os.O_CREAT)) == "denied"
    assert not (root.parent / "nowhere").exists()


def test_magic_links_are_denied(way: str) -> None:
    for path in ("self/root/etc/passwd", "self/cwd", f"self/fd/{os.open('/', os.O_RDONLY | os.O_CLOEXEC)}"):
        assert kind_of(lambda path=path: open_beneath("/proc", path)) in ("denied", "bad_request")
    os.close(int(path.rsplit("/", 1)[1]))


def test_an_inward_symlink_is_followed_where_the_kernel_can_promise_it(root: Path, way: str) -> None:
    (root / "inward").symlink_to("sub/in.txt")
    if way == "openat2":
        assert read(root, "inward") == "inside"
    else:
        assert kind_of(lambda: open_beneath(root, "inward")) == "denied"


def test_what_is_not_a_file_is_denied_and_never_blocks(root: Path, way: str) -> None:
    os.mkfifo(root / "fifo")
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        assert kind_of(lambda flags=flags: open_beneath(root, "fifo", flags)) == "denied"
    assert kind_of(lambda: open_beneath("/dev", "null")) == "denied"


@pytest.mark.parametrize(
    ("path", "kind"), [("", "bad_request"), ("a\0b", "bad_request"), ("none", "not_found"), ("x" * 300, "bad_request")]
)
def test_paths_that_cannot_be(root: Path, way: str, path: str, kind: str) -> None:
    assert kind_of(lambda: open_beneath(root, path)) == kind


def test_no_descriptor_is_leaked(root: Path, way: str) -> None:
    os.mkfifo(root / "fifo")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("fifo", "../secret.txt", "none", "sub/in.txt/x") * 20:
        kind_of(lambda path=path: open_beneath(root, path))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_symlink_that_flips_while_we_open_never_lets_us_out(root: Path, way: str) -> None:
    """`dir` is by turns a folder with a file and a symlink to the folder with the secret."""
    (root.parent / "away").mkdir()
    (root.parent / "away" / "f").write_text("outside")
    (root / "good").mkdir()
    (root / "good" / "f").write_text("inside")
    (root / "evil").symlink_to("../away")
    os.rename(root / "good", root / "dir")
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            os.rename(root / "dir", root / "good")
            os.rename(root / "evil", root / "dir")
            os.rename(root / "dir", root / "evil")
            os.rename(root / "good", root / "dir")

    flipper = threading.Thread(target=flip)
    flipper.start()
    seen = set()
    try:
        for _ in range(5_000):
            try:
                seen.add(read(root, "dir/f"))
            except OstlerError as error:
                seen.add(error.kind)
    finally:
        stop.set()
        flipper.join()
    assert "inside" in seen
    assert seen <= {"inside", "denied", "not_found", "bad_request"}
