"""`ostler rm`, `rename`, `move`, `close`, `diff`, `wait`, and which session is meant where none is named."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Shell
from waiting import wait_until


def row(shell: Any, key: str) -> dict[str, Any]:
    rows = [
        each for each in json.loads(shell("sessions", "--all", "--json").stdout) if key in (each["id"], each["name"])
    ]
    return dict(rows[0]) if rows else {}


def running(shell: Any, name: str, prompt: str = "[[say:begun]] [[never_end]]", **options: Any) -> Any:
    """A turn that goes on, once it has said something."""
    process = shell.start("run", "script", prompt, "--name", name, "--access", "write", **options)
    wait_until(lambda: '"kind": "text"' in shell("show", name, "--json").stdout)
    return process


def test_rm(shell: Shell) -> None:
    for name in ("one", "two"):
        shell("run", "script", "[[say:1]]", "-n", name, "-q")
    folder = next(Path(shell.home / ".local/state/ostler/sessions").glob(row(shell, "one")["id"]))
    wrong = shell("rm", "one", "nobody")
    assert wrong.returncode == 2 and folder.exists()  # nothing is gone when a name is wrong
    removed = shell("rm", "one")
    assert (removed.returncode, removed.stdout, removed.stderr) == (0, "removed one\n", "")
    assert not folder.exists() and not row(shell, "one")
    process = running(shell, "busy")
    busy = shell("rm", "busy")
    assert busy.returncode == 1 and "is busy" in busy.stderr
    gone = shell("rm", "busy", "two", "--force", "--json")
    assert [each["name"] for each in json.loads(gone.stdout)] == ["busy", "two"]
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads(shell("sessions", "--json").stdout) == []


def test_move(shell: Shell) -> None:
    shell("run", "script", "[[say:1]]", "-n", "one", "-q")
    moved = shell("move", "one", "pty")
    assert (moved.returncode, moved.stdout) == (0, "one has moved to pty; its next turn runs there\n"), moved.stderr
    envelope = json.loads(shell("run", "-s", "one", "[[history]]", "--json").stdout)
    assert envelope["text"] == "[[say:1]]" and "recording" in envelope["artifacts"]
    assert json.loads(shell("move", "pipe", "--json").stdout)["transport"] == "pipe"  # the last used of this folder
    wrong = shell("move", "one", "boat")
    assert wrong.returncode == 2 and "'boat' is not a transport: pipe, dialog" in wrong.stderr
    both = shell("move", "one", "pty", "--wait", "--interrupt")
    assert both.returncode == 2 and "cannot be used together" in both.stderr


def test_move_while_a_turn_runs(shell: Shell) -> None:
    process = running(shell, "busy")
    refused = shell("move", "busy", "dialog")
    assert refused.returncode == 1 and "a turn is running in session busy" in refused.stderr
    assert "--wait" in refused.stderr and "--interrupt" in refused.stderr
    moved = shell("move", "busy", "dialog", "--interrupt")
    assert moved.returncode == 0, moved.stderr
    process.communicate(timeout=60)
    assert process.returncode == 130 and row(shell, "busy")["transport"] == "dialog"


def test_rename(shell: Shell) -> None:
    for name in ("one", "two"):
        shell("run", "script", "[[say:1]]", "-n", name, "-q")
    assert shell("rename", "one", "first").stdout == "one is now called first\n"
    taken = shell("rename", "first", "two")
    assert taken.returncode == 1 and "there is already a session named 'two'" in taken.stderr
    assert shell("rename", "last").stdout == "two is now called last\n"  # the last used of this folder
    cleared = json.loads(shell("rename", "last", "--clear", "--json").stdout)
    assert cleared["name"] is None
    half = shell("rename", cleared["id"])
    assert half.returncode == 2 and "is a session: give its new name too" in half.stderr
    wrong = shell("rename", "first", "a\tb")
    assert wrong.returncode == 2 and "cannot be the name of a session" in wrong.stderr
    assert shell("run", "-q", "-s", "first", "[[history]]").stdout == "[[say:1]]\n"


def test_close_ends_what_runs_and_keeps_the_record(shell: Shell) -> None:
    process = running(shell, "work")
    closed = shell("close", "work")
    assert (closed.returncode, closed.stdout) == (0, "closed work; its record stays: ostler show work\n")
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert row(shell, "work")["state"] == "closed" and "begun" in shell("show", "work").stdout
    more = shell("run", "-s", "work", "more")
    assert more.returncode == 2 and "session work is closed" in more.stderr and "ostler fork work" in more.stderr
    assert shell("run", "-c", "more").stderr.startswith("ostler: no session in ")  # a closed one is not gone on with
    assert json.loads(shell("close", "work", "--json").stdout)["state"] == "closed"  # again: nothing happens
    assert shell("fork", "work", "-n", "copy").returncode == 0
    assert shell("run", "-q", "-s", "copy", "[[say:on]]").stdout == "on\n"
    assert len(shell("prune", "--older-than", "0.01s").stdout.splitlines()) == 3


def test_close_ends_programs_and_processes_of_other_shells(shell: Shell) -> None:
    program = shell.start("exec", "--tty", "--name", "sh", "--", "echo up; exec sleep 600")
    wait_until(lambda: json.loads(shell("terminals", "--json").stdout))
    assert shell("close").stdout.startswith("closed sh; ")  # the only one in which something runs
    program.communicate(timeout=60)
    assert json.loads(shell("terminals", "--json").stdout) == []


def test_diff(shell: Shell) -> None:
    (shell.folder / "a.txt").write_text("one\n")
    nothing = shell("run", "script", "[[say:x]]", "-n", "s", "-q") and shell("diff", "s")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "no changes in s (read-only)\n")
    for text in ("[[write:a.txt]]", "[[write:b.txt]]"):
        assert shell("run", "-s", "s", text, "-q", "--access", "write").returncode == 0
    whole = shell("diff").stdout  # of the last used of this folder
    assert whole.startswith("diff --git a/a.txt b/a.txt\n") and "\ndiff --git a/b.txt b/b.txt\nnew file" in whole
    assert shell("diff", "s", "--turn", "3").stdout == whole[whole.index("diff --git a/b.txt") :]
    stat = shell("diff", "s", "--stat").stdout.splitlines()
    assert stat[0] == "turn 2 [[write:a.txt]]" and stat[2].startswith("    a.txt  +") and "new +" in stat[-1]
    told = json.loads(shell("diff", "s", "--json").stdout)
    assert "".join(turn["diff"] for turn in told["turns"]) == whole
    assert [[file["path"] for file in turn["files"]] for turn in told["turns"]] == [[], ["a.txt"], ["b.txt"]]
    wrong = shell("diff", "s", "--turn", "9")
    assert wrong.returncode == 2 and "session s has 3 turns, no turn 9" in wrong.stderr


def test_wait_for_a_session(shell: Shell) -> None:
    process = running(shell, "long")
    late = shell("wait", "long", "--timeout", "0.2s")
    assert late.returncode == 124 and late.stderr == "ostler: long is still running\n"
    waiting = [shell.start("wait", "long"), shell.start("wait", "--json")]
    process.send_signal(signal.SIGINT)
    (told, _), (envelope, _) = (each.communicate(timeout=60) for each in waiting)
    assert [each.returncode for each in waiting] == [130, 130]
    assert "■ cancelled" in told.decode() and json.loads(envelope)["outcome"] == "cancelled"
    shell("run", "-s", "long", "[[say:ok]]", "-q")
    assert (shell("wait", "long", "-q").returncode, shell("wait", "long", "-q").stdout) == (0, "")
    wrong = shell("wait", "nobody")
    assert wrong.returncode == 2 and "no session and no terminal is called 'nobody'" in wrong.stderr


def test_wait_for_a_terminal(shell: Shell) -> None:
    program = shell.start("exec", "--tty", "--", "read x; exit 7", stdin=-1)
    (terminal,) = wait_until(lambda: json.loads(shell("terminals", "--json").stdout))
    waiting = shell.start("wait", terminal["id"])
    wait_until(lambda: any(owner["role"] == "cli" for owner in owners(shell)))
    assert shell("cancel").stdout.startswith("cancelled ")
    out, _ = waiting.communicate(timeout=60)
    program.communicate(timeout=60)
    assert waiting.returncode > 1 and out.decode().startswith(f"[{terminal['id']} (")
    assert shell("wait", terminal["id"], "--json").returncode == waiting.returncode


def owners(shell: Shell) -> list[dict[str, Any]]:
    import sqlite3

    with sqlite3.connect(shell.home / ".local/state/ostler/ostler.db") as db:
        return [json.loads(body) for (body,) in db.execute("SELECT body FROM owners")]


ASK = '[[ask:{"tool": "shell", "input": {"command": "touch made"}, "then": [{"run": "touch made"}]}]] [[say:so]]'


def test_an_ask_is_told_with_its_answer_by_watch_and_wait(shell: Shell) -> None:
    asking = shell.start("run", "--dialog", "script", ASK, "--access", "write", "--name", "talk", "-q")
    wait_until(lambda: shell("answer", "talk").stdout.startswith("? "))
    watching, waiting = shell.start("watch"), shell.start("wait")
    assert waiting.stderr.readline().startswith(b"? shell asks: touch made")
    assert waiting.stderr.readline() == b"  answer: ostler answer talk allow (or deny)\n"
    until_told = b""
    while b"answer:" not in until_told:
        until_told = watching.stdout.readline()
    assert until_told == b"note: answer: ostler answer talk allow (or deny)\n"
    assert shell("answer").stdout.startswith("? ")
    answered = shell("answer", "allow")
    assert (answered.returncode, answered.stderr) == (0, "")
    assert [each.wait(timeout=60) for each in (asking, watching, waiting)] == [0, 0, 0]
    assert (shell.folder / "made").exists()
    none = shell("answer", "allow")
    assert none.returncode == 2 and none.stderr.startswith("ostler: no agent is asking anything right now.")


def test_the_obvious_one_or_a_list(shell: Shell) -> None:
    for command in ("show", "diff", "fork", "watch", "wait", "cancel", "close", "attach", "play"):
        nothing = shell(command)
        assert nothing.returncode == 2 and nothing.stderr.count("\n") == 1, (command, nothing.stderr)
    shell("run", "script", "[[say:here]]", "-n", "idle", "-q")
    assert "here" in shell("show").stdout and shell("fork", "-n", "copy").returncode == 0
    one = running(shell, "one")
    other = running(shell, "other")
    several = shell("cancel")
    assert several.returncode == 2 and several.stderr == (
        "ostler: 2 sessions match: other (script, busy), one (script, busy). Name one of them\n"
    )
    assert shell("cancel", "other").stdout == "cancelled\n"
    other.communicate(timeout=60)
    told = shell("steer", "more of it")
    assert row(shell, "one")["id"] in told.stderr  # it reaches the one that runs, which cannot be steered
    assert shell("steer", "one").returncode == 2  # the text is missing
    assert shell("cancel", cwd=shell.home).stdout == "cancelled one\n"  # the only one of this machine
    one.communicate(timeout=60)


def test_sessions_are_filtered_and_cut(shell: Shell) -> None:
    shell("run", "script", "sort the hay [[say:1]]", "-n", "hay", "-q")
    spent = '[[usage:{"input_tokens": 1, "cost_usd": 0.5}]]'
    shell("run", "claude", f"mend the fence {spent} [[say:1]]", "-n", "fence", "-q")
    shell("close", "hay")

    def names(*args: str) -> list[str]:
        return [each["name"] for each in json.loads(shell("sessions", "--json", *args).stdout)]

    assert names() == ["fence", "hay"]
    assert (names("HAY"), names("--agent", "claude"), names("--state", "closed")) == (["hay"], ["fence"], ["hay"])
    assert names("--state", "closed", "--state", "idle", "-n", "1") == ["fence"]
    head, first, more = shell("sessions", "--limit", "1").stdout.splitlines()
    assert first[head.index("COST") :].startswith("$0.50") and more == "and 1 more"
    assert shell("sessions", "nothing like it").stdout == "no sessions here\n"


def test_completion_of_the_new_verbs(shell: Shell) -> None:
    shell("run", "script", "[[say:1]]", "-n", "my-session", "-q")
    for verb in ("rm", "rename", "close", "diff", "wait"):
        env = {"_OSTLER_COMPLETE": "bash_complete", "COMP_WORDS": f"ostler {verb} my", "COMP_CWORD": "2"}
        assert shell(env=env).stdout.split() == ["plain,my-session"], verb


@pytest.mark.parametrize("verb", ["rm", "close", "rename"])
def test_a_wrong_name(shell: Shell, verb: str) -> None:
    ran = shell(verb, "nobody", *(["x"] if verb == "rename" else []))
    assert ran.returncode == 2 and "no session is called 'nobody'" in ran.stderr
