"""Tests in several workers: each is told once, whatever becomes of its worker."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
CONFTEST = f"""
import os, sys
sys.path.append({str(Path(__file__).parent)!r})
import pytest
pytest_plugins = ["side_by_side"]

@pytest.fixture(scope="session")
def begun(tmp_path_factory):
    open("sessions", "a").write(f"begun {{os.getpid()}}\\n")
    yield
    open("sessions", "a").write(f"ended {{os.getpid()}}\\n")

@pytest.fixture(scope="module")
def shared():
    open("modules", "a").write("begun\\n")
    yield
    open("modules", "a").write("ended\\n")
"""
PLAIN = """
def test_first(begun, shared, tmp_path): tmp_path.joinpath("own").touch()
def test_second(begun, shared, tmp_path): assert not tmp_path.joinpath("own").exists()
"""


def run(folder: Path, **files: str) -> tuple[int, str, dict[str, int]]:
    """The exit code, what is printed, and how many tests passed, failed …"""
    folder.joinpath("conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        folder.joinpath(f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir=.", "--basetemp=t", "--workers=2"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "."], cwd=folder, check=False, capture_output=True, text=True
    )
    last = done.stdout.rstrip().split("\n")[-1]
    return done.returncode, done.stdout, {what: int(count) for count, what in re.findall(r"(\d+) (\w+)", last)}


def test_what_is_shared_is_shared_by_a_file_and_by_a_worker(tmp_path: Path) -> None:
    code, told, counts = run(tmp_path, one=PLAIN, two=PLAIN, three=PLAIN, four=PLAIN)
    assert (code, counts) == (0, {"passed": 8}), told
    modules = tmp_path.joinpath("modules").read_text().split()
    assert sorted(modules) == ["begun"] * 4 + ["ended"] * 4
    sessions = tmp_path.joinpath("sessions").read_text().splitlines()
    pids = {line.split()[1] for line in sessions}
    assert 1 <= len(pids) <= 2 and len(sessions) == 2 * len(pids)


def test_failures_skips_and_warnings_are_told(tmp_path: Path) -> None:
    mixed = """
import sys, warnings
from _pytest.outcomes import Skipped
stderr = sys.stderr
class Odd(UserWarning):
    __reduce__ = None  # cannot be sent
def test_fails(): print("said before", file=stderr); assert {"a": 1} == {"a": 2}
def test_is_skipped(): raise Skipped("not here")
def test_warns(): warnings.warn(Odd("mind this"))
"""
    code, told, counts = run(tmp_path, mixed=mixed, plain=PLAIN)
    assert (code, counts) == (1, {"failed": 1, "passed": 3, "skipped": 1, "warning": 1}), told
    assert "assert {'a': 1} == {'a': 2}" in told and "said before" in told and "mind this" in told


def test_a_worker_that_dies_fails_its_tests_and_no_others(tmp_path: Path) -> None:
    deadly = """
import os, signal
def test_before(): pass
def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
def test_after(): pass
"""
    code, told, counts = run(tmp_path, deadly=deadly, one=PLAIN, two=PLAIN, three=PLAIN)
    assert (code, counts) == (1, {"failed": 2, "passed": 7}), told
    assert "ended with -9; it ran test_deadly.py::test_dies" in told


def test_what_is_marked_together_is_run_by_one_worker(tmp_path: Path) -> None:
    marked = """
import os, pytest
@pytest.mark.together("both")
def test_it(): open("pids", "a").write(f"{os.getpid()}\\n")
"""
    code, told, counts = run(tmp_path, one=marked, two=marked, three=marked)
    assert (code, counts) == (0, {"passed": 3}), told
    assert len({*tmp_path.joinpath("pids").read_text().split()}) == 1
