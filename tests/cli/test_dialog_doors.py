"""`ostler run` and `ostler chat` with agents of the settings key `acp` that are none: one clear line, an exit code."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ostler.process import tree

AGENT = Path(__file__).parent.parent / "work" / "hostile_acp.py"
CHECK = "Check its command line, and its version"
BY_HAND = "Try its command by hand, or `ostler doctor`"
BROKEN: dict[str, tuple[list[str], int, str]] = {
    "gone": (
        ["no-such-program"],
        1,
        "`no-such-program` was not found or is not executable. Fix acp.mine in your settings",
    ),
    "quits": (["true"], 1, f"mine ended with exit code 0 before it was ready. {BY_HAND}"),
    "banner": (
        ["sh", "-c", "echo Welcome"],
        1,
        f"mine is not an ACP agent: it printed 'Welcome' and ended with exit code 0. {CHECK}",
    ),
    "echo": (["cat"], 1, f"mine is not an ACP agent: it only echoes its input. {CHECK}"),
    "mute": (["sleep", "1000"], 124, f"mine did not open a dialog within 0.5 s. {BY_HAND}"),
    "version-2": ([], 1, "mine speaks version 2 of ACP, ostler speaks version 1. Update mine or ostler"),
    "needs-login": ([], 1, "mine needs a login: Authentication required. Run `friendly login`"),
}


@pytest.fixture
def broken(shell: Any, request: pytest.FixtureRequest) -> tuple[Any, int, str]:
    """A shell whose settings name a broken agent; how it ends, and what is said."""
    command, code, line = BROKEN[request.param]
    command = command or [sys.executable, "-I", "-S", str(AGENT), request.param]
    shell.environ.pop("OSTLER_ONLY")
    shell.toml(f'access = "full"\n[limits]\nfirst_record = 0.5\n[acp]\nmine = {json.dumps(command)}\n')
    return shell, code, line


every = pytest.mark.parametrize("broken", BROKEN, indirect=True)


@every
def test_run(broken: tuple[Any, int, str]) -> None:
    shell, code, line = broken
    ran = shell("run", "mine", "hello", "--quiet")
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", f"ostler: {line}\n")


@every
def test_chat(broken: tuple[Any, int, str]) -> None:
    """Each prompt is told the same; nothing is left running."""
    shell, code, line = broken
    ran = shell("chat", "mine", stdin=b"hello\nagain\n")
    assert ran.returncode == code
    told = " ".join((ran.stdout + ran.stderr).split())
    assert all(part in told for part in line.split(". "))
    assert "Traceback" not in told
    sessions = json.loads(shell("sessions", "--json").stdout)
    assert [tree.marked(each["id"]) for each in sessions] == [[]] * len(sessions)


@pytest.mark.parametrize(
    ("toml", "code", "complaint"),
    [
        ("acp = 5", 2, "acp: expected a table"),
        ("[acp]\nmine = []", 2, "acp.mine: a command needs a program"),
        ('[acp]\nmine = [""]', 2, "acp.mine: a command needs a program"),
        ("[acp]\nmine = [5]", 2, "acp.mine"),
        ('[acp]\n"my agent" = ["cat"]', 2, "cannot be the name of an agent"),
        ('[acp]\nclaude = ["cat"]', 1, "there is already an agent named 'claude'. Choose another name"),
        ('walls = "off"\n[acp]\nmine = ["cat"]', 1, "mine cannot promise --access read"),
    ],
)
def test_settings_that_cannot_be(shell: Any, toml: str, code: int, complaint: str) -> None:
    shell.environ.pop("OSTLER_ONLY")
    shell.toml(toml + "\n")
    ran = shell("run", "mine", "hello")
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (code, "", 1)
    assert complaint in ran.stderr


def test_the_doctor_names_the_program_that_is_missing(shell: Any) -> None:
    shell.environ.pop("OSTLER_ONLY")
    shell.toml('[acp]\nmine = ["no-such-program"]\n')
    assert "`no-such-program` is not on PATH" in shell("doctor", "mine").stdout


def test_its_name_alone_is_no_prompt(shell: Any) -> None:
    shell.environ.pop("OSTLER_ONLY")
    command = [sys.executable, "-P", "-m", "ostler.testing.agent", "--acp"]
    shell.toml(f'access = "full"\n[acp]\nmine = {json.dumps(command)}\n')
    ran = shell("run", "mine", "--quiet", stdin=b"[[say:hello]]")
    assert (ran.returncode, ran.stdout) == (0, "hello\n")
