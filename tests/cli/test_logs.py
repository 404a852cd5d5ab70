"""`--log-level`, `--log-file` and `OSTLER_LOG` as a user has them."""

import re
import stat
from pathlib import Path

import pytest

from cli.conftest import Shell
from cli.in_pty import InPty

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \d+ (DEBUG|INFO) +ostler[\w.]*: .+")
PROMPT = "[[say:hello]] and keep this to yourself"


def test_nothing_is_logged_unless_it_is_asked_for(shell: Shell) -> None:
    ran = shell("run", "script", PROMPT, "--quiet")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "hello\n", "")


@pytest.mark.parametrize("by", ["flag", "variable"])
def test_a_turn_from_launch_to_end(shell: Shell, by: str) -> None:
    flags = ("--log-level", "debug") if by == "flag" else ()
    env = {"OSTLER_LOG": "debug"} if by == "variable" else {}
    ran = shell(*flags, "run", "claude", PROMPT, "--quiet", "--access=write", env=env)
    assert (ran.returncode, ran.stdout) == (0, "hello\n")
    lines = ran.stderr.splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    said = "\n".join(line.split(": ", 1)[1] for line in lines)
    assert re.search(rf"^turn (\S+): claude, served by script, in {shell.folder}, access write, by pipe$", said, re.M)
    assert re.search(r"^turn \S+: launching \S*python\S* -IS \S+/testing/agent\.py --access=write ", said, re.M)
    assert re.search(r"^turn \S+: limits first_record 90, ", said, re.M)
    assert re.search(rf"^started \S*python\S* \(pid \d+\) in {shell.folder}$", said, re.M)
    assert re.search(r"^turn \S+: the first record came after [\d.]+ s$", said, re.M)
    assert re.search(r"^pid \d+ ended by exit code 0$", said, re.M)
    assert re.search(r"^turn \S+: done after [\d.]+ s$", said, re.M)
    assert "yourself" not in ran.stderr


def test_a_turn_in_an_agents_own_screen(shell: Shell) -> None:
    """What was waited for, and what came: whoever asks why it takes so long finds it here."""
    ran = shell("--log-level", "debug", "run", "script", PROMPT, "--transport=pty", "--quiet")
    assert (ran.returncode, ran.stdout) == (0, "hello\n")
    said = [line.split(": ", 1)[1] for line in ran.stderr.splitlines()]
    told = [re.sub(r"^turn \S+: ", "", line) for line in said if line.startswith("turn ")]
    steps = [
        "the empty input box of script is waited for",
        r"script is ready after [\d.]+ s",
        "its prompt is accepted",
        "its prompt is echoed",
        "its prompt is submitted",
        "its prompt is acknowledged by .+",
        "its end is waited for",
        "done by .+",
        r"done after [\d.]+ s",
    ]
    assert re.search(r"\n(.*\n)*".join(f"^{step}$" for step in steps), "\n".join(told), re.M), told
    assert "yourself" not in ran.stderr


def test_a_level_leaves_out_what_is_below_it(shell: Shell) -> None:
    ran = shell("--log-level", "info", "run", "script", "[[fail:unauthenticated]]", "--quiet")
    assert ran.returncode == 1
    assert {found[1] for line in ran.stderr.splitlines() if (found := LINE.fullmatch(line))} == {"INFO"}
    assert re.search(r": turn \S+: failed \(unauthenticated: .+\) after", ran.stderr)


def test_a_file_of_ones_own(shell: Shell) -> None:
    for args, env in ((("--log-file", "mine.log"), {}), ((), {"OSTLER_LOG": "info:mine.log"})):
        ran = shell(*args, "run", "script", PROMPT, "--quiet", env=env)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "hello\n", "")
        log = shell.folder / "mine.log"
        assert "done after" in log.read_text() and stat.S_IMODE(log.stat().st_mode) == 0o600
        log.unlink()


@pytest.mark.parametrize(
    "args, env, words",
    [
        (("--log-level", "loud"), {}, "'loud' is not one of 'debug', 'info', 'warning', 'error'"),
        (
            (),
            {"OSTLER_LOG": "loud"},
            "OSTLER_LOG=loud is not a valid log level. Use one of debug, info, warning",
        ),
    ],
)
def test_a_wrong_level_is_told(shell: Shell, args: tuple[str, ...], env: dict[str, str], words: str) -> None:
    ran = shell(*args, "agents", env=env)
    assert (ran.returncode, ran.stdout) == (2, "") and words in ran.stderr


def test_a_file_that_cannot_be_written_is_told(shell: Shell) -> None:
    ran = shell("--log-file", "no/such/folder", "agents")
    assert (ran.returncode, ran.stdout) == (1, "") and "no/such/folder" in ran.stderr


def test_a_live_view_is_not_garbled(shell: Shell) -> None:
    """At a terminal the log goes to a file, and the user is told where that is."""
    args = ["--log-level", "debug", "run", "script", PROMPT]
    pty = InPty(args, cwd=shell.folder, env=shell.environ, cols=120)
    try:
        assert pty.end() == 0
        log = shell.home / ".local/state/ostler/ostler.log"
        assert pty.screen()[0] == f"note: the log is written to {log}"[:120]
        assert b"DEBUG" not in pty.all and b"hello" in pty.all
        assert "done after" in log.read_text()
    finally:
        pty.close()


def test_a_command_that_draws_nothing_logs_to_the_terminal(shell: Shell, tmp_path: Path) -> None:
    pty = InPty(["--log-level", "debug", "sessions"], cwd=shell.folder, env=shell.environ, cols=200)
    try:
        assert pty.end() == 0
        assert b"logs at level debug" in pty.all
    finally:
        pty.close()
