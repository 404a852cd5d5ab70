"""`--workers 6`: the tests run in so many processes, which are forked once everything is imported and collected.

Workers of pytest-xdist each import and collect all nine thousand tests: seven seconds of CPU for every one of them, and
half a minute before the first test begins. Here that is done once. A file goes to whoever is free next, in the order of
the collection; what is marked `together(name)` counts as one file.
"""

import io
import os
import pickle
import signal
import sys
import tempfile
import traceback
import warnings
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest

EACH = 4  # bytes that the number of a file takes in the queue


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--workers", type=int, default=0, help="run the tests in so many processes, forked after collection"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "together(name): run by one worker, one after the other, though in several files"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    count = session.config.getoption("workers")
    if count < 1 or session.testsfailed or session.config.option.collectonly:
        return None  # pytest's own loop
    Workers(session, count).run()
    return True


def files_of(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """What one worker runs at a time."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("together")
        files.setdefault(mark.args[0] if mark else str(item.path), []).append(item)
    return list(files.values())


class Workers:
    """The workers, seen from the process that tells how their tests went."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        self._session = session
        self._hook = session.config.hook
        self._files = files_of(session.items)
        self._queue, numbers = os.pipe()
        with open(numbers, "wb") as queue:
            assert len(self._files) * EACH <= 1 << 16, "more than a pipe holds"
            for number in range(len(self._files)):
                queue.write(number.to_bytes(EACH, "big"))
        self._folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        self._started = 0
        self._running: dict[Connection, Worker] = {}
        for _ in range(count):
            self._fork()

    def run(self) -> None:
        """To the end of the tests; none of the workers is left then."""
        try:
            while self._running:
                for results in wait(list(self._running)):
                    self._receive(results)  # type: ignore[arg-type]
                    self._stop_if_wished()
        finally:
            for worker in self._running.values():
                os.kill(worker.pid, signal.SIGKILL)  # what it started ends with it
                os.waitpid(worker.pid, 0)
            os.close(self._queue)

    def _fork(self) -> None:
        results, sender = Pipe(duplex=False)
        sys.stdout.flush()
        sys.stderr.flush()
        self._started += 1
        pid = os.fork()
        if pid == 0:
            try:
                results.close()
                work(self._session, self._files, self._queue, sender, self._folder / str(self._started))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        sender.close()
        self._running[results] = Worker(pid)

    def _receive(self, results: Connection) -> None:
        worker = self._running[results]
        try:
            kind, value = results.recv()
        except EOFError:
            self._gone(self._running.pop(results))
            return
        if kind == "file":
            worker.left += [item.nodeid for item in self._files[value]]
        elif kind == "report":
            report = self._hook.pytest_report_from_serializable(config=self._session.config, data=value)
            self._hook.pytest_runtest_logreport(report=report)
        elif kind == "warning":
            self._hook.pytest_warning_recorded.call_historic(kwargs=value)
        else:
            nodeid, location = value
            worker.left.remove(nodeid)
            self._hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)

    def _gone(self, worker: "Worker") -> None:
        """What it still had to run is a failure, and another worker goes on with the other files."""
        code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if code == 0 and not worker.left:
            return
        unfinished = worker.left or ["the end of a worker"]
        for nodeid in unfinished:
            why = f"the worker that had this test ended with {code}; it ran {unfinished[0]}"
            where = (nodeid.partition("::")[0], None, nodeid)
            self._hook.pytest_runtest_logreport(report=pytest.TestReport(nodeid, where, {}, "failed", why, "call"))
        if worker.left:
            self._fork()

    def _stop_if_wished(self) -> None:
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)


class Worker:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.left: list[str] = []  # tests that it has taken and not run to their end


# -- in a worker ------------------------------------------------------------------------------------------


def work(session: pytest.Session, files: list[list[pytest.Item]], queue: int, sender: Connection, folder: Any) -> None:
    """Runs files of the queue until it is empty, and ends the process."""
    config = session.config
    for name in (each for each in os.environ if each.startswith("PYTEST_CURRENT_TEST")):
        del os.environ[name]
    own_captures(config)
    config.pluginmanager.getplugin("terminalreporter")._tw._file = open(os.devnull, "w")  # noqa: SIM115
    folder.mkdir(mode=0o700)
    config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
    config.pluginmanager.register(Reporter(sender, config))
    while number := os.read(queue, EACH):
        at = int.from_bytes(number, "big")
        sender.send(("file", at))
        following = [*files[at][1:], session]  # after a file nothing stays but what belongs to the session
        for item, next_item in zip(files[at], following, strict=True):
            config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
    session._setupstate.teardown_exact(None)
    sender.close()
    _exit()


def own_captures(config: pytest.Config) -> None:
    """What is printed goes to files that were opened before the fork: from here on to others of the same numbers."""
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.suspend(in_=True)
    for each in (capture._global_capturing.out, capture._global_capturing.err):
        with suppress(AttributeError, io.UnsupportedOperation), tempfile.TemporaryFile() as file:  # -s, --capture=sys
            os.dup2(file.fileno(), each.tmpfile.fileno())


def _exit() -> None:
    import atexit
    import threading

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    os._exit(0)


class Reporter:
    """Hands on what pytest reports in a worker."""

    def __init__(self, sender: Connection, config: pytest.Config) -> None:
        self._sender, self._config = sender, config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._sender.send(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        self._sender.send(("end", (nodeid, location)))

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        warning = {"warning_message": warning_message, "when": when, "nodeid": nodeid, "location": location}
        try:
            pickle.dumps(warning)
        except Exception:  # of a class that cannot be sent
            text = f"{warning_message.category.__name__}: {warning_message.message}"
            where = (warning_message.filename, warning_message.lineno)
            warning["warning_message"] = warnings.WarningMessage(UserWarning(text), UserWarning, *where)
        self._sender.send(("warning", warning))
