"""What a log of ostler holds: one line for each record, bounded, and never a secret."""

import io
import logging
import re
import stat
from pathlib import Path

import click
import pytest

from ostler import logs
from ostler.cli import cli
from ostler.errors import OstlerError
from ostler.logs import LEVELS, LONGEST, LineFormatter, LogFile, LogOptions, LogStream, log_options
from ostler.store import Redactor

CANARY = "canary-8f2d6b1e9a7c4d5f"


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(out: io.StringIO) -> logging.Logger:
    made = logging.Logger("ostler.test")
    handler = LogStream(out)
    handler.setFormatter(LineFormatter())
    made.addHandler(handler)
    return made


@pytest.mark.parametrize(
    "variable, level, file, asked",
    [
        ("", None, None, LogOptions()),
        ("debug", None, None, LogOptions("debug")),
        ("DEBUG", None, None, LogOptions("debug")),
        ("info:/tmp/a:b.log", None, None, LogOptions("info", "/tmp/a:b.log")),
        ("debug", "error", None, LogOptions("error")),
        ("debug:/x", "error", "/y", LogOptions("error", "/y")),
        (":/x", None, None, LogOptions("info", "/x")),
        ("", None, "/y", LogOptions("info", "/y")),
    ],
)
def test_what_was_asked_for(variable: str, level: str | None, file: str | None, asked: LogOptions) -> None:
    assert log_options(variable, level, file) == asked


def test_the_flag_has_the_same_levels() -> None:
    [flag] = [each for each in cli.params if each.name == "log_level"]
    assert isinstance(flag.type, click.Choice)
    assert tuple(flag.type.choices) == LEVELS


def test_a_level_that_does_not_exist() -> None:
    with pytest.raises(OstlerError) as raised:
        log_options("loud", None, None)
    assert (
        str(raised.value)
        == "OSTLER_LOG=loud is not a valid log level. Use one of debug, info, warning, error, or LEVEL:FILE"
    )


def test_a_line_has_time_process_level_and_module(log: logging.Logger, out: io.StringIO) -> None:
    log.warning("a %s", "stone")
    pattern = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \d+ WARNING ostler\.test: a stone\n"
    assert re.fullmatch(pattern, out.getvalue())


def test_no_secret_that_anybody_knows(log: logging.Logger, out: io.StringIO) -> None:
    redactor = Redactor([CANARY])
    log.info("with %s", CANARY)
    try:
        raise ValueError(f"the value is {CANARY}")
    except ValueError:
        log.exception("failed")
    assert CANARY not in out.getvalue() and out.getvalue().count("[redacted]") == 2
    del redactor


def test_a_record_is_one_line_and_acts_on_no_terminal(log: logging.Logger, out: io.StringIO) -> None:
    log.error("%s failed", "/\x1b]0;x\x07\n2026-01-01 ERROR a forged record")
    assert out.getvalue().endswith(": /\\x1b]0;x\\x07\\n2026-01-01 ERROR a forged record failed\n")
    assert out.getvalue().count("\n") == 1


def test_a_record_is_bounded(log: logging.Logger, out: io.StringIO) -> None:
    log.error("a" * 10 * LONGEST)
    assert len(out.getvalue()) < LONGEST + 100


def test_the_cause_of_a_traceback_is_kept(log: logging.Logger, out: io.StringIO) -> None:
    try:
        raise ValueError("x" * 3 * LONGEST + " the cause")
    except ValueError:
        log.exception("failed")
    assert len(out.getvalue()) < LONGEST + 100
    assert ": failed\nTraceback" in out.getvalue() and out.getvalue().endswith("the cause\n")


def test_a_file_is_private_and_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 1000)
    handler = LogFile(str(tmp_path / "ostler.log"))
    log = logging.Logger("ostler.test")
    log.addHandler(handler)
    for n in range(100):
        log.info("%s %d", "x" * 90, n)
    handler.close()
    found = sorted(tmp_path.iterdir())
    assert [path.name for path in found] == ["ostler.log", "ostler.log.1", "ostler.log.2"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
    assert all(path.stat().st_size <= 1000 for path in found)
    assert (tmp_path / "ostler.log").read_text().endswith(" 99\n")


def test_a_symlink_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "ostler.log").symlink_to(tmp_path / "precious")
    with pytest.raises(OstlerError):
        LogFile(str(tmp_path / "ostler.log"))
    assert (tmp_path / "precious").read_text() == "kept"
