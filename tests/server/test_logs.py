"""The log of a server: whatever strangers do, it does not grow with it."""

import io
import logging
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ostler.logs import LineFormatter, LogStream
from ostler.server.logs import BURST, EVERY, EachPlaceSeldom
from ostler.testing import Clock


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(out: io.StringIO) -> logging.Logger:
    made = logging.Logger("test")
    handler = LogStream(out)
    handler.addFilter(EachPlaceSeldom())
    handler.setFormatter(LineFormatter("%(message)s"))
    made.addHandler(handler)
    return made


def test_one_place_is_heard_so_often_and_no_more(log: logging.Logger, out: io.StringIO) -> None:
    for n in range(10_000):
        log.error("this failed: %d", n)
    log.error("another place is heard")
    assert out.getvalue().splitlines() == [*(f"this failed: {n}" for n in range(BURST)), "another place is heard"]


async def test_what_was_left_out_is_counted(log: logging.Logger, out: io.StringIO, clock: Clock) -> None:
    for n in range(100):
        if n == 90:
            await clock.turn(EVERY)
        log.error("n")
    lines = out.getvalue().splitlines()
    assert lines == [*["n"] * BURST, "n", f"({90 - BURST} more like this were left out)"]


def test_what_somebody_asked_for_is_heard_as_often_as_it_comes(log: logging.Logger, out: io.StringIO) -> None:
    for n in range(2 * BURST):
        log.debug("n is %d", n)
    assert out.getvalue().splitlines() == [f"n is {n}" for n in range(2 * BURST)]


def test_stdout_and_stderr_of_a_detached_server_move_on_with_its_log(tmp_path: Path) -> None:
    """After a rotation they would go on in a file that the next one removes."""
    script = (
        "import logging, os, sys\n"
        "from ostler import logs\n"
        "from ostler.server.logs import ServerLogFile\n"
        "logs.FILE_BYTES = 200\n"
        "handler = ServerLogFile(sys.argv[1])\n"
        "log = logging.Logger('test')\n"
        "log.addHandler(handler)\n"
        "for n in range(12): log.error('%s %d', 'x' * 100, n)\n"
        "os.write(1, b'from stdout\\n'); os.write(2, b'from stderr\\n')\n"
    )
    log = tmp_path / "server.log"
    subprocess.run([sys.executable, "-c", script, str(log)], check=True)
    lines = log.read_text().splitlines()
    assert lines[-2:] == ["from stdout", "from stderr"] and lines[0].endswith(" 11")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["server.log", "server.log.1", "server.log.2"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
