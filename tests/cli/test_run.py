"""`ostler run`, `exec`, `sessions`, `show`, `watch` and the rest as a user meets them: real processes."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli.in_pty import InPty
from ostler.testing import ScriptedAgent
from prefork import start_ostler
from waiting import PATIENCE, wait_until

SECRET = "sk-test-0123456789abcdefghij"


def test_a_turn_in_a_pipe(shell: Any) -> None:
    ran = shell("run", "script", "[[say:Hello [b]you[/b] \x1b[31m]] [[write:app.py]]", "--name", "first")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.sub(r"\d+\.\d s", "T s", ran.stdout) == (
        f"● script · scripted · {shell.folder} · access read\n"
        "\n"
        "Hello [b]you[/b] \\x1b[31m\n"
        "\n"
        "  ✗ write app.py  refused  T s\n"
        "    refused: access is read\n"
        "\n"
        "✓ done · T s · 2 steps\n"
        "refused: write app.py — run again with --access write\n"
        'continue: ostler run --session first "…"\n'
    )


def test_json_is_the_envelope_alone(shell: Any) -> None:
    ran = shell("run", "script", "[[say:Hi]]", "--json")
    envelope = json.loads(ran.stdout)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert {key: envelope[key] for key in ("status", "outcome", "text", "agent", "served_by", "folder", "access")} == {
        "status": "ok",
        "outcome": "done",
        "text": "Hi",
        "agent": "script",
        "served_by": "script",
        "folder": str(shell.folder),
        "access": "read",
    }


def test_events_are_ndjson_and_end_with_ended(shell: Any) -> None:
    ran = shell("run", "script", "[[say:Hi]]", "--events")
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [event["kind"] for event in events if event["kind"] in ("started", "text", "ended")] == [
        "started",
        "text",
        "ended",
    ]
    assert events[-1]["kind"] == "ended"
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


def test_quiet_is_the_answer_alone(shell: Any) -> None:
    assert shell("run", "-q", "script", "-", stdin=b"[[say:Hi]]").stdout == "Hi\n"


def test_the_prompt_comes_from_stdin_or_after_dashes(shell: Any) -> None:
    assert shell("run", "-q", "script", stdin="[[echo:prompt]] ü".encode()).stdout == "[[echo:prompt]] ü\n"
    assert "--version [[echo:prompt]]" in shell("run", "-q", "script", "--", "--version [[echo:prompt]]").stdout
    shell.toml('default_agent = "script"')
    assert shell("run", "-q", "[[say:default]]").stdout == "default\n"


@pytest.mark.parametrize(
    ("prompt", "flags", "code"),
    [
        ("[[say:x]]", (), 0),
        ("[[fail:it broke]]", (), 1),
        ("[[exit:3]]", (), 1),
        ("[[crash]]", (), 1),
        ("[[never_end]]", ("--timeout", "0.5"), 124),
        ("[[never_end]]", ("--idle-timeout", "0.5s"), 124),
    ],
)
def test_exit_codes(shell: Any, prompt: str, flags: tuple[str, ...], code: int) -> None:
    ran = shell("run", "script", prompt, "--json", *flags)
    assert ran.returncode == code
    assert json.loads(ran.stdout)["status"] == ("ok" if code == 0 else "error")


def test_sessions_go_on(shell: Any) -> None:
    first = json.loads(shell("run", "script", "one [[say:1]]", "--json").stdout)
    second = json.loads(shell("run", "--session", first["session"], "two [[history]]", "--json").stdout)
    third = json.loads(shell("run", "--continue", "three [[history]]", "--json").stdout)
    assert {second["session"], third["session"]} == {first["session"]}
    assert (second["text"], third["text"]) == ("one [[say:1]]", "one [[say:1]]\ntwo [[history]]")
    (row,) = json.loads(shell("sessions", "--json").stdout)
    assert (row["id"], row["turns"], row["state"]) == (first["session"], 3, "idle")
    listed = shell("sessions").stdout.splitlines()
    assert listed[0].split() == ["SESSION", "AGENT", "STATE", "TURNS", "COST", "USED", "FOLDER", "TITLE"]
    assert listed[1].startswith(f"{first['session']}") and listed[1].endswith("one [[say:1]]")


def test_sessions_of_elsewhere_are_listed_on_demand(shell: Any, tmp_path: Path) -> None:
    assert shell("sessions").stdout == "no sessions here\n"
    shell("run", "script", "[[say:1]]", "-q")
    assert shell("sessions", cwd=tmp_path / "home").stdout == (
        "no sessions here (1 elsewhere: ostler sessions --all)\n"
    )
    assert len(shell("sessions", "--all", cwd=tmp_path / "home").stdout.splitlines()) == 2


def test_show(shell: Any) -> None:
    shell("run", "script", "first\x1b [[say:1]]", "-n", "s", "-q")
    shell("run", "-s", "s", "second [[say:2]]", "-q")
    whole = shell("show", "s")
    assert whole.returncode == 0 and "\x1b" not in whole.stdout
    assert [line for line in whole.stdout.splitlines() if line.startswith(">")] == [
        "> first\\x1b [[say:1]]",
        "> second [[say:2]]",
    ]
    one = shell("show", "s", "--turn", "2").stdout.splitlines()
    assert one[0] == "> second [[say:2]]" and one[4] == "2"
    assert one[-1] == 'continue: ostler run --session s "…"'
    assert '"text": "2"' in shell("show", "s", "--turn", "2", "--raw").stdout
    shown = json.loads(shell("show", "s", "--json").stdout)
    assert [t["turn"]["envelope"]["text"] for t in shown["turns"]] == ["1", "2"]
    assert shown["turns"][0]["events"][-1]["kind"] == "ended"
    missing = shell("show", "s", "--turn", "9")
    assert missing.returncode == 2 and "has 2 turns, no turn 9" in missing.stderr
    unknown = shell("show", "nope")
    assert (unknown.returncode, unknown.stderr) == (
        2,
        "ostler: no session is called 'nope'. List them: ostler sessions\n",
    )


def test_ctrl_c_keeps_what_was_done(shell: Any) -> None:
    process = shell.start("run", "script", "[[say:partial]] [[never_end]]", "--json")
    _until_running(shell)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    envelope = json.loads(out)
    assert (process.returncode, err) == (130, b"")
    assert (envelope["outcome"], envelope["text"]) == ("cancelled", "partial")


def test_a_tool_that_ctrl_c_stopped_has_not_failed(shell: Any) -> None:
    process = shell.start("run", "script", "[[run:sleep 600]]", "--name", "stopped", "--access", "full")
    wait_until(lambda: '"kind": "tool_started"' in shell("show", "stopped", "--json").stdout)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    _, _, tool, _, ended, *_ = out.decode().splitlines()
    assert re.fullmatch(r"  ■ shell sleep 600  stopped  .* m?s", tool) and ended.startswith("■ cancelled"), out
    (terminal,) = json.loads(shell("terminals", "--all", "--json").stdout)
    played = shell("play", terminal["id"], "--speed", "1000").stdout
    assert tool in re.sub(r"\x1b\[[\d;]*m", "", played)


def test_a_second_ctrl_c_leaves_at_once(shell: Any) -> None:
    stubborn = '[[ignore:["INT", "TERM"]]] [[say:x]] [[never_end]]'
    process = shell.start("run", "script", stubborn, "--events", stdout=subprocess.DEVNULL)
    key = _until_running(shell)

    def pressed() -> bool:
        process.send_signal(signal.SIGINT)
        return process.poll() is not None

    wait_until(pressed)
    assert process.returncode == 130
    wait_until(lambda: json.loads(shell("sessions", "--json").stdout)[0]["state"] == "idle")
    assert json.loads(shell("show", key, "--json").stdout)["turns"][0]["turn"]["envelope"]["outcome"] == "crashed"


def _session(shell: Any) -> Any:
    ran = shell("sessions", "--json")
    rows = json.loads(ran.stdout or "[]")
    return rows[0] if rows and rows[0]["state"] == "busy" else None


def _until_running(shell: Any) -> str:
    """The session, once its turn has said something."""
    row = wait_until(lambda: _session(shell))
    key = str(row["id"])
    wait_until(lambda: '"kind": "text"' in shell("show", key, "--json").stdout)
    return key


def test_watch_and_cancel_from_another_shell(shell: Any) -> None:
    process = shell.start("run", "script", "[[say:before]] [[never_end]]")
    key = _until_running(shell)
    watcher = shell.start("watch", key, "--events")
    first = watcher.stdout.readline()
    assert json.loads(first)["kind"] == "started"
    assert shell("cancel", key).stdout == "cancelled\n"
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "■ cancelled" in out.decode()
    watched, _ = watcher.communicate(timeout=PATIENCE)
    assert watcher.returncode == 0
    assert json.loads(watched.splitlines()[-1])["outcome"] == "cancelled"
    assert shell("cancel", key).stdout == "nothing is running in this session\n"
    plain = shell("watch", key).stdout
    assert "before" in plain and "■ cancelled" in plain


def test_a_busy_session(shell: Any) -> None:
    process = shell.start("run", "script", "[[say:x]] [[never_end]]", "-n", "s")
    _until_running(shell)
    busy = shell("run", "-s", "s", "more")
    assert busy.returncode == 1 and busy.stderr.startswith("ostler: ") and busy.stderr.count("\n") == 1
    waiting = shell.start("run", "-s", "s", "--wait", "-q", "[[say:waited]]")
    wait_until(lambda: '"queued"' in shell("show", "s", "--json").stdout)
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 130 and err.decode().startswith("ostler: cancelled")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert shell("run", "-s", "s", "-q", "[[say:again]]").stdout == "again\n"


def test_the_reader_that_goes_away_is_no_drama(shell: Any) -> None:
    process = shell.start("run", "script", "[[flood:300000]] [[never_end]]", "--events")
    process.stdout.read(10)
    process.stdout.close()
    assert (process.wait(timeout=60), process.stderr.read()) == (141, b"")
    (row,) = json.loads(shell("sessions", "--json").stdout)
    assert row["state"] == "idle"


def test_fork_prune_and_import(shell: Any) -> None:
    shell("run", "script", "[[say:1]]", "-n", "s", "-q")
    forked = shell("fork", "s", "--name", "copy")
    assert (forked.returncode, forked.stdout) == (0, 'continue: ostler run --session copy "…"\n')
    assert shell("run", "-q", "-s", "copy", "[[history]]").stdout == "[[say:1]]\n"
    assert shell("prune").stdout == "removed 0 sessions of this folder\n"
    elsewhere = shell("prune", "--older-than", "0.01s", cwd=shell.home)
    assert elsewhere.stdout == "removed 0 sessions of this folder\n"
    would = shell("prune", "--older-than", "0.01s", "--dry-run").stdout.splitlines()
    everywhere = shell("prune", "--older-than", "0.01s", "--dry-run", "--all", "--json", cwd=shell.home)
    assert len(json.loads(everywhere.stdout)) == len(would) - 1
    assert would[-1].startswith("would remove ")
    assert shell("prune", "--older-than", "0.01s").stdout.splitlines()[-1] == would[-1].replace(
        "would remove", "removed"
    )
    assert shell("sessions").stdout == "no sessions here\n"
    assert shell("sessions", "--import", "codex").stdout.startswith("imported 0 conversations of codex\n")


def test_attach_takes_a_type_before_the_file(shell: Any) -> None:
    (shell.folder / "shot").write_bytes(b"RIFF\0\0\0\0WEBPVP8 ")
    (shell.folder / "a:b").write_text("a colon in its name")
    (shell.folder / "text").mkdir()
    (shell.folder / "text/x:y").write_text("a name that looks like a type and a file")
    flags = [f"--attach={word}" for word in ("image/webp:shot", "a:b", "text/x:y", "text/plain:a:b")]
    ran = shell("run", "script", "[[echo:attach]]", "-n", "s", "-q", *flags)
    files = [str(shell.folder / name) for name in ("shot", "a:b", "text/x:y", "a:b")]
    assert (ran.stderr, json.loads(ran.stdout)) == ("", files)
    (turn,) = json.loads(shell("show", "s", "--json").stdout)["turns"]
    given = [(each["path"], each.get("type", "")) for each in turn["turn"]["turn"]["attachments"]]
    assert given == list(zip(files, ("image/webp", "", "", "text/plain"), strict=True))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("image/png:shot", "{}/shot is not image/png. It is image/webp"),
        ("image/png:notes", "{}/notes is not image/png. Its first bytes are not those of one"),
        ("image/webp:gone", "no such file: {}/gone. Attachments are relative to the folder"),
        ("webp:shot", "no such file: {}/webp:shot. Attachments are relative to the folder"),
    ],
)
def test_a_wrong_type_of_an_attachment_is_said_in_one_line(shell: Any, word: str, said: str) -> None:
    (shell.folder / "shot").write_bytes(b"RIFF\0\0\0\0WEBPVP8 ")
    (shell.folder / "notes").write_text("notes")
    ran = shell("run", "script", "x", "--attach", word)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", f"ostler: {said.format(shell.folder)}\n")
    assert json.loads(shell("sessions", "--json", "--all").stdout) == []


def test_record_and_replay(shell: Any) -> None:
    shell("run", "script", "[[say:once]]", "-q", "--record", "tape.jsonl")
    assert shell("run", "-q", "script", "other", env={"OSTLER_SCENARIO": "tape.jsonl"}).stdout == "once\n"
    bad = shell("run", "script", "x", "--record", "new.jsonl", "--attach", "gone.png")
    assert bad.returncode == 2 and not (shell.folder / "new.jsonl").exists()


def test_a_profile_with_a_wrong_agent_is_named_with_its_file(shell: Any) -> None:
    file = shell.toml('[profiles.helper]\nagent = "clade"\n')
    ran = shell("run", "helper", "x")
    assert ran.returncode == 2 and ran.stderr.count("\n") == 1
    said = f"ostler: the profile 'helper' in {file}: no agent or model is called 'clade'. Did you mean claude"
    assert ran.stderr.startswith(said)


def test_settings_reach_the_turn(shell: Any) -> None:
    shell.toml('[profiles.helper]\nagent = "script"\nsystem = "Be kind"\naccess = "write"\nmodel = "m1"\n')
    ran = json.loads(shell("run", "helper", "[[write:a.txt]] [[echo:system]]", "--json").stdout)
    assert (ran["access"], ran["model"], ran["text"]) == ("write", "m1", "Be kind")
    assert [(f["path"], f.get("change", "update")) for f in ran["files"]] == [("a.txt", "add")]


def test_an_untrusted_project_file_is_told_and_tamed(shell: Any) -> None:
    path = shell.folder / "ostler.toml"
    path.write_text('access = "full"\n')
    ran = shell("run", "script", "[[say:x]]", "--json")
    assert ran.stderr == f"note: {path} is not trusted: access ignored. Read it, then run `ostler trust`\n"
    assert json.loads(ran.stdout)["access"] == "read"
    shell("trust", "-y")
    trusted = shell("run", "script", "[[say:x]]", "--json")
    assert (trusted.stderr, json.loads(trusted.stdout)["access"]) == ("", "full")


@pytest.mark.parametrize(
    ("args", "code", "start"),
    [
        (("run", "script", "x", "--folder", "gone"), 2, "no such folder: gone"),
        (("run", "script", "x", "--folder", "file"), 2, "not a folder: file"),
        (("run", "script", ""), 2, "the prompt is empty"),
        (("run", "--session", "nope", "x"), 2, "no session is called 'nope'"),
        (("run", "--continue", "x"), 2, "no session in "),
        (("run", "nobody", "x"), 2, "no agent or model is called 'nobody'"),
        (("run", "script", "x", "--attach", "gone"), 2, ""),
        (("run", "script", "x", "--fallback", "nobody"), 2, "no agent or model is called 'nobody'"),
        (("fork", "nope"), 2, "no session is called 'nope'"),
        (("cancel", "nope"), 2, "no session is called 'nope'"),
        (("watch", "nope"), 2, "no session is called 'nope'"),
        (("doctor", "nobody"), 2, "no agent or model is called 'nobody'"),
        (("sessions", "--import", "nobody"), 2, "no agent or model is called 'nobody'"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(shell: Any, args: tuple[str, ...], code: int, start: str) -> None:
    (shell.folder / "file").write_text("")
    ran = shell(*args)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert ran.stderr.startswith("ostler: " + start) and ran.stderr.count("\n") == 1
    assert json.loads(shell("sessions", "--json", "--all").stdout) == []


def test_a_state_folder_that_cannot_be_used(shell: Any) -> None:
    (shell.folder / "file").write_text("")
    ran = shell("run", "script", "x", env={"OSTLER_HOME": str(shell.folder / "file")})
    assert ran.returncode == 1 and ran.stderr.startswith("ostler: ") and ran.stderr.count("\n") == 1
    read_only = shell("sessions", env={"HOME": "/sys"})  # nobody can make a folder there
    assert read_only.returncode == 1 and read_only.stderr.count("\n") == 1
    assert "set OSTLER_HOME to a folder that you can write" in read_only.stderr


def test_completion_knows_agents_and_sessions(shell: Any) -> None:
    shell("run", "script", "[[say:1]]", "-n", "my-session", "-q")

    def completed(*words: str) -> list[str]:
        env = {"_OSTLER_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return [line.split(",")[1] for line in shell(env=env).stdout.splitlines()]

    assert completed("ostler", "run", "scr") == ["script"]
    assert completed("ostler", "show", "my") == ["my-session"]
    assert completed("ostler", "run", "--session", "my") == ["my-session"]
    assert completed("ostler", "doctor", "scr") == ["script"]
    assert completed("ostler", "co") == ["completion"]


@pytest.mark.parametrize("command", ["show", "attach", "play"])
def test_completion_says_nothing_of_a_folder_that_is_not_trusted(shell: Any, command: str) -> None:
    """The line that is being typed stands there."""
    (shell.folder / "ostler.toml").write_text('default_agent = "script"\n')
    assert "note: " in shell("sessions").stderr
    env = {"_OSTLER_COMPLETE": "bash_complete", "COMP_WORDS": f"ostler {command} x", "COMP_CWORD": "2"}
    assert shell(env=env).stderr == ""


def test_a_terminal_that_is_not_utf8(shell: Any) -> None:
    env = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    ran = shell("run", "script", "[[say:ok]]", env=env)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\\u2713 done" in ran.stdout


# -- exec -------------------------------------------------------------------------------------------


def test_exec(shell: Any) -> None:
    ran = shell("exec", "--", "echo", "a  b")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [line for line in ran.stdout.splitlines() if "a  b" in line]
    failed = shell("exec", "--json", "--", "echo out; exit 7")
    assert failed.returncode == 7
    envelope = json.loads(failed.stdout)
    assert (envelope["outcome"], envelope["text"], envelope["exit"]) == ("failed", "out\n", {"code": 7})
    assert shell("exec", "--timeout", "0.3", "-q", "--", "sleep", "60").returncode == 124
    assert shell("exec", "-q", "--env", "A=1", "--", 'echo "$A"').stdout == "1\n"


def test_exec_shows_both_streams_as_they_come(shell: Any) -> None:
    ran = shell.start("exec", "--", "echo err >&2; printf half; read x; echo $x", stdin=subprocess.PIPE)
    assert ran.stderr.readline() == b"err\n"
    assert ran.stdout.read(4) == b"half"  # before the line is whole
    out, err = ran.communicate(b"done\n", timeout=60)
    assert (ran.returncode, err) == (0, b"")
    assert re.fullmatch(r"done\n\n✓ done · \d+\.\d s\n", out.decode())
    session = json.loads(shell("sessions", "--json").stdout)[0]["id"]
    assert "\n\nerr\nhalfdone\n\n✓ done" in shell("show", session).stdout


def test_the_envelope_of_exec_has_the_end_of_both_streams(shell: Any) -> None:
    ran = shell("exec", "--json", "--", "echo err >&2; seq 10000; exit 2", env={"MY_API_KEY": SECRET})
    envelope = json.loads(ran.stdout)
    assert (ran.returncode, envelope["stderr"], len(envelope["stdout"])) == (2, "err\n", 16 * 1024)
    assert envelope["evidence"] == ["exit code 2"]
    whole = Path(envelope["artifacts"]["stdout"]).read_text()
    assert whole.endswith(envelope["stdout"]) and whole == envelope["text"]
    turn = json.loads(shell("run", "script", "[[say:Hi]]", "--json").stdout)
    assert (turn["stdout"], turn["stderr"]) == (None, None)


def test_exec_shows_no_secret_and_ends_with_its_reader(shell: Any) -> None:
    ran = shell("exec", "-q", "--", 'printf "<$MY_API_KEY>"; exit 3', env={"MY_API_KEY": SECRET})
    assert (ran.returncode, ran.stdout) == (3, f"<{'*' * len(SECRET)}>")
    assert ran.stderr.endswith("ended with exit code 3\n") and SECRET not in ran.stderr
    # More than a pipe holds, so it is writing when its reader goes; and it would go on for long.
    process = shell.start("exec", "--", f"yes {'y' * 99} | head -c 300000; sleep 600")
    process.stdout.read(2)
    process.stdout.close()
    assert process.wait(timeout=60) == 141


@pytest.mark.parametrize("args", [("exec",), ("exec", "--"), ("exec", "--", ""), ("exec", "--tty", "--", " ")])
def test_an_empty_exec_is_a_no_op(shell: Any, args: tuple[str, ...]) -> None:
    ran = shell(*args)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.fullmatch(r"\n✓ done · \d+\.\d s\n", ran.stdout)
    envelope = json.loads(shell(args[0], "--json", *args[1:]).stdout)
    assert [envelope[key] for key in ("outcome", "exit", "stdout", "evidence")] == (
        ["done", {"code": 0}, "", ["empty command"]]
    )


def test_flags_behind_the_command_are_the_commands_own(shell: Any) -> None:
    assert shell("exec", "-q", "echo", "-q", "--json").stdout == "-q --json\n"
    refused = shell("exec", "-l", "ls")
    assert (refused.returncode, refused.stderr) == (
        2,
        "ostler: No such option '-l'. Put the command's own flags after `--`: ostler exec -- COMMAND -l. "
        "See: ostler exec --help\n",
    )
    late = shell("exec", "make test", "--json")
    assert late.stderr == (
        "ostler: `make test` is not a command that can be run. "
        "Put a shell line last, as one argument, after ostler's own flags\n"
    )


def test_exec_cancelled(shell: Any) -> None:
    process = shell.start("exec", "--events", "--", "echo begun; sleep 600")
    lines = iter(process.stdout.readline, b"")
    next(line for line in lines if b"begun" in line)
    process.send_signal(signal.SIGINT)
    last = [json.loads(line) for line in lines][-1]
    assert (last["kind"], last["outcome"]) == ("ended", "cancelled")
    assert process.wait(timeout=PATIENCE) == 130


# -- agents and the terminal ------------------------------------------------------------------------


def test_agents_and_doctor(shell: Any) -> None:
    reports = json.loads(shell("doctor", "--json", env={"OPENAI_API_KEY": SECRET}).stdout)
    assert "script" in [report["name"] for report in reports]
    table = shell("agents").stdout.splitlines()
    assert table[0].split() == ["AGENT", "INSTALLED", "LOGIN", "CAN"]
    assert len(table) == len(reports) + 1
    one = shell("doctor", "script")
    assert one.returncode == 0 and one.stdout.splitlines()[0].startswith("✓ script · ")
    everything = shell("doctor", env={"OPENAI_API_KEY": SECRET}).stdout + json.dumps(reports)
    assert SECRET not in everything


STREAMED = """\
# What *I* found

Some **bold** words \x1b[31mand a line that is too long for a terminal of forty columns.
- one
- two

| a | b |
|---|---|
| 1 | 2 |
"""


def test_in_a_terminal_it_is_live_and_leaves_every_line_and_the_terminal_in_order(shell: Any) -> None:
    prompt = (
        f"[[stream:{STREAMED}]] [[run:seq 3]] [[tool:{{{json.dumps('title')}: {json.dumps(f'{shell.folder}/a.py')}}}]]"
    )
    pty = InPty(["run", "script", prompt], cwd=shell.folder, env=shell.environ, cols=40, rows=50)
    try:
        assert pty.end() == 0
        shown = pty.screen()
    finally:
        pty.close()
    seen = pty.all.decode()
    assert "\x1b[?25l" in seen and seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")
    assert "ctrl-c cancels" in seen and "\x1b[31mand" not in seen
    rows = [re.sub(r"\d+\.\d s", "T s", row) for row in shown]
    assert rows[rows.index("What I found") :] == [
        "What I found",
        "",
        "Some bold words \\x1b[31mand a line that",
        "is too long for a terminal of forty",
        "columns.",
        " • one",
        " • two",
        "",
        " a  b",
        " ────",
        " 1  2",
        "",
        "  ✓ shell seq 3  T s",
        "    1",
        "    2",
        "    3",
        "  ✓ tool a.py  T s",
        "",
        "✓ done · T s · 3 steps",
        rows[-1],
    ]
    assert rows[-1].startswith("continue: ostler run --session ")


def test_model_serves_on_loopback(shell: Any) -> None:
    process = shell.start("model", "--log", "requests.ndjson")
    line = process.stdout.readline().decode()
    assert re.fullmatch(r"listening on http://127\.0\.0\.1:\d+\S*\n", line)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE) == 0
    bad = shell("model", "--scenario", "nope")
    assert bad.returncode == 2 and bad.stderr.startswith("ostler: there is no scenario 'nope'. Choose one of: text, ")


def test_ctrl_c_before_the_first_event_still_tells_the_end(tmp_path: Path, scripted_agent: ScriptedAgent) -> None:
    """An agent that has not spoken yet: the events end with `ended`, and the exit code is 130."""
    (scripted_agent.home / "deaf.json").write_text('{"deaf": true}')
    env = {
        **scripted_agent.env,
        "OSTLER_SCENARIO": str(scripted_agent.home / "deaf.json"),
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
    }
    process = start_ostler(
        ["run", "script", "go", "--events"],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    database = tmp_path / ".local/state/ostler/ostler.db"
    wait_until(lambda: _turn_begun(database))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert [json.loads(line)["kind"] for line in out.splitlines()] == ["ended"]


def _turn_begun(database: Path) -> bool:
    if not database.exists():
        return False
    with contextlib.closing(sqlite3.connect(database)) as connection:
        try:
            return bool(connection.execute("SELECT count(*) FROM turns").fetchone()[0])
        except sqlite3.OperationalError:
            return False
