"""For all tests: signals as a terminal has them; where OSTLER_TEST_NO_SKIP is set (CI), a skip is a failure."""

import os
import signal

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # Started in the background of a shell, everything would ignore Ctrl-C, and hand that on to its children.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if os.environ.get("OSTLER_TEST_NO_SKIP") and skipped and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        for report in skipped:
            reporter.write_line(f"skipped where nothing may be: {report.nodeid}", red=True)
