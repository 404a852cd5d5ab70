"""Paths from outside that must stay inside a folder."""

import errno
import os
import resource
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from needs import needs
from ostler.errors import OstlerError
from ostler.store import beneath
from ostler.store.beneath import open_beneath


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.lstat().st_mode))


def kind_of(call: Callable[[], object]) -> str:
    with pytest.raises(OstlerError) as caught:
        call()
    return caught.value.kind


@pytest.fixture(params=[pytest.param("openat2", marks=needs("openat2")), "walk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of opening; the second is for systems without openat2."""
    if request.param == "walk":
        monkeypatch.setattr(beneath, "_found_openat2", False)
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


def test_a_machine_without_descriptors_is_nobodys_bad_request(root: Path, way: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(free := os.open(root, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, hard))  # enough for the folder, and not for what is in it
    try:
        kind = kind_of(lambda: open_beneath(root, "sub"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert kind == "too_many"


def test_a_walk_that_a_rename_always_raced_with_is_not_called_outside(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raced(*_: object) -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(beneath, "_open", raced)
    assert kind_of(lambda: open_beneath(root, "sub")) == "too_many"


def test_no_descriptor_is_leaked(root: Path, way: str) -> None:
    os.mkfifo(root / "fifo")
    before = set(os.listdir("/proc/self/fd"))
    for path in ("fifo", "../secret.txt", "none", "sub/in.txt/x") * 20:
        kind_of(lambda path=path: open_beneath(root, path))
    # Not the same: what an earlier test has dropped may be closed meanwhile.
    assert set(os.listdir("/proc/self/fd")) <= before


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
    assert seen <= {"inside", "denied", "not_found", "bad_request", "too_many"}
