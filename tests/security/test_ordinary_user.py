"""Walls hold without any privilege: their core tests once more as an ordinary user, where we are root."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from needs import needs, require

pytestmark = [needs("root"), needs("setpriv"), needs("landlock"), pytest.mark.timeout(300)]
NOBODY = 65534
TESTS = Path(__file__).parents[1]
CORE = (
    "security/test_walls.py::test_nothing_gets_out_of_a_wall",
    "security/test_walls.py::test_without_a_wall_the_same_gets_through",
    "work/test_walls.py::test_a_command_is_kept_to_its_access[pipes]",
    "work/test_walls.py::test_the_scripted_agent_is_kept_to_its_access_and_remembers[pipe]",
    "work/test_walls.py::test_the_doctor_builds_one",
)
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs")


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of that user's own, which it can reach."""
    folder = Path(tempfile.mkdtemp(prefix="ostler-nobody-", dir="/tmp"))
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def reaching(home: Path, *folders: Path) -> list[str]:
    """What has to stand before a command, so that another user can start what lies in these folders.

    What is in root's own home is nobody else's: for these processes alone, that home has nothing but them.
    """
    hidden = {folder: shut for folder in folders if (shut := closed_above(folder)) is not None}
    if not hidden:
        return []
    require("mount")
    kept = {folder: home / f"reached-{n}" for n, folder in enumerate(hidden)}
    lines = [f"mkdir {there} && mount --bind {quote(folder)} {there}" for folder, there in kept.items()]
    lines += [f"mount -t tmpfs -o mode=755 none {quote(shut)}" for shut in dict.fromkeys(hidden.values())]
    lines += [f"mkdir -p {quote(folder)} && mount --bind {there} {quote(folder)}" for folder, there in kept.items()]
    return ["unshare", "--mount", "sh", "-c", " && ".join((*lines, 'cd "$PWD" && exec "$@"')), "sh"]


def closed_above(folder: Path) -> Path | None:
    """The highest folder above it that others cannot enter."""
    return next((each for each in reversed(folder.parents) if not each.stat().st_mode & 0o001), None)


def quote(path: Path) -> str:
    return shlex.quote(str(path))


def run_as_nobody(home: Path, env: dict[str, str], options: Sequence[str], *reached: Path) -> str:
    """What pytest prints as that user; it has to pass."""
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **env}
    options = ("-q", "-p", "no:cacheprovider", f"--basetemp={home}/t", f"--rootdir={TESTS.parent}", *options)
    code = f"import os, sys, pytest; assert os.getuid() == {NOBODY}; sys.exit(pytest.main(sys.argv[1:]))"
    before = reaching(home, Path(sys.base_prefix), TESTS.parent, Path(sys.prefix), *reached)
    argv = [*before, *AS_NOBODY, sys.executable, "-c", code, *options]
    done = subprocess.run(argv, cwd=TESTS.parent, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_as_an_ordinary_user(home: Path) -> None:
    said = run_as_nobody(home, {}, [str(TESTS / name) for name in CORE])
    assert f"{3 + 1 + 1 + 1} passed" in said, said
