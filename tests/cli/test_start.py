"""`ostler --help` answers in a blink: it imports next to nothing."""

import subprocess
import sys

import click
import pytest

from ostler.cli import COMMANDS, cli

HEAVY = ("rich", "jsonschema", "sqlite3", "asyncio", "msgspec", "importlib.metadata", "ostler.work", "ostler.agents")


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_start_imports_next_to_nothing(flag: str) -> None:
    script = (
        "import sys\nfrom ostler.cli import main\n"
        f"try: main([{flag!r}])\n"
        f"finally: print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "[]\n")
    assert "ostler" in ran.stdout


def test_help_of_run_needs_no_work_room() -> None:
    script = (
        "import sys\nfrom ostler.cli import main\n"
        "try: main(['run', '--help'])\n"
        "finally: print([m for m in ('rich', 'sqlite3', 'asyncio') if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "[]\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_its_help_with_examples(name: str) -> None:
    context = click.Context(cli, info_name="ostler")
    command = cli.get_command(context, name)
    assert command is not None and command.name == name
    assert command.get_short_help_str(100) == COMMANDS[name][1]
    assert (
        "ostler " + name
        in command.get_help(click.Context(command, parent=context, info_name=name)).split("Usage")[1][20:]
    )


def test_python_m_ostler_and_the_version() -> None:
    ran = subprocess.run([sys.executable, "-m", "ostler", "--version"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ostler 0.1.0\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    run = [sys.executable, "-m", "ostler"]
    script = subprocess.run([*run, "completion", shell], capture_output=True, text=True, check=False)
    assert script.returncode == 0 and f"_OSTLER_COMPLETE={shell}_complete" in script.stdout
