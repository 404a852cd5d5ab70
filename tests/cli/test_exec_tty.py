"""`ostler exec --tty`: in a real terminal, and without one."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Shell
from cli.in_pty import InPty
from waiting import PATIENCE


@pytest.fixture
def terminal(shell: Shell) -> Iterator[Any]:
    started: list[InPty] = []

    def start(*args: str, **options: Any) -> InPty:
        started.append(InPty(list(args), cwd=shell.folder, env=shell.environ, **options))
        return started[-1]

    yield start
    for each in started:
        each.close()


def test_a_shell_in_the_users_terminal(terminal: Any, shell: Shell) -> None:
    bash = terminal("exec", "--tty", "--name", "sh", "--", "bash", "--norc", "-i", cols=91, rows=29)
    bash.until(b"bash-")
    assert not bash.in_order()  # raw
    bash.type(b"stty size; echo $((6*7))x\r")
    assert b"29 91" in bash.until(b"42x")
    bash.resize(77, 31)
    bash.type(b"stty size; echo $((6*8))x\r")
    bash.until(b"48x")
    bash.type(b"sh -c 'echo up$((1)); exec sleep 600'\r")
    bash.until(b"up1")
    rows = json.loads(shell("terminals", "--json").stdout)
    assert [(row["name"], row["state"], row["typing"]) for row in rows] == [("bash", "live", True)]
    bash.type(b"\x03")
    bash.type(b"stty size; echo $((6*9))x\r")
    assert b"31 77" in bash.until(b"54x")
    bash.type(b"exit 7\r")
    assert bash.end() == 7
    assert bash.in_order()
    assert "✗ failed".encode() in bash.seen
    (session,) = json.loads(shell("sessions", "--json").stdout)
    assert (session["name"], session["agent"], session["state"]) == ("sh", "exec", "idle")


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("one\\ntwo\\nthree\\n", ["one", "two", "three", ""]),
        ("one\\ntwo", ["one", "two"]),
        ("\\033[1;5rone\\ntwo\\n", ["one", "two", ""]),  # margins
        ("one\\n\\033[?1049hinside\\n", ["one", ""]),  # on the alternate screen
        ("one\\n\\033[?1049hinside\\033[?1049ltwo\\n", ["one", "two", ""]),
    ],
)
def test_its_last_lines_stand_above_how_it_ended(terminal: Any, output: str, shown: list[str]) -> None:
    run = terminal("exec", "--tty", "--", "printf", output)
    assert run.end() == 0
    *above, last = run.screen()
    assert (above, last[:6]) == (shown, "✓ done")


def test_after_origin_mode_it_ends_at_the_bottom(terminal: Any) -> None:
    run = terminal("exec", "--tty", "--", "printf", "one\\n\\033[?6htwo\\n")
    assert run.end() == 0
    assert run.screen()[-1].startswith("✓ done") and len(run.screen()) == 23  # above the cursor


def test_its_envelope_events_and_recording(terminal: Any, shell: Shell) -> None:
    command = "printf '\\033[31mred\\033[0m\\n'; test -t 0 && test -t 1 && echo a terminal"
    run = terminal("exec", "--tty", "--json", "--", command)
    assert run.end() == 0
    out = run.seen.decode()
    envelope = json.loads(out[out.index('{\r\n  "status"') :])
    assert (envelope["outcome"], envelope["text"]) == ("done", "red\na terminal\n")
    assert b"\x1b[31mred" in run.seen
    assert "a terminal" in Path(envelope["artifacts"]["recording"]).read_text()
    events = [json.loads(line) for line in Path(envelope["artifacts"]["events"]).read_text().splitlines()]
    assert [event["kind"] for event in events] == ["terminal_opened", "text", "terminal_closed"]
    (row,) = json.loads(shell("terminals", "--all", "--json").stdout)
    assert (row["turn"], row["id"], row["source"]) == (envelope["turn"], events[0]["terminal"], "pty")


def test_without_a_terminal_it_still_has_one_itself(shell: Shell) -> None:
    done = shell("exec", "--tty", "--", "test -t 1 && stty size; exit 3")
    assert done.returncode == 3
    assert done.stdout.startswith("24 80\r\n") and "failed" in done.stdout
    quiet = shell("exec", "--tty", "--quiet", "--", "echo", "hi")
    assert (quiet.returncode, quiet.stdout) == (0, "hi\r\n")
    told = shell("exec", "--tty", "--json", "--", "echo", "hi")
    assert json.loads(told.stdout)["text"] == "hi\n"
    lines = shell("exec", "--tty", "--events", "--", "true").stdout.splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds == ["terminal_opened", "terminal_closed", "ended"]


@pytest.mark.parametrize(
    ("piped", "read"),
    [
        (b"one\ntwo\n", "one\ntwo\n"),
        (b"one\ntwo", "one\ntwo"),  # a line without its end
        (b"", ""),
        (b"a line of a few words\n" * 20_000, "a line of a few words\n" * 20_000),  # more than a terminal holds
    ],
)
def test_what_is_piped_in_is_typed(shell: Shell, piped: bytes, read: str) -> None:
    done = shell("exec", "--tty", "--json", "--", "cat > read", stdin=piped)
    assert (done.returncode, (shell.folder / "read").read_text()) == (0, read)


def test_a_file_is_typed_and_the_devices_are_not(shell: Shell) -> None:
    (shell.folder / "answers").write_text("Ana\nyes\n")
    with (shell.folder / "answers").open("rb") as answers:
        told = shell.start("exec", "--tty", "--quiet", "--", 'read -r a; read -r b; echo "$a: $b"', stdin=answers)
    assert (told.communicate(timeout=60)[0], told.returncode) == (b"Ana\r\nyes\r\nAna: yes\r\n", 0)
    run = shell.start("exec", "--tty", "--name", "open", "--", "echo up; exec cat")  # waits for whoever attaches
    assert run.stdout is not None and run.stdout.readline() == b"up\r\n"
    assert shell("cancel", "open").stdout == "cancelled\n"
    assert run.wait(60) == 130


def test_a_pipe_that_stays_open_keeps_nobody(shell: Shell) -> None:
    run = shell.start("exec", "--tty", "--quiet", "--", 'read -r a; echo "got $a"', stdin=subprocess.PIPE)
    assert run.stdin is not None and run.stdout is not None
    run.stdin.write(b"one\ntwo\n")
    run.stdin.flush()
    assert run.wait(PATIENCE) == 0
    assert run.stdout.read().endswith(b"got one\r\n")


def test_what_cannot_be_run(shell: Shell) -> None:
    missing = shell("exec", "--tty", "--", "no-such-command")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.startswith("ostler: `no-such-command` is not a command that can be run")
    late = shell("exec", "--tty", "--timeout", "1", "--quiet", "--", "sleep", "600")
    assert late.returncode == 124


def test_a_signal_cancels_it_and_leaves_the_terminal_in_order(terminal: Any, shell: Shell) -> None:
    run = terminal("exec", "--tty", "--", "sh", "-c", "printf '\\033[?1049h\\033[?1000hup'; exec sleep 600")
    run.until(b"up")
    run.signal(signal.SIGTERM)
    assert run.end() == 130
    assert run.in_order()
    assert run.seen.rindex(b"\x1b[?1049l") >= 0 and run.seen.rindex(b"\x1b[?1000l") >= 0
    assert b"cancelled" in run.seen


def test_it_can_be_cancelled_and_ended_from_elsewhere(terminal: Any, shell: Shell) -> None:
    run = terminal("exec", "--tty", "--name", "here", "--", "cat")
    run.type(b"echoed\r")
    run.until(b"echoed\r\nechoed")
    assert shell("cancel", "here").stdout == "cancelled\n"
    assert run.end() == 130 and run.in_order()


def test_a_terminal_that_is_closed_ends_its_program(shell: Shell) -> None:
    from ostler.process import tree

    run = InPty(
        ["exec", "--tty", "--", "sh", "-c", "echo up $OSTLER_TURN.; exec sleep 600"],
        cwd=shell.folder,
        env=shell.environ,
    )
    mark = run.until(b".\r\n").split()[-1].decode().rstrip(".")
    assert tree.marked(mark)
    run.signal(signal.SIGHUP)
    assert run.end() == 130
    run.close()
    assert tree.marked(mark) == []


def test_kill_9_leaves_nothing_running(terminal: Any, shell: Shell) -> None:
    from ostler.process import tree

    run = terminal("exec", "--tty", "--", "sh", "-c", "echo up $OSTLER_TURN.; sleep 600 & exec sleep 601")
    mark = run.until(b".\r\n").split()[-1].decode().rstrip(".")
    run.process.kill()
    run.process.wait()
    ended = shell("terminals", "--all")
    assert "exit status unknown" in ended.stdout
    assert tree.marked(mark) == []


def test_the_command_line_is_typed(shell: Shell) -> None:
    both = shell("exec", "--tty", "--json", "--quiet", "--", "true")
    assert both.returncode == 2 and isinstance(both, subprocess.CompletedProcess)
