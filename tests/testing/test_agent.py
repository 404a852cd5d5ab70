"""The scripted agent as a real process: every step, its conversations, its signals, its launches."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ostler import testing
from ostler.testing import ScriptedAgent, ScriptLaunch, launches
from waiting import wait_until


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def catches(pid: int, number: int) -> bool:
    (line,) = [x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("SigCgt:")]
    return bool(int(line.split()[1], 16) >> (number - 1) & 1)


@contextmanager
def running(
    agent: ScriptedAgent, folder: Path, command: list[str], steps: list[dict[str, Any]]
) -> Iterator[subprocess.Popen[bytes]]:
    """The scripted agent at work; killed at the end if it still is."""
    agent.plays(steps)
    env = {"PATH": os.environ["PATH"], **agent.env}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=env) as process:
        assert process.stdin is not None
        process.stdin.write(b"go")
        process.stdin.close()
        try:
            yield process
        finally:
            process.kill()


class TestWords:
    def test_say(self, play: Any, folder: Path) -> None:
        ran = play("hello", "--session-id=s1", "--model=m1", steps=[{"say": "hi ü"}])
        assert (ran.code, ran.err) == (0, "")
        assert ran.records == [
            {"type": "init", "session": "s1", "model": "m1", "folder": str(folder)},
            {"kind": "text", "text": "hi ü", "id": "m1"},
            {"type": "result", "ok": True, "text": "hi ü", "steps": 1},
        ]

    def test_stream_is_deltas_and_then_the_whole(self, play: Any) -> None:
        ran = play("x", steps=[{"stream": "one two"}, {"stream": {"text": "a b", "whole": False}}])
        assert [(r.get("kind"), r.get("text"), r.get("id")) for r in ran.records[1:-1]] == [
            ("text_delta", "one", "m1"),
            ("text_delta", " two", "m1"),
            ("text", "one two", "m1"),
            ("text_delta", "a", "m2"),
            ("text_delta", " b", "m2"),
        ]
        assert ran.result["text"] == "a b"

    def test_think_plan_notice_usage_structured_stderr(self, play: Any) -> None:
        steps: list[dict[str, Any]] = [
            {"think": "hm so"},
            {"plan": ["a", {"text": "b", "status": "done"}]},
            {"notice": "look"},
            {"usage": {"input_tokens": 5, "output_tokens": 2, "cost_usd": 0.25}},
            {"structured": {"n": [1]}},
            {"stderr": "warned"},
        ]
        ran = play("x", steps=steps)
        assert ran.kinds == [
            "init",
            "thought_delta",
            "thought_delta",
            "thought",
            "plan",
            "notice",
            "usage",
            "text",
            "result",
        ]
        assert ran.of("plan")[0]["steps"] == [{"text": "a", "status": "pending"}, {"text": "b", "status": "done"}]
        usage = {"input_tokens": 5, "output_tokens": 2}
        assert ran.of("usage") == [{"kind": "usage", "usage": usage, "cost_usd": 0.25}]
        assert ran.result == {
            "type": "result",
            "ok": True,
            "usage": usage,
            "cost_usd": 0.25,
            "structured": {"n": [1]},
            "text": '{"n": [1]}',
            "steps": 1,
        }
        assert ran.err == "warned\n"

    def test_groups_and_givens_are_filled_in_and_other_braces_stay(
        self, play: Any, scripted_agent: ScriptedAgent, folder: Path
    ) -> None:
        scripted_agent.plays(
            {"match": "never", "steps": [{"say": "no"}]},
            {"match": r"add (?P<what>\w+)", "steps": [{"say": "{what} in {folder} by {model}: {prompt} {other} {}"}]},
            {"steps": [{"say": "too late"}]},
        )
        assert play("add cake").result["text"] == f"cake in {folder} by : add cake {{other}} {{}}"

    def test_markers_in_the_prompt(self, play: Any) -> None:
        ran = play('do [[say:hi]] and [[usage:{"input_tokens": 3}]] [[unknown:x]] [[exit_after_result:4]]')
        assert (ran.code, ran.kinds) == (4, ["init", "text", "usage", "result"])

    def test_echo_what_it_was_given(self, play: Any) -> None:
        flags = ("--system=be kind", "--attach=/a", "--attach=/b", "--access=write")
        steps = [{"echo": name} for name in ("prompt", "system", "attach", "access", "session", "argv")]
        ran = play("the prompt\n", "--session-id=s", *flags, steps=steps)
        assert [r["text"] for r in ran.of("text")] == [
            "the prompt\n",
            "be kind",
            '["/a", "/b"]',
            "write",
            "s",
            json.dumps(["--session-id=s", *flags]),
        ]


class TestTools:
    def test_run_is_a_real_process(self, play: Any, folder: Path) -> None:
        steps = [{"run": "pwd; echo oops >&2; exit 3"}, {"run": ["printf", "%s", "$HOME"]}, {"run": ["no-such-cmd"]}]
        ran = play("x", steps=steps)
        assert [r["title"] for r in ran.of("tool_started")] == [
            "pwd; echo oops >&2; exit 3",
            "printf %s $HOME",
            "no-such-cmd",
        ]
        ended = [(r["id"], r["ok"], r["output"], r["exit_code"]) for r in ran.of("tool_ended")]
        assert ended == [
            ("c1", False, f"{folder}\noops\n", 3),
            ("c2", True, "$HOME", 0),
            ("c3", False, "no-such-cmd: No such file or directory", 127),
        ]
        assert (ran.code, ran.result["steps"]) == (0, 4)

    def test_write_with_access(self, play: Any, folder: Path) -> None:
        ran = play("x", "--access=write", steps=[{"write": {"path": "sub/a.txt", "content": "A"}}])
        assert (folder / "sub/a.txt").read_text() == "A"
        change = [{"path": "sub/a.txt", "change": "add"}]
        assert ran.of("tool_started") == [
            {
                "kind": "tool_started",
                "id": "c1",
                "name": "write",
                "title": "sub/a.txt",
                "input": {"path": "sub/a.txt", "content": "A"},
                "files": change,
            }
        ]
        assert [(r["ok"], r["files"]) for r in ran.of("tool_ended")] == [(True, change)]
        assert ran.of("denied") == []

    @pytest.mark.parametrize(
        ("access", "outside", "needed"), [("read", False, "write"), ("read", True, "full"), ("write", True, "full")]
    )
    def test_write_is_refused(self, access: str, outside: bool, needed: str, play: Any, folder: Path) -> None:
        path = str(folder.parent / "out.txt") if outside else "in.txt"
        ran = play("x", f"--access={access}", steps=[{"write": path}])
        assert not (folder / path).exists()
        assert [(r["ok"], r["denied"]) for r in ran.of("tool_ended")] == [(False, True)]
        reason = f"access is {access}"
        denied = {"type": "denied", "tool": "write", "target": path, "access": needed, "reason": reason}
        assert ran.of("denied") == [denied]
        assert ran.code == 0

    def test_a_link_out_of_the_folder_needs_full(self, play: Any, folder: Path) -> None:
        (folder / "link").symlink_to(folder.parent)
        steps = [{"write": "link/out.txt"}]
        assert play("x", "--access=write", steps=steps).of("denied")[0]["access"] == "full"
        assert not (folder.parent / "out.txt").exists()
        assert play("x", "--access=full", steps=steps).of("denied") == []
        assert (folder.parent / "out.txt").exists()

    @pytest.mark.parametrize("flag", ["--deny-tool=shell", "--allow-tool=write"])
    def test_tool_lists(self, flag: str, play: Any, folder: Path) -> None:
        ran = play("x", flag, "--access=write", steps=[{"run": "touch ran"}, {"write": "written"}])
        assert sorted(os.listdir(folder)) == ["written"]
        reason = "the tool shell is not allowed"
        assert ran.of("denied") == [
            {"type": "denied", "tool": "shell", "target": "touch ran", "access": None, "reason": reason}
        ]

    def test_tool_that_only_looks_like_one(self, play: Any) -> None:
        ran = play("x", steps=[{"tool": {"name": "grep", "output": "o"}}, {"tool": {"name": "slow", "ended": False}}])
        assert ran.kinds == ["init", "tool_started", "tool_ended", "tool_started", "result"]

    @pytest.mark.parametrize(("answer", "refused"), [(None, 1), ("allow_once", 0)])
    def test_ask(self, answer: str | None, refused: int, play: Any) -> None:
        ask = {"tool": "shell", "input": {"command": "rm x"}} | ({"answer": answer} if answer else {})
        ran = play("x", steps=[{"ask": ask}])
        (asked,), (answered,) = ran.of("asked"), ran.of("answered")
        assert (asked["tool"], asked["input"]) == ("shell", {"command": "rm x"})
        assert [option["kind"] for option in asked["options"]] == ["allow_once", "reject_once"]
        assert (answered["id"], answered["option"]) == (asked["id"], answer or "reject_once")
        assert len(ran.of("denied")) == refused


class TestEnds:
    def test_fail(self, play: Any) -> None:
        ran = play("x", steps=[{"fail": {"kind": "limited", "message": "no more", "exit": 7}}])
        assert (ran.code, ran.result["error"]) == (7, {"kind": "limited", "message": "no more"})
        assert not ran.result["ok"]
        assert play("[[fail:overloaded]]").result["error"]["kind"] == "overloaded"

    def test_exit_without_result(self, play: Any) -> None:
        ran = play("x", steps=[{"say": "bye"}, {"exit": 3}, {"say": "never"}])
        assert (ran.code, ran.kinds) == (3, ["init", "text"])
        assert play("[[exit:0]]").code == 0

    def test_exit_after_result(self, play: Any) -> None:
        ran = play("x", steps=[{"exit_after_result": 5}, {"say": "ok"}])
        assert (ran.code, ran.result["ok"]) == (5, True)

    @pytest.mark.parametrize(("name", "number"), [("SEGV", 11), ("KILL", 9), ("SIGTERM", 15), (6, 6)])
    def test_crash(self, name: Any, number: int, play: Any) -> None:
        ran = play("x", steps=[{"say": "now"}, {"crash": name}])
        assert (ran.code, ran.kinds) == (-number, ["init", "text"])

    def test_retry(self, play: Any) -> None:
        ran = play("x", steps=[{"retry": {"error": "overloaded", "attempt": 2, "retry_in": 1.5}}, {"retry": "limited"}])
        assert ran.of("limited") == [
            {"kind": "limited", "error": "overloaded", "attempt": 2, "retry_in": 1.5},
            {"kind": "limited", "error": "limited"},
        ]

    def test_linger_stays_after_the_result(self, scripted_agent: ScriptedAgent, folder: Path, command: Any) -> None:
        with running(scripted_agent, folder, command(), [{"say": "x"}, {"linger": 300}]) as process:
            assert process.stdout is not None
            assert json.loads([process.stdout.readline() for _ in range(3)][-1])["type"] == "result"
            assert process.poll() is None

    def test_wait_for_a_file(self, scripted_agent: ScriptedAgent, folder: Path, command: Any) -> None:
        steps = [{"say": "waiting"}, {"wait_for": "go"}, {"say": "gone on"}]
        with running(scripted_agent, folder, command(), steps) as process:
            assert process.stdout is not None
            assert b"waiting" in [process.stdout.readline() for _ in range(2)][-1]
            (folder / "go").touch()
            assert b"gone on" in process.stdout.read()

    def test_speed_scales_waiting(self, play: Any) -> None:
        assert play("x", steps=[{"wait": 3600}], OSTLER_SCRIPT_SPEED="0").code == 0
        began = time.monotonic()
        play("x", steps=[{"wait": 100}], OSTLER_SCRIPT_SPEED="0.003")
        assert time.monotonic() - began >= 0.3


class TestSignals:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    @pytest.mark.parametrize("step", [{"never_end": True}, {"run": "touch child; echo $$ > pid; exec sleep 300"}])
    def test_end_it_like_a_good_cli(
        self, number: int, code: int, step: Any, scripted_agent: ScriptedAgent, folder: Path, command: Any
    ) -> None:
        with running(scripted_agent, folder, command(), [step]) as process:
            assert process.stdout is not None
            assert b"init" in process.stdout.readline()
            if "run" in step:
                wait_until(lambda: (folder / "pid").exists() and (folder / "pid").read_text())
            process.send_signal(number)
            assert b"result" not in process.stdout.read()
            assert process.wait(30) == code
        if "run" in step:
            assert not alive(int((folder / "pid").read_text()))

    def test_ignored_signals(self, scripted_agent: ScriptedAgent, folder: Path, command: Any) -> None:
        steps: list[dict[str, Any]] = [{"ignore": ["INT", "TERM"]}, {"say": "deaf"}, {"wait_for": "go"}]
        with running(scripted_agent, folder, command(), steps) as process:
            assert process.stdout is not None
            assert b"deaf" in [process.stdout.readline() for _ in range(2)][-1]
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
            (folder / "go").touch()
            assert json.loads(process.stdout.read())["ok"] is True
            assert process.wait(30) == 0

    def test_deaf_never_reads_and_never_speaks(
        self, scripted_agent: ScriptedAgent, folder: Path, command: Any, tmp_path: Path
    ) -> None:
        path = tmp_path / "deaf.toml"
        path.write_text("deaf = true\n")
        with running(scripted_agent, folder, command(f"--scenario={path}"), []) as process:
            assert process.stdout is not None
            wait_until(lambda: catches(process.pid, signal.SIGTERM))
            process.send_signal(signal.SIGTERM)
            assert (process.stdout.read(), process.wait(30)) == (b"", 143)
        assert scripted_agent.launches == []


class TestMischief:
    @pytest.mark.parametrize("hold", [False, True])
    def test_double_fork(
        self, hold: bool, play: Any, folder: Path, scripted_agent: ScriptedAgent, command: Any
    ) -> None:
        step = {"double_fork": {"pid_file": "daemon.pid", "hold": hold, "scrub": not hold}}
        with running(scripted_agent, folder, command(), [step]) as process:
            assert process.wait(30) == 0
            pid = int((folder / "daemon.pid").read_text())
            try:
                wait_until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
                os.kill(pid, signal.SIGTERM)
                environ = Path(f"/proc/{pid}/environ").read_bytes()
                assert alive(pid) and os.getsid(pid) != os.getsid(0)
                assert (b"OSTLER_SCRIPT_HOME=" in environ) == hold
                held = os.readlink(f"/proc/{pid}/fd/1").startswith("pipe:")
                assert held == hold
            finally:
                os.kill(pid, signal.SIGKILL)

    def test_flood(self, play: Any) -> None:
        ran = play("x", steps=[{"flood": {"lines": 5000, "width": 100}}])
        deltas = ran.of("text_delta")
        assert len(deltas) == 5000
        assert {len(r["text"]) for r in deltas} == {100}
        assert "".join(r["text"] for r in deltas) == ran.of("text")[0]["text"] == ran.result["text"]

    def test_garbage(self, play: Any) -> None:
        ran = play("x", steps=[{"garbage": True}, {"say": "still here"}])
        lines = ran.out.splitlines()
        assert b"Warning: this line is not JSON" in lines
        assert any(line.endswith(b"half a rec") for line in lines)
        assert any(b"\xff\xfe" in line for line in lines)
        assert ran.of("text")[-1]["text"] == "still here"
        assert ran.code == 0

    def test_garbage_of_your_own(self, play: Any) -> None:
        ran = play("x", steps=[{"garbage": 'half {"a"'}, {"exit": 0}])
        assert ran.out.splitlines()[-1] == b'half {"a"'

    def test_a_broken_pipe_is_no_traceback(self, scripted_agent: ScriptedAgent, folder: Path, command: Any) -> None:
        with running(scripted_agent, folder, command(), [{"flood": 200_000}]) as process:
            assert process.stdout is not None
            process.stdout.close()
            assert process.wait(30) == 1


class TestConversations:
    def test_resume_remembers(self, play: Any) -> None:
        play("first", "--session-id=s", steps=[{"history": True}])
        ran = play("second", "--resume=s")
        assert (ran.records[0]["session"], ran.result["text"]) == ("s", "first")
        assert play("third", "--resume=s").result["text"] == "first\nsecond"

    def test_fork_is_a_copy(self, play: Any) -> None:
        play("first", "--session-id=s", steps=[{"history": True}])
        forked = play("in the fork", "--resume=s", "--fork", "--session-id=f")
        assert (forked.records[0]["session"], forked.result["text"]) == ("f", "first")
        assert play("x", "--resume=f").result["text"] == "first\nin the fork"
        assert play("y", "--resume=s").result["text"] == "first"

    def test_a_new_one_has_its_own_id_and_knows_nothing(self, play: Any) -> None:
        one, two = (play("x", steps=[{"history": True}]) for _ in range(2))
        assert one.records[0]["session"] != two.records[0]["session"]
        assert one.result["text"] == two.result["text"] == "nothing"

    @pytest.mark.parametrize("id", ["nope", "../../etc/passwd", "", "--version", "a/b"])
    def test_unknown_ids(self, id: str, play: Any, scripted_agent: ScriptedAgent) -> None:
        ran = play("x", f"--resume={id}", steps=[])
        assert (ran.code, ran.out) == (1, b"")
        assert "session" in ran.err and len(ran.err.splitlines()) == 1
        assert scripted_agent.launches == []

    def test_an_id_that_is_taken(self, play: Any) -> None:
        play("x", "--session-id=s", steps=[])
        ran = play("x", "--session-id=s")
        assert (ran.code, ran.err) == (1, "ostler-script-agent: session s is already in use\n")

    def test_replies_by_turn(self, play: Any, scripted_agent: ScriptedAgent) -> None:
        scripted_agent.plays({"turn": 2, "steps": [{"say": "again"}]}, {"steps": [{"say": "once"}]})
        texts = [play("x", flag).result["text"] for flag in ("--session-id=s", "--resume=s", "--resume=s")]
        assert texts == ["once", "again", "once"]

    def test_it_may_lie_about_its_session_or_say_nothing(self, play: Any, scripted_agent: ScriptedAgent) -> None:
        scripted_agent.plays({"match": "lie", "session": "other", "steps": []}, {"init": False, "steps": []})
        assert play("lie").records[0]["session"] == "other"
        assert play("quiet").kinds == ["result"]


def test_launches_are_counted(play: Any, scripted_agent: ScriptedAgent, folder: Path) -> None:
    assert launches(scripted_agent.home) == []
    play("x", "--version")
    prompt = "ü" * 300
    play(prompt, "--session-id=s", steps=[{"crash": "KILL"}])
    (launch,) = scripted_agent.launches
    argv = (launch.argv[0], "--session-id=s")
    assert launch == ScriptLaunch(
        pid=launch.pid,
        argv=argv,
        folder=str(folder),
        session="s",
        sha256=hashlib.sha256(prompt.encode()).hexdigest(),
        prompt="ü" * 200,
        at=launch.at,
    )
    play("y", steps=[])
    assert [launch.prompt[:1] for launch in scripted_agent.launches] == ["ü", "y"]
    files = list(scripted_agent.home.rglob("*.ndjson"))
    assert files and all(path.stat().st_mode & 0o777 == 0o600 for path in files)


class TestBadInput:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[[reply]]\nsteps = [{shout = 'x'}]", "reply 1: unknown key 'shout'"),
            ("[[reply]]\nmatsch = 'x'", "reply 1: unknown key 'matsch'"),
            ("[[reply]]\nmatch = '('", "reply 1: match: "),
            ("[[reply]]\nsteps = [{say = 'x', exit = 1}]", "a step is a table with one key"),
            ("reply = 3", "`reply` is a list"),
            ("[[reply", "Expected"),
            ("[[reply]]\nsteps = [{wait = 'long'}]", "step wait = 'long'"),
        ],
    )
    def test_scenarios(self, text: str, said: str, play: Any, tmp_path: Path) -> None:
        path = tmp_path / "bad.toml"
        path.write_text(text)
        ran = play("x", f"--scenario={path}")
        assert (ran.code, len(ran.err.splitlines())) == (2, 1)
        assert said in ran.err

    @pytest.mark.parametrize(
        "flag", ["--scenario=/no/such", "--schema=/no/such", "--access=root", "--what=x", "-p", "text", "--model", "-"]
    )
    def test_flags(self, flag: str, play: Any) -> None:
        ran = play("x", flag)
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, b"", 1)

    def test_environment(self, play: Any, tmp_path: Path) -> None:
        ran = play("x", OSTLER_SCRIPT_SPEED="fast")
        assert (ran.code, ran.err) == (2, "ostler-script-agent: $OSTLER_SCRIPT_SPEED is a number, not 'fast'\n")
        (tmp_path / "file").touch()
        ran = play("x", OSTLER_SCRIPT_HOME=str(tmp_path / "file"))
        assert (ran.code, len(ran.err.splitlines())) == (1, 1)

    def test_a_cassette_that_is_none(self, play: Any, tmp_path: Path) -> None:
        ran = play("x", f"--cassette={tmp_path / 'none'}")
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, b"", 1)

    def test_no_prompt(self, play: Any) -> None:
        assert (play(" \n").code, play("").err) == (2, "ostler-script-agent: no prompt on stdin\n")

    def test_nothing_matches(self, play: Any, scripted_agent: ScriptedAgent) -> None:
        scripted_agent.plays({"match": "a", "steps": []})
        ran = play("b")
        assert (ran.code, ran.result["error"]["kind"]) == (1, "bad_request")


SHIPPED = sorted((Path(testing.__file__).parent / "scenarios").glob("*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_scenarios_that_ship_can_be_played(path: Path, play: Any, folder: Path) -> None:
    ran = play("add cake", f"--scenario={path}", "--access=write")
    assert ran.err == ""
    if path.stem == "example":
        assert (ran.code, ran.result["text"], (folder / "cake.txt").read_text()) == (0, "Added cake.", "cake\n")
    else:
        assert (ran.code, ran.result["error"]["kind"]) == (1, "limited")


def test_version_and_help(play: Any) -> None:
    assert play("", "--version").out == b"ostler-script-agent 1.0\n"
    text = play("", "--help").out.decode()
    flags = "--scenario --cassette --session-id --resume --fork --access --model --system --schema --attach"
    assert all(flag in text for flag in flags.split())


def test_a_schema_is_answered(play: Any, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}')
    ran = play("count", f"--schema={path}")
    assert (ran.result["structured"], ran.result["text"]) == ({"n": 7}, '{"n": 7}')


@pytest.mark.parametrize("access", ["read", "write"])
def test_without_a_scenario_it_shows_something(access: str, play: Any, folder: Path) -> None:
    ran = play("what can you do?", f"--access={access}")
    assert ran.code == 0
    assert [r["name"] for r in ran.of("tool_started")] == ["write", "shell"]
    assert ran.of("tool_ended")[-1]["ok"] is True
    assert len(ran.of("tool_ended")[-1]["output"].splitlines()) == 23
    assert (folder / "mandelbrot.py").exists() == (access == "write")
    assert [r["access"] for r in ran.of("denied")] == ([] if access == "write" else ["write"])
    assert [step["status"] for step in ran.of("plan")[-1]["steps"]] == ["done"] * 3
    assert ran.result["text"].startswith("Done:")


HEAVY = {"msgspec", "asyncio", "subprocess", "argparse", "dataclasses", "tomllib", "sqlite3", "click", "rich"}
LARGE = {"logging", "typing", "threading", "traceback", "site", "runpy", "_hashlib", "ostler.errors"}


@pytest.mark.parametrize(
    ("flag", "loaded"),
    [("--access=read", {"json", "re", "ostler.testing.steps"}), ("--version", set()), ("--help", set())],
)
def test_it_starts_without_anything_heavy(tmp_path: Path, flag: str, loaded: set[str]) -> None:
    """As ostler starts it. Half of the tests of ostler begin with a start and with its version and its help."""
    program = (
        "import os, sys\nleave = os._exit\n"
        "os._exit = lambda code: (sys.stderr.write(' '.join(sys.modules)), sys.stderr.flush(), leave(code))\n"
        "sys.argv[:] = sys.argv[1:]\nimport ostler.testing.agent as agent\nagent.main()"
    )
    packages = str(Path(testing.__file__).parent.parent.parent)
    program = f"import sys; sys.path.append({packages!r})\n{program}"
    done = subprocess.run(
        [sys.executable, "-IS", "-c", program, "ostler-script-agent", flag],
        input="[[say:hello]]",
        capture_output=True,
        text=True,
        check=True,
        env={"OSTLER_SCRIPT_HOME": str(tmp_path)},
    )
    modules = set(done.stderr.split())
    assert "ostler.testing.agent" in modules
    assert modules & (HEAVY | LARGE | {"json", "re", "ostler.testing.steps"}) == loaded
