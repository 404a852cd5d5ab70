"""Paths that an agent names: none of them leads out of its folder, not even while somebody moves the links."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.model import Turn
from ostler.work.dialogs.call_files import CallFiles

SECRET = "what lies outside"
TRIES = 100_000 if os.environ.get("OSTLER_TEST_EXPLORE") else 15_000  # each takes two cores: ours, and one that flips


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return project(tmp_path)


def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "inside").write_text("inside")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text(SECRET)
    beside = tmp_path / "project-beside"
    beside.mkdir()
    (beside / "secret").write_text(SECRET)
    return made


def files_of(folder: Path) -> CallFiles:
    return CallFiles(Turn(id="s-1", session="s", agent="script", prompt="x", folder=str(folder), access="full"))


def kinds(folder: Path, path: str) -> set[str]:
    """How reading and writing it are refused; `served` if one of them is not."""
    found = set()
    files = files_of(folder)
    for call, params in ((files.read, {}), (files.write, {"content": "overwritten"})):
        try:
            call({"path": path, **params})
            found.add("served")
        except OstlerError as error:
            found.add(error.kind)
    return found


def untouched(folder: Path) -> bool:
    outside = {path.name: path.read_text() for path in (folder.parent / "outside").iterdir()}
    beside = {path.name: path.read_text() for path in (folder.parent / "project-beside").iterdir()}
    return outside == beside == {"secret": SECRET}


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret",
        "inside/../../outside/secret",
        "a/b/../../../outside/secret",
        "{folder}/../outside/secret",
        "{folder}/./.././outside/secret",
        "{parent}/outside/secret",
        "{parent}/outside/made",
        "{folder}-beside/secret",
        "{parent}//project-beside/secret",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/pyproject.toml",
        "/proc/self/environ",
        "/dev/zero",
        "/",
        "~/x/../../../../../../etc/passwd",
        "inside\0/../../outside/secret",
    ],
)
def test_a_path_that_leads_out(folder: Path, path: str) -> None:
    named = path.format(folder=folder, parent=folder.parent)
    assert kinds(folder, named) <= {"denied", "bad_request", "not_found"}
    assert untouched(folder)


@pytest.mark.parametrize(
    "target",
    ["../outside/secret", "../outside/made", "{parent}/outside/secret", "/proc/self/root", "link", "../project-beside"],
)
def test_a_link_that_leads_out(folder: Path, target: str) -> None:
    (folder / "link").symlink_to(target.format(parent=folder.parent))
    for path in ("link", "link/secret", "link/made", "link/etc/passwd"):
        assert kinds(folder, str(folder / path)) <= {"denied", "bad_request"}, path
    assert untouched(folder)
    assert (folder / "link").is_symlink()


def test_a_link_to_a_link_that_leads_out(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "second").symlink_to("../../outside/secret")
    (folder / "first").symlink_to("sub/second")
    assert kinds(folder, "first") == {"denied"}
    assert untouched(folder)


def test_what_is_no_file_does_not_block(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    heard = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(folder)  # the name of a socket is short
    try:
        heard.bind("socket")
    finally:
        os.chdir(here)
        heard.close()
    assert kinds(folder, "fifo") == {"denied"}
    assert kinds(folder, "socket") == {"denied"}
    if os.geteuid() == 0:
        try:
            os.mknod(folder / "zero", 0o020666, os.makedev(1, 5))
        except OSError:
            return
        assert kinds(folder, "zero") <= {"denied"}


def test_a_hard_link_is_cut_off_not_written_through(folder: Path) -> None:
    os.link(folder.parent / "outside" / "secret", folder / "hard")
    files_of(folder).write({"path": "hard", "content": "mine"})
    assert (folder / "hard").read_text() == "mine"
    assert untouched(folder)


FLIPPER = """
import os, shutil, sys
os.chdir(sys.argv[1])
os.mkdir("real")
open("real/secret", "w").write("inside")
os.symlink("real", "dir")
os.symlink("real/secret", "file")
print("ready", flush=True)
while os.getppid() == int(sys.argv[2]):
    for target in ("../outside", "real"):
        os.symlink(f"{target}/secret", "draft")  # a file that is out, then in
        os.rename("draft", "file")
        os.symlink(target, "draft")  # a folder likewise
        try:
            os.rename("draft", "dir")
        except OSError:  # a write has made a real one meanwhile
            shutil.rmtree("dir", ignore_errors=True)
            os.unlink("draft")
    if os.path.islink("dir"):
        os.unlink("dir")
"""


@pytest.fixture
def flipped(tmp_path: Path) -> Iterator[Path]:
    """A folder, while another process turns its links around as fast as it can."""
    memory = "/dev/shm"  # a disk makes each of some ten thousand renames wait
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as base:
        yield from flipping(project(Path(base)))


def flipping(folder: Path) -> Iterator[Path]:
    argv = [sys.executable, "-c", FLIPPER, str(folder), str(os.getpid())]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as flipper:
        assert flipper.stdout is not None
        assert flipper.stdout.readline() == b"ready\n"
        try:
            yield folder
            assert flipper.poll() is None, "it stopped turning them"
        finally:
            flipper.kill()


def test_no_escape_while_links_are_turned_around(flipped: Path) -> None:
    files = files_of(flipped)
    outcomes: dict[str, int] = {}
    for number in range(TRIES):
        path = ("dir/secret", "file")[number % 2 ^ number % 20 // 10]
        try:
            if number % 10 < 9:
                outcome = files.read({"path": path})["content"]
            else:
                files.write({"path": path, "content": "mine"})
                outcome = "written"
        except OstlerError as error:
            outcome = error.kind
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert SECRET not in outcomes
    assert untouched(flipped)
    assert outcomes.get("denied", 0) > 100, outcomes  # it did lead out, often
    assert outcomes.get("written", 0) > 100, outcomes  # and it did lead in
    assert outcomes.get("inside", 0) + outcomes.get("mine", 0) > 100, outcomes
