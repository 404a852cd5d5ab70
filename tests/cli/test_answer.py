"""`ostler answer`, `steer`, `run --dialog` without a terminal, and `doctor SESSION`: from another shell."""

import json
from pathlib import Path
from typing import Any

from waiting import wait_until

ASK = '[[ask:{"tool": "shell", "input": {"command": "touch made"}, "then": [{"run": "touch made"}]}]] [[say:so it is]]'


def asking(shell: Any, *more: str) -> Any:
    """A turn that waits for an answer, in a process without a terminal."""
    process = shell.start(
        "run", "--dialog", "script", *(more or (ASK,)), "--access", "write", "--name", "talk", "--json"
    )
    wait_until(lambda: shell("answer", "talk").stdout.startswith("? "))
    return process


def result(process: Any) -> dict[str, Any]:
    out, _ = process.communicate(timeout=60)
    found: dict[str, Any] = json.loads(out)
    return found


def test_allow(shell: Any) -> None:
    process = asking(shell)
    (row,) = json.loads(shell("sessions", "--json").stdout)
    assert row["state"] == "asking"
    ran = shell("answer", "talk", "allow")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert result(process)["text"] == "so it is"
    assert (Path(shell.folder) / "made").exists()
    shown = shell("show", "talk").stdout
    assert "? shell asks: touch made\n? allowed by you\n" in shown


def test_deny_says_why(shell: Any) -> None:
    process = asking(shell)
    assert shell("answer", "talk", "deny", "--message", "not now").returncode == 0
    envelope = result(process)
    assert [denial["tool"] for denial in envelope["denied"]] == ["shell"]
    assert not (Path(shell.folder) / "made").exists()


def test_several_asks_are_told_apart(shell: Any) -> None:
    process = asking(shell)
    ran = shell("answer", "talk", "allow", "--ask", "another")
    assert ran.returncode == 2 and "'another' is not open" in ran.stderr
    ran = shell("answer", "talk", "always")
    assert ran.returncode == 2 and "it offers allow_once, reject_once" in ran.stderr
    id = shell("answer", "talk").stdout.split("--ask ")[1].split(":")[0]
    assert shell("answer", "talk", "deny", "--ask", id).returncode == 0
    assert result(process)["status"] == "ok"


def test_nothing_is_asked(shell: Any) -> None:
    shell("run", "script", "[[say:hi]]", "--name", "talk")
    assert shell("answer", "talk").stdout == "this session has no open question\n"
    for args in (("answer", "talk", "allow"), ("steer", "talk", "more")):
        ran = shell(*args)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "no turn is running in session talk" in ran.stderr
    assert shell("answer", "nobody", "allow").returncode == 2
    assert "--message goes with deny" in shell("answer", "talk", "allow", "--message", "x").stderr
    assert "TEXT is empty" in shell("steer", "talk", " ").stderr


def test_steer_reaches_the_turn_of_another_process(shell: Any) -> None:
    prompt = "[[say:ready]] [[hear]] [[hear]]"
    process = shell.start("run", "--dialog", "script", prompt, "--name", "talk", "--json")
    wait_until(lambda: '"kind": "text"' in shell("show", "talk", "--json").stdout)
    for words in ("leave the tests alone", "--and [[say:nothing]] literal"):
        ran = shell("steer", "talk", "--", words)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    envelope = result(process)
    assert (envelope["outcome"], envelope["text"]) == ("done", "--and [[say:nothing]] literal")
    shown = shell("show", "talk").stdout
    told = "note: steered by you: leave the tests alone\n"
    assert shown.index(told) < shown.index("\nleave the tests alone\n")


def test_steer_where_the_agent_cannot(shell: Any, tmp_path: Path) -> None:
    shell.environ["OSTLER_SCENARIO"] = str(tmp_path / "deaf.toml")
    (tmp_path / "deaf.toml").write_text("steers = false\n")
    process = asking(shell)
    ran = shell("steer", "talk", "hurry")
    assert (
        ran.returncode == 2
        and "cannot be steered while it is working" in ran.stderr
        and "Queue it as the next prompt" in ran.stderr
    )
    shell("answer", "talk", "deny")
    assert result(process)["status"] == "ok"


def test_without_an_answer_it_is_denied_in_time(shell: Any) -> None:
    ran = shell(
        "run", "--dialog", "script", ASK, "--access", "write", "--name", "talk", env={"OSTLER_ASK_LIMIT": "0.3"}
    )
    assert ran.returncode == 0
    assert "? denied by time limit\n" in ran.stdout
    assert not (Path(shell.folder) / "made").exists()


def test_the_doctor_of_a_session(shell: Any) -> None:
    shell("run", "script", "[[say:hi]]", "--name", "talk")
    said = shell("doctor", "talk")
    assert said.returncode == 0
    assert said.stdout.splitlines()[0] == "✓ talk · session with script"
    assert [line.split()[:2] for line in said.stdout.splitlines()[1:]] == [
        ["✓", "folder"],
        ["✓", "conversation"],
        ["✓", "owner"],
        ["✓", "access"],
    ]
    for file in (Path(shell.home) / ".local/state/ostler-script/sessions").iterdir():
        file.unlink()
    said = shell("doctor", "talk", "script")
    assert "✓ script · Scripted agent" in said.stdout
    assert "✗ talk · session with script" in said.stdout
    assert "no longer has the conversation" in said.stdout
    ran = shell("run", "--session", "talk", "[[say:again]]")
    assert ran.returncode == 2 and "no longer has the conversation" in ran.stderr
    found = json.loads(shell("doctor", "talk", "--json").stdout)
    assert [check["ok"] for check in found[0]["checks"]] == [True, False, True, True]
    assert shell("doctor", "nobody").returncode == 2
