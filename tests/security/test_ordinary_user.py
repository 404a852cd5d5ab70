"""Walls hold without any privilege: their core tests once more as an ordinary user, where we are root."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
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
# An interpreter that lies in root's own home is nobody else's: for these processes alone, that home has nothing but it.
REACHABLE = """
mkdir {home}/python && mount --bind {python} {home}/python && mount -t tmpfs -o mode=755 none {closed} &&
mkdir -p {python} && mount --bind {home}/python {python} && exec "$@"
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of that user's own, which it can reach."""
    folder = Path(tempfile.mkdtemp(prefix="ostler-nobody-", dir="/tmp"))
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def reaching_python(home: Path) -> list[str]:
    """What has to stand before a command, so that another user can start our interpreter in it."""
    python = Path(sys.base_prefix)
    closed = [folder for folder in reversed(python.parents) if not folder.stat().st_mode & 0o001]
    if not closed:
        return []
    require("mount")
    quoted = {"home": home, "python": python, "closed": closed[0]}
    line = REACHABLE.format(**{name: shlex.quote(str(path)) for name, path in quoted.items()})
    return ["unshare", "--mount", "sh", "-c", line, "sh"]


def test_as_an_ordinary_user(home: Path) -> None:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    options = ("-q", "-p", "no:cacheprovider", "-n0", f"--basetemp={home}/t", f"--rootdir={TESTS.parent}")
    code = f"import os, sys, pytest; assert os.getuid() == {NOBODY}; sys.exit(pytest.main(sys.argv[1:]))"
    tests = (str(TESTS / name) for name in CORE)
    argv = [*reaching_python(home), *AS_NOBODY, sys.executable, "-c", code, *options, *tests]
    done = subprocess.run(argv, cwd=TESTS.parent, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{3 + 1 + 1 + 1} passed" in done.stdout, done.stdout
