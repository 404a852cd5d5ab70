"""Skips are decided in one place, and CI takes only those that the machine itself is to blame for."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from needs import NEEDS, NOT_QUICK, may_be_skipped

TESTS = Path(__file__).parent
CASES = """
import pytest
from needs import NEEDS, needs

@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in {names!r}])
def test(name): raise AssertionError

def test_that_passes(): pass
"""

STARTING = """
import contextlib, socket, subprocess
import pytest

@pytest.fixture(scope="module")
def program(): return subprocess.Popen(["true"])

def test_a_program(program): pass

def test_the_same_again(program): pass

def test_a_server():
    with socket.socket() as sock: sock.bind(("127.0.0.1", 0))

def test_what_swallows_the_refusal():
    with contextlib.suppress(BaseException): subprocess.run(["true"])
    raise AssertionError

def test_that_passes(): pass
"""


def test_no_test_decides_for_itself_what_may_be_missing() -> None:
    skips = re.compile(r"(?:pytest|mark)\.(?:skip|importorskip|xfail)|unittest\.skip|SkipTest")
    files = [path for path in TESTS.rglob("*.py") if path.name not in ("needs.py", "test_needs.py")]
    assert [str(path) for path in files if skips.search(path.read_text())] == []


def test_only_what_the_machine_lacks_may_be_skipped_in_ci() -> None:
    allowed = {name for name, need in NEEDS.items() if may_be_skipped(need.reason)}
    assert allowed == {"root", "mount", "networks", "loopback", "cgroup", "landlock", "openat2"}
    assert not may_be_skipped("it lists them itself")


@pytest.mark.parametrize(("names", "code"), [(["mount", "cgroup"], 0), (["mount", "tmux"], 1)])
def test_a_run_of_ci_fails_by_any_other_skip(names: list[str], code: int, tmp_path: Path) -> None:
    """Whatever is here: all needs are made unmet."""
    done = run_cases(CASES.format(names=names), tmp_path, "OSTLER_TEST_NO_SKIP")
    assert (done.returncode, "1 passed, 2 skipped" in done.stdout) == (code, True), done.stdout + done.stderr
    wrong = [name for name in names if f"skipped where nothing may be: test_cases.py::test[{name}]" in done.stdout]
    assert wrong == (["tmux"] if code else [])


def test_what_starts_something_is_skipped_in_make_quick(tmp_path: Path) -> None:
    done = run_cases(STARTING, tmp_path, "OSTLER_TEST_QUICK")
    assert "1 passed, 4 skipped" in done.stdout, done.stdout + done.stderr
    assert re.search(rf"SKIPPED \[4\] .*{NOT_QUICK}", done.stdout), "one line for all"


def run_cases(text: str, folder: Path, mode: str) -> "subprocess.CompletedProcess[str]":
    """pytest in a folder with these cases and our hooks, where no need is met."""
    (folder / "test_cases.py").write_text(text)
    (folder / "conftest.py").write_text("import needs\nneeds.is_met = lambda name: False\nfrom hooks import *\n")
    (folder / "hooks.py").write_text((TESTS / "conftest.py").read_text())
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "-c", "/dev/null", str(folder)],
        env={"PYTHONPATH": f"{TESTS}:{folder}", mode: "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
