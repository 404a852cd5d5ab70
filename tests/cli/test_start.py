"""`ostler --help` answers in a blink: it imports next to nothing."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

import ostler
from ostler.cli import COMMANDS, cli
from ostler.terminal.screen import link as screen_process

HEAVY = ("rich", "jsonschema", "sqlite3", "asyncio", "msgspec", "importlib.metadata", "ostler.work", "ostler.agents")


AGENT_MODULES = ("claude", "codex", "gemini", "cursor", "qwen", "opencode", "copilot", "script")


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_start_imports_next_to_nothing(flag: str) -> None:
    script = (
        "import atexit, sys\nfrom ostler.__main__ import main\n"
        f"atexit.register(lambda: print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr))\n"
        f"sys.argv[1:] = [{flag!r}]\nmain()"
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


# What a turn in a process of its own has no use for: dialogs, ACP, hooks, terminals with an emulator, diffs …
NOT_FOR_A_PLAIN_TURN = (
    *("ostler.acp", "ostler.agents.acp", "ostler.server", "ostler.testing", "ostler.terminal.screen"),
    *("ostler.terminal.live", "ostler.work.terminals.terminals", "ostler.work.dialogs.live_dialog"),
    *("ostler.work.dialogs.call_terminals", "ostler.work.diff.git", "ostler.work.checkup", "ostler.work.turns.command"),
    *("ostler.work.hooks", "ostler.work.forward", "h11"),
    *("ostler.work.dialogs.open_dialogs", "ostler.work.tuis", "ostler.work.panes"),
    *("ostler.process.tmux", "ostler.process.pane", "ostler.process.pty", "ostler.terminal.lease"),
    *("ostler.work.sessions.moving", "ostler.work.sessions.closing", "ostler.store.commits", "ostler.store.beneath"),
    *("ostler.work.sessions.adopt", "ostler.cli.ask_view", "importlib.metadata", "jsonschema", "rich"),
    *("ostler.render", "ostler.terminal.cast", "ostler.terminal.log", "ostler.work.launchers", "ostler.work.shadows"),
    *("tomllib", "shutil", "secrets", "random", "json", "shlex"),  # each takes longer than many a module of ours
    *("ast", "dis"),  # by inspect, which is loaded late, as is platform
    *("_ssl", "_hashlib", "typing_extensions"),
)
# Patterns that are compiled at import: each takes as long as half a module. `re.match(PATTERN, …)` keeps them, too.
COMPILED = ("agents/values.py", "store/records.py")
# Named tuples, which are made by compiling code: a struct takes a thirtieth of it.
NAMED_TUPLES = ("process.pipes", "process.tree")


def test_a_plain_turn_imports_its_own_agent_and_nothing_of_dialogs_or_terminals(tmp_path: Path) -> None:
    imported = {*after_a_turn(tmp_path, "", "*sys.modules").split()}
    agents = {name for name in AGENT_MODULES if f"ostler.agents.{name}" in imported}
    assert agents == {"script"}
    assert [name for name in NOT_FOR_A_PLAIN_TURN if name in imported] == []


def test_a_plain_turn_compiles_hardly_any_pattern_at_import(tmp_path: Path) -> None:
    counting = """
import re
compile, compiled = re.compile, []

def counted(*pattern):
    frame = sys._getframe(1)
    if frame.f_code.co_name == '<module>' and '/ostler/' in frame.f_code.co_filename:
        compiled.append(frame.f_code.co_filename.rpartition('/ostler/')[2])
    return compile(*pattern)

re.compile = counted
"""
    assert {*after_a_turn(tmp_path, counting, "*compiled").split()} == {*COMPILED}


def test_a_plain_turn_defines_few_named_tuples(tmp_path: Path) -> None:
    counting = """
import collections
make, made = collections.namedtuple, []

def counted(*fields, module=None, **more):
    if module and module.startswith('ostler.'):
        made.append(module.removeprefix('ostler.'))
    return make(*fields, module=module, **more)

collections.namedtuple = counted
"""
    assert {*after_a_turn(tmp_path, counting, "*made").split()} == {*NAMED_TUPLES}


def after_a_turn(folder: Path, before: str, shown: str) -> str:
    """What `ostler run` with the scripted agent prints at its exit."""
    script = (
        f"import atexit, sys\n{before}\nfrom ostler.__main__ import main\n"
        f"atexit.register(lambda: print({shown}, file=sys.stderr))\n"
        "sys.argv[1:] = ['run', 'script', '[[say:hello]]', '--quiet']\n"
        "main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={"HOME": str(folder), "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "hello\n")
    return ran.stderr


# What a server needs for its first terminal, pipeline, hook or machine, and not for its first answer.
NOT_FOR_A_FIRST_ANSWER = (
    *("websockets", "importlib.metadata", "pyghostty", "multiprocessing", "uvicorn.main", "logging.handlers"),
    *("importlib.resources", "ostler.pipelines.parse", "ostler.pipelines.load", "ostler.work.terminals.terminals"),
    *("ostler.terminal.live", "ostler.terminal.display", "ostler.process.tmux", "ostler.work.hooks"),
)


def test_a_server_listens_before_it_imports_what_its_first_answer_does_without() -> None:
    script = (
        "import sys\nfrom ostler.late import LateModule, load_late\nload_late()\n"
        "import ostler.cli.up, ostler.server.running as running\n"
        f"print([m for m in {NOT_FOR_A_FIRST_ANSWER!r} if m in sys.modules])\n"
        "print(type(sys.modules['uvicorn']) is LateModule)\n"
        "running.load_websockets()\nprint('websockets' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("[]\nTrue\nTrue\n", "", 0)


# What `ostler up` loads nevertheless: its log is rotated, and agents may call back.
FOR_A_SERVER_THAT_RUNS = {"logging.handlers", "ostler.work.hooks"}


def test_a_server_that_answers_has_not_loaded_it_and_looked_for_no_garbage(tmp_path: Path) -> None:
    script = """
import gc, os, sys
from ostler.__main__ import main
from ostler.late import load_late

load_late()
gc.set_threshold(100_000)
looks = sum(each["collections"] for each in gc.get_stats())
import ostler.server.running as running

def shown():  # in place of the first that it loads once it answers
    print(*sys.modules)
    print(sum(each["collections"] for each in gc.get_stats()) - looks, gc.get_threshold()[0], gc.get_freeze_count() > 0)
    sys.stdout.flush()
    os._exit(0)

running.load_websockets = shown
sys.argv[1:] = ["up"]
main()
"""
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={
            "HOME": str(tmp_path),
            "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
            "OSTLER_ONLY": "script",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    *_, modules, garbage = ran.stdout.splitlines()
    unneeded = {*NOT_FOR_A_FIRST_ANSWER, "ostler.store.commits"} - FOR_A_SERVER_THAT_RUNS
    assert "ostler.server.app" in modules.split()
    assert unneeded & {*modules.split()} == set()
    assert garbage == "0 50000 True"


# What a process that emulates terminals does without, at least until a program asks for it.
NOT_FOR_A_SCREEN_PROCESS = (
    *("asyncio", "logging", "threading", "inspect", "socket", "subprocess", "pathlib", "urllib.parse", "base64"),
    *("typing_extensions", "_ssl", "ostler.errors", "ostler.process", "ostler.terminal.keys", "ostler.store"),
    *("importlib.metadata", "pyghostty", "cffi"),
)


def test_a_screen_process_loads_the_emulator_and_little_else() -> None:
    start = screen_process.BOOT.partition("; main(")[0]  # all but the loop
    script = f"{start}\nprint(*sys.modules)\nprint(gc.isenabled())"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", script, str(Path(ostler.__file__).parent.parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    modules, garbage = ran.stdout.splitlines()
    assert {"ostler.terminal.ghostty_c", "msgspec"} <= {*modules.split()}
    assert [name for name in NOT_FOR_A_SCREEN_PROCESS if name in modules.split()] == []
    assert garbage == "False"  # until the loop begins


def test_a_chat_of_a_pipe_needs_no_line_editor_and_draws_nothing(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom ostler.cli import main\n"
        "try: main(['chat', 'script'])\n"
        "finally: print([m for m in ('rich', 'prompt_toolkit', 'markdown_it') if m in sys.modules], file=sys.stderr)"
    )
    env = {"HOME": str(tmp_path), "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin", "OSTLER_ONLY": "script"}
    said = "[[say:# one **two**]]\n[[say:three]]"  # the last one has no end
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=env, input=said, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "[]\n")
    assert "\x1b" not in ran.stdout
    assert [line for line in ran.stdout.splitlines() if line[:1] in ("●", "#", "t")] == [
        "● script · scripted · ~ · access read",
        "# one **two**",
        "three",
    ]


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
