"""For all tests: signals as a terminal has them, examples that are the same in every run, and switches.

OSTLER_TEST_NO_SKIP (CI): a skip is a failure, unless needs.py blames the machine.
OSTLER_TEST_EXPLORE: hypothesis looks for new examples.
OSTLER_TEST_QUICK (`make quick`): what starts a process or a server is a failure.
"""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from needs import NOT_QUICK, may_be_skipped, refuse_starts, refused, require
from prefork import quick_starts

pytest_plugins = ["side_by_side"]

# A slow machine is no failure, and whoever runs the tests first must not be the one who finds a rare example.
SAME = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}
settings.register_profile("same", derandomize=True, database=None, max_examples=40, **SAME)
settings.register_profile("explore", **SAME)
settings.load_profile("explore" if os.environ.get("OSTLER_TEST_EXPLORE") else "same")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(name): is skipped where the machine lacks that; see needs.py")
    config.addinivalue_line("markers", "core: what a change breaks first, of tests that take long: the page, real CLIs")
    config.addinivalue_line("markers", "long: in `make test-long`: a flood, many kills, the page beyond its core")
    config.addinivalue_line("markers", "postgres: in `make test-long`, too: machines that have joined each other")
    # Started in the background of a shell, everything would ignore Ctrl-C, and hand that on to its children.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Seven thousand tests and all that they import are no garbage: no collection looks at them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


PAGE, FAULTS = Path(__file__).parent / "browser", Path(__file__).parent / "faults"
COMPUTING = {"agents", "model", "render", "settings", "store"}  # folders whose tests hardly wait for anything


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by what is marked here
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that wait come first, those of each folder spread out; so workers neither all compute nor all wait.

    Machines with a Postgres wait longest and begin. What computes is left for the end, when a worker would else be the
    only one that still has something to do.
    """
    for item in items:
        needed = {name for mark in item.iter_markers("needs") for name in mark.args}
        if "postgres" in (needed | set(getattr(item, "fixturenames", ()))):
            item.add_marker("postgres")
        beyond_core = item.path.is_relative_to(PAGE) and not item.get_closest_marker("core")
        if beyond_core or item.path.is_relative_to(FAULTS):
            item.add_marker("long")
    with_postgres = {item.path for item in items if item.get_closest_marker("postgres")}
    folders: dict[str, list[Path]] = {}  # "browser", "work" … with their files
    for path in dict.fromkeys(item.path for item in items):
        folders.setdefault(path.relative_to(Path(__file__).parent).parts[0], []).append(path)
    place = {
        path: (path not in with_postgres, name in COMPUTING, number / len(files))
        for name, files in folders.items()
        for number, path in enumerate(files)
    }
    items.sort(key=lambda item: place[item.path])


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        require(*mark.args)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    wrong = [report for report in skipped if not may_be_skipped(_reason(report))]
    if os.environ.get("OSTLER_TEST_NO_SKIP") and wrong and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        for report in wrong:
            reporter.write_line(f"skipped where nothing may be: {report.nodeid}: {_reason(report)}", red=True)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    _, _, said = report.longrepr  # the file, the line, and "Skipped: …"
    return str(said).removeprefix("Skipped: ")


@pytest.fixture(scope="module", autouse=True)
def parts() -> Iterator[None]:
    """Wardens, scripted agents and screen processes start at once, but where their very start is tested."""
    with quick_starts():
        yield


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a disk of so many megabytes, for the test; the folder that it is."""
    require("mount")
    folders: list[Path] = []

    def mount(megabytes: int) -> Path:
        folder = tmp_path / f"disk-{len(folders)}"
        folder.mkdir()
        options = f"size={megabytes}m,mode=0700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "ostler-test", folder], check=True)
        folders.append(folder)
        return folder

    yield mount
    for folder in folders:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture(scope="session", autouse=True)
def quick() -> None:
    if os.environ.get("OSTLER_TEST_QUICK"):
        sys.addaudithook(refuse_starts)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In `make quick` a test is skipped that wanted to start something, whatever became of that."""
    report = yield
    if refused and report.failed:
        report.outcome = "skipped"
    if report.skipped and (refused or NOT_QUICK in str(report.longrepr)):
        report.longrepr = (__file__, 0, NOT_QUICK)  # one line for all of them
    if report.when == "teardown":
        refused.clear()
    return report
