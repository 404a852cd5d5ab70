"""Bad input on the command line: one clear line, the right exit code, nothing left behind."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from cli.conftest import Shell
from ostler.cli.asking import environment_of, who_and_prompt
from ostler.cli.exec import argv_of
from ostler.errors import OstlerError

PIPELINE_HELP = " See: ostler pipeline run --help"
RUN_HELP = " See: ostler run --help"


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("rnu",), "there is no command 'rnu'. Did you mean run? See: ostler --help"),
        (("fix",), "there is no command 'fix'. To run a turn: ostler run claude \"fix …\". See: ostler --help"),
        (("--nope",), "No such option '--nope'. See: ostler --help"),
        (
            ("run", "--acces", "x"),
            "No such option '--acces'. (Did you mean one of: '--access', '--name'?)" + RUN_HELP,
        ),
        (("run", "--fallbck", "x"), "No such option '--fallbck'. Did you mean '--fallback'?" + RUN_HELP),
        (
            ("run", "script", "hi", "--log-level", "debug"),
            "--log-level goes before the command: ostler --log-level=… run. See: ostler --help",
        ),
        (
            ("run", "claude", "fix", "it"),
            "3 words where an agent and a prompt were expected: put the prompt in quotes." + RUN_HELP,
        ),
        (("run", "--session", "a", "--continue", "x"), "--session and --continue cannot be used together." + RUN_HELP),
        (
            ("run", "--session", "a", "--agent-session", "b", "x"),
            "--session and --agent-session cannot be used together." + RUN_HELP,
        ),
        (
            ("run", "-c", "--agent-session", "b", "x"),
            "--continue and --agent-session cannot be used together." + RUN_HELP,
        ),
        (("run", "-s", "a", "--name", "b", "x"), "--session and --name cannot be used together." + RUN_HELP),
        (
            ("run", "--dialog", "--transport", "pty", "x"),
            "--dialog and --transport cannot be used together." + RUN_HELP,
        ),
        (
            ("run", "--transport", "pty", "--record", "f", "x"),
            "--record and --transport pty cannot be used together." + RUN_HELP,
        ),
        (("run", "--json", "--events", "x"), "--json and --events cannot be used together." + RUN_HELP),
        (("run", "--json", "-q", "x"), "--json and --quiet cannot be used together." + RUN_HELP),
        (("run", "-q", "-v", "x"), "--quiet and --verbose cannot be used together." + RUN_HELP),
        (
            ("run", "--system", "a", "--system-file", "b", "x"),
            "--system and --system-file cannot be used together." + RUN_HELP,
        ),
        (
            ("run", "--allow-tool", "Bash", "--deny-tool", "Bash", "x"),
            "the tool Bash is both allowed and denied." + RUN_HELP,
        ),
        (("run", "--session", "", "x"), "--session is empty." + RUN_HELP),
        (
            ("run", "--access", "all", "x"),
            "Invalid value for '-a' / '--access': 'all' is not one of 'read', 'write', 'full'." + RUN_HELP,
        ),
        (
            ("run", "--timeout", "soon", "x"),
            "Invalid value for '--timeout': 'soon' is not a valid duration: write 90, 90s, 5m or 1h30m." + RUN_HELP,
        ),
        (("run", "--timeout", "0", "x"), "Invalid value for '--timeout': it must be more than 0." + RUN_HELP),
        (
            ("run", "--max-cost", "much", "x"),
            "Invalid value for '--max-cost': 'much' is not a valid amount of dollars: write it like 0.50." + RUN_HELP,
        ),
        (("pipeline", "run", "review", "--input", "what"), "--input what: write NAME=VALUE." + PIPELINE_HELP),
        (("pipeline", "run", "review", "--input", "task=x"), "review has no input 'task'. Its inputs: what"),
        (("pipeline", "run", "fix"), "fix needs the input task (what is to be done). Give it: --input task=…"),
        (("run", "script", "x", "--env", "1A=b"), "--env '1A': write NAME or NAME=VALUE." + RUN_HELP),
        (
            ("run", "script", "x", "--env", "NOT_SET_HERE"),
            "--env NOT_SET_HERE: this variable is not set here; write NOT_SET_HERE=VALUE." + RUN_HELP,
        ),
        (("run", "script", "-"), 'the prompt on stdin is empty. Say what to do: ostler run claude "…"'),
        (("run", "script"), 'the prompt on stdin is empty. Say what to do: ostler run claude "…"'),
        (
            ("run", "fix the test"),
            'no agent was named and there is no default. Name one: ostler run claude "…" (agents: ',
        ),
        (("run", "codxe"), "no agent or model is called 'codxe'. Did you mean codex"),
        (
            ("run", "script", "x", "--system-file", "gone"),
            "cannot read the system prompt gone: No such file or directory",
        ),
        (("run", "script", "x", "--system-file", "."), "cannot read the system prompt .: Is a directory"),
        (("rm",), "Missing argument 'SESSION…'. See: ostler rm --help"),
        (("rename",), "NAME is missing. See: ostler rename --help"),
        (("rename", "k3", "two", "words"), "3 words where a session and a name were expected: put the name in quotes."),
        (("steer", "k3", "two", "words"), "3 words where a session and a text were expected: put the text in quotes."),
        (("diff", "x", "--stat", "--json"), "--stat and --json cannot be used together. See: ostler diff --help"),
        (("wait", "x", "-q", "--json"), "--json and --quiet cannot be used together. See: ostler wait --help"),
        (("sessions", "--limit", "0"), "Invalid value for '-n' / '--limit': 0 is not in the range x>=1."),
        (("show", "x", "--raw", "--json"), "--raw and --json cannot be used together. See: ostler show --help"),
        (("exec", "--json", "--events", "--", "ls"), "--json and --events cannot be used together."),
        (("completion", "tcsh"), "Invalid value for '{bash|zsh|fish}': 'tcsh' is not one of 'bash', 'zsh', 'fish'."),
        (("trust",), "no ostler.toml in /"),
        (("trust", "gone"), "Invalid value for '[PATH]': Path 'gone' does not exist. See: ostler trust --help"),
    ],
)
def test_one_clear_line(shell: Callable[..., object], args: tuple[str, ...], complaint: str) -> None:
    ran = shell(*args)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("ostler: " + complaint)
    assert ran.stderr.count("\n") == 1 and ran.stderr.endswith("\n")
    assert not (shell.home / ".local").exists()  # nothing left behind


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"a\xffb", "ostler: the prompt on stdin is not valid UTF-8 (byte 1). Convert it to UTF-8\n"),
        (b"a\0b", "ostler: the prompt on stdin is not text: byte 1 is NUL. Convert it to UTF-8\n"),
        (b" \n\t", 'ostler: the prompt on stdin is empty. Say what to do: ostler run claude "…"\n'),
    ],
)
def test_bad_prompts_on_stdin(shell: Callable[..., object], data: bytes, complaint: str) -> None:
    ran = shell("run", "script", "-", stdin=data)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", complaint)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{", "the schema"),
        (b"[]", "the schema is not a JSON object"),
        (None, "no such schema file: s.json"),
    ],
)
def test_bad_schemas(shell: Callable[..., object], content: bytes | None, complaint: str) -> None:
    if content is not None:
        (shell.folder / "s.json").write_bytes(content)
    ran = shell("run", "script", "x", "--schema", "s.json")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("ostler: " + complaint)


def test_a_fault_shows_no_traceback_unless_asked(shell: Callable[..., object]) -> None:
    path = shell.toml("acess = 1")
    ran = shell("run", "script", "x")
    assert (ran.returncode, ran.stderr) == (2, f"ostler: {path}:1: unknown setting acess. Did you mean access?\n")
    shown = shell("run", "script", "x", env={"OSTLER_DEBUG": "1"})
    assert "Traceback" in shown.stderr and shown.returncode == 1


def test_control_characters_in_complaints_are_written_out(shell: Callable[..., object]) -> None:
    (shell.folder / "ostler.toml").write_text('"\\u001b[31m" = 1')
    ran = shell("run", "script", "x")
    assert "\x1b" not in ran.stderr and "unknown setting \\x1b[31m." in ran.stderr


# -- which word is what -----------------------------------------------------------------------------


def _names(word: str) -> bool:
    return word in ("claude", "gpt-5")


@pytest.mark.parametrize(
    ("words", "options", "expected"),
    [
        (("claude", "fix it"), {}, ("claude", "fix it")),
        (("claude", "-"), {}, ("claude", None)),
        (("claude",), {"piped": True}, ("claude", None)),
        (("gpt-5",), {"piped": True}, ("gpt-5", None)),
        (("hello",), {"default": "claude"}, (None, "hello")),
        (("-",), {"default": "claude"}, (None, None)),
        ((), {"default": "claude", "piped": True}, (None, None)),
        (("more",), {"continuing": True}, (None, "more")),
        (("claude",), {"continuing": True}, (None, "claude")),
        (("claude",), {"continuing": True, "piped": True}, ("claude", None)),
        (("-",), {"continuing": True}, (None, None)),
    ],
)
def test_who_and_prompt(
    words: tuple[str, ...], options: dict[str, object], expected: tuple[str | None, str | None]
) -> None:
    usual = {"continuing": False, "names": _names, "default": "", "piped": False}
    assert who_and_prompt(words, **{**usual, **options}) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("words", "default"), [((), ""), ((), "claude"), (("claude",), ""), (("a", "b", "c"), "")])
def test_words_that_say_too_little_or_too_much(words: tuple[str, ...], default: str) -> None:
    with pytest.raises(click.UsageError):
        who_and_prompt(words, continuing=False, names=_names, default=default, piped=False)


def test_a_prompt_without_an_agent() -> None:
    with pytest.raises(OstlerError, match="no agent was named"):
        who_and_prompt(("do it",), continuing=False, names=_names, default="", piped=False)


def test_environment() -> None:
    assert environment_of(("A=1", "B", "C=", "D=x=y"), {"B": "2"}) == {"A": "1", "B": "2", "C": "", "D": "x=y"}


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ((), ()),
        (("",), ()),
        ((" ", ""), ()),
        (("ls",), ("ls",)),
        (("./run.sh",), ("./run.sh",)),
        (("ls -l | wc",), ("/bin/sh", "-c", "ls -l | wc")),
        (("echo", "a b"), ("echo", "a b")),
    ],
)
def test_commands(command: tuple[str, ...], argv: tuple[str, ...]) -> None:
    assert argv_of(command) == argv


# -- the project's file -----------------------------------------------------------------------------


def test_init_and_trust(shell: Callable[..., object]) -> None:
    assert shell("init").stdout == "wrote ./ostler.toml\n"
    again = shell("init")
    assert (again.returncode, again.stderr) == (
        1,
        "ostler: ./ostler.toml already exists. Edit it, or remove it first\n",
    )
    path = shell.folder / "ostler.toml"
    assert shell("trust").stdout == f"{path} asks for nothing that needs trust\ntrusted\n"
    path.write_text('access = "full"\ncommands.claude = "./evil\\u001b[1m"\n')
    asked = (
        f'{path} would set:\n  access = "full"\n  commands.claude = ["{shell.folder}/evil\\\\u001b[1m"]\n'.replace(
            "commands.claude = [", 'commands = {"claude":['
        )
        .replace('[1m"]', '[1m"]}')
        .replace("\\\\u001b", "\\u001b")
    )
    refused = shell("trust", stdin=b"n\n")
    assert (refused.returncode, refused.stdout) == (1, asked + "Trust it? [y/N]: not trusted\n")
    assert shell("trust", str(path), "--yes").stdout == asked + "trusted\n"
    assert os.listdir(shell.home / ".local/state/ostler") == ["trusted.json"]


def test_trust_refuses_a_broken_file(shell: Callable[..., object]) -> None:
    path = Path(shell.folder / "ostler.toml")
    path.write_text("x = 1")
    assert shell("trust", "-y").stderr.startswith(f"ostler: {path}:1: unknown setting x. ")


def test_a_folder_that_is_gone_and_a_full_stdout_are_named(shell: Shell) -> None:
    """Of neither has the error of the system a name."""
    gone = ("sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh", sys.executable, "-m", "ostler")
    for args in (("sessions",), ("run", "script", "hi"), ("exec", "--", "true")):
        done = subprocess.run([*gone, *args], cwd=shell.folder, env=shell.environ, capture_output=True, check=False)
        assert done.stderr == b"ostler: the current folder no longer exists. Change to another one: cd\n"
    with open("/dev/full", "wb") as full:
        _, told = shell.start("sessions", stdout=full).communicate(timeout=60)
    assert told == b"ostler: cannot write the output: No space left on device\n"
