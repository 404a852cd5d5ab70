"""Hooks as agents are told of them: commands that end with 0, a program that runs, answers in each agent's words."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.agents import AGENTS
from ostler.agents.hooks import (
    BODY_LIMIT,
    MARK,
    HookFace,
    allowed,
    asked_by,
    command_line,
    denied,
    hook_settings,
    program,
    session_of,
)
from ostler.errors import OstlerError
from ostler.model import Callback, FileChange, Host, Turn
from waiting import wait_until

TOKEN = "a-token-that-nobody-guesses"
FACE = HookFace(events=("SessionStart", "PreToolUse", "Stop"))
TURN = Turn(id="t", session="s", agent="claude", prompt="go", folder="/yard", hooks=True)


def callback(port: int = 9, **more: Any) -> Callback:
    return Callback(url=f"http://127.0.0.1:{port}/api/hooks", token=TOKEN, python=sys.executable, **more)


def host(**more: Any) -> Host:
    return Host(executable="/bin/agent", private="/private/it's", callback=callback(**more))


def test_the_settings_name_a_command_for_each_event_and_hold_no_token() -> None:
    files: dict[str, bytes] = {}
    made = hook_settings(FACE, TURN, host(), files)
    command = f"{sys.executable} -IS '/private/it'\"'\"'s/hook.py' Stop 2>/dev/null; exit 0"
    assert made["Stop"] == [{"hooks": [{"type": "command", "command": command, "timeout": 10}]}]
    assert list(made) == ["SessionStart", "PreToolUse", "Stop"]
    assert TOKEN not in json.dumps(made) and TOKEN.encode() in files["/private/it's/hook.py"]
    assert hook_settings(FACE, TURN, Host(executable="/bin/agent"), {}) == {}


@pytest.mark.parametrize(
    ("more", "seconds"),
    [({}, 10), ({"decides": True, "patience": 2.0}, 12), ({"decides": True}, 86_410)],
)
def test_only_a_hook_that_decides_may_take_long(more: dict[str, Any], seconds: int) -> None:
    made = hook_settings(FACE, TURN, host(**more), {}, scale=1000, marked=True)
    assert made["PreToolUse"][0]["hooks"][0]["timeout"] == seconds * 1000
    assert made["Stop"][0]["hooks"][0]["timeout"] == 10_000
    assert made["Stop"][0]["hooks"][0]["command"].endswith(f"2>/dev/null; echo {MARK} >&2; exit 0")


def test_answers_and_asks() -> None:
    assert denied("no")["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert allowed()["hookSpecificOutput"]["permissionDecision"] == "allow"
    payload = {"session_id": "x", "tool_name": "Write", "tool_input": {"file_path": "/yard/a", "content": "b\n"}}
    asked = asked_by(payload, "hook-1", "/yard")
    assert (asked.id, asked.tool, asked.title) == ("hook-1", "Write", "/yard/a")
    assert asked.files == (FileChange(path="/yard/a"),)
    assert "+b" in asked.diff and [option.kind for option in asked.options] == ["allow_once", "reject_once"]
    assert session_of(payload) == "x" and session_of({"session_id": 1}) == ""
    assert [option.name for option in asked.options] == ["Allow", "Deny"]  # as in every other ask
    assert asked_by({}, "hook-2", "/yard").tool == ""


def test_a_launch_without_a_callback_has_no_hooks() -> None:
    for agent in AGENTS.values():
        if agent.hooks is not None and agent.probed:
            known = Host(executable="/bin/agent", private="/private", help=" ".join(agent.needs), home="/home")
            launch = agent.launch(Turn(id="t", session="s", agent=agent.name, prompt="go", folder="/yard"), known)
            assert not any("hook" in word for word in (*launch.argv, *launch.files)), agent.name


@pytest.mark.parametrize("name", [name for name, agent in AGENTS.items() if agent.hooks])
def test_a_launch_with_a_callback_keeps_its_token_out_of_argv(name: str) -> None:
    known = Host(executable="/bin/agent", private="/private", help=" ".join(AGENTS[name].needs), callback=callback())
    turn = Turn(id="t", session="s", agent=name, prompt="go", folder="/yard", hooks=True)
    launch = AGENTS[name].launch(turn, known)
    assert not any(TOKEN in word for word in launch.argv)
    assert TOKEN.encode() in launch.files["/private/hook.py"]


def test_settings_of_the_system_are_not_displaced() -> None:
    place = "/etc/qwen-code/system-defaults.json"
    known = Host(executable="/bin/agent", private="/private", callback=callback(), folder_names=frozenset((place,)))
    assert place in AGENTS["qwen"].folder_names
    with pytest.raises(OstlerError) as caught:
        AGENTS["qwen"].launch(Turn(id="t", session="s", agent="qwen", prompt="go", folder="/yard", hooks=True), known)
    assert caught.value.kind == "unsupported"


def test_gemini_has_them_in_a_copy_of_the_users_settings() -> None:
    """What its variables for system settings name counts only where it is root's."""
    known = Host(executable="/bin/gemini", private="/private", callback=callback())
    turn = Turn(id="t", session="s", agent="gemini", prompt="go", folder="/yard", hooks=True)
    launch = AGENTS["gemini"].launch(turn, known)
    hooks = launch.settings["hooks"]
    face = AGENTS["gemini"].hooks
    assert face is not None and tuple(hooks) == face.events
    [[hook]] = [group["hooks"] for group in hooks[face.before_tool]]
    assert hook["name"] == "ostler" and "/private/hook.py BeforeTool" in hook["command"]
    assert not any("SYSTEM_" in name and "PATH" in name for name in launch.env)


# -- the program --------------------------------------------------------------------------------------


class Server(http.server.ThreadingHTTPServer):
    status, body, delay = 200, b'{"said": 1}', None
    broken: bytes | None = None  # instead of a reply
    heard: list[tuple[str, str, bytes]]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Server)
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.heard.append((self.path, self.headers["authorization"], body))
        if self.server.delay is not None:
            self.server.delay.wait(60)
            return
        if self.server.broken is not None:
            self.wfile.write(self.server.broken)
            return
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as made:
        made.heard = []
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        if made.delay is not None:
            made.delay.set()
        made.shutdown()
        thread.join()


def run(tmp_path: Path, given: Callback, *args: str, stdin: bytes = b"{}") -> "subprocess.CompletedProcess[bytes]":
    script = tmp_path / "hook.py"
    script.write_bytes(program(given, FACE))
    line = command_line((sys.executable, "-IS", str(script)), " ".join(args[:1]))
    argv = ["/bin/sh", "-c", line] if len(args) == 1 else [sys.executable, "-IS", str(script), *args]
    return subprocess.run(argv, input=stdin, capture_output=True, check=False)


def test_the_program_tells_and_says_what_it_is_told(server: Server, tmp_path: Path) -> None:
    known = callback(server.server_address[1], decides=True, patience=60.0)
    said = run(tmp_path, known, "PreToolUse", stdin=b'{"a": "\xc3\xa4"}')
    assert (said.returncode, said.stdout, said.stderr) == (0, b'{"said": 1}', b"")
    assert server.heard == [("/api/hooks?event=PreToolUse", f"Bearer {TOKEN}", b'{"a": "\xc3\xa4"}')]
    run(tmp_path, known, "notify", '{"type": "agent-turn-complete"}')  # which does not wait for an answer
    wait_until(lambda: len(server.heard) == 2)
    assert server.heard[1][2] == b'{"type": "agent-turn-complete"}'
    server.status, server.body = 429, b"slow down"
    assert run(tmp_path, known, "PostToolUse").stdout == b""
    assert run(tmp_path, callback(server.server_address[1], patience=60.0), "PreToolUse").stdout == b""


def decision(said: "subprocess.CompletedProcess[bytes]") -> Any:
    return said.stdout and json.loads(said.stdout)["hookSpecificOutput"]["permissionDecision"]


@pytest.mark.parametrize("mode", ["decides", "asks"])
def test_a_call_that_is_to_be_decided_is_denied_where_its_hook_is_refused(
    mode: str, server: Server, tmp_path: Path
) -> None:
    """Nobody was asked about it, and no rule has seen it."""
    known = callback(server.server_address[1], patience=60.0, **{mode: True})
    server.body = b""
    for server.status in (400, 413, 429, 503):
        assert decision(run(tmp_path, known, "PreToolUse")) == "deny"
        assert run(tmp_path, known, "PostToolUse").stdout == b""
    for server.status in (204, 401):  # its own rules decide; its turn is over
        assert run(tmp_path, known, "PreToolUse").stdout == b""
    heard = len(server.heard)
    assert decision(run(tmp_path, known, "PreToolUse", stdin=b" " * (BODY_LIMIT + 1))) == "deny"
    assert len(server.heard) == heard


def test_a_slip_of_the_program_lets_no_call_through_that_is_to_be_decided(server: Server, tmp_path: Path) -> None:
    server.broken = b"nonsense\r\n\r\n"
    for event, said in (("PreToolUse", "deny"), ("PostToolUse", b"")):
        assert decision(run(tmp_path, callback(server.server_address[1], decides=True, patience=60.0), event)) == said
    server.broken = b""
    script, heard = tmp_path / "hook.py", len(server.heard)
    script.write_bytes(program(callback(server.server_address[1], asks=True, patience=60.0), FACE))
    argv = [sys.executable, "-IS", str(script), "PreToolUse"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as waiting:
        wait_until(lambda: len(server.heard) > heard)
        script.unlink()  # which it reads again while it waits
        assert b'"deny"' in waiting.communicate()[0] and waiting.returncode == 0


def test_the_program_does_not_wait_for_what_decides_nothing(server: Server, tmp_path: Path) -> None:
    server.delay = threading.Event()  # never answers
    said = run(tmp_path, callback(server.server_address[1]), "PostToolUse")
    assert (said.returncode, said.stdout, said.stderr) == (0, b"", b"")
    wait_until(lambda: server.heard)
    assert [path for path, _, _ in server.heard] == ["/api/hooks?event=PostToolUse"]


def test_without_ostler_or_its_own_file_a_hook_says_nothing_and_ends_with_0(tmp_path: Path) -> None:
    assert run(tmp_path, callback(1), "Stop").returncode == 0
    gone = command_line((sys.executable, "-IS", str(tmp_path / "gone.py")), "Stop")
    said = subprocess.run(["/bin/sh", "-c", gone], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    assert (said.returncode, said.stdout, said.stderr) == (0, b"", b"")


def test_a_hook_calls_nobody_but_the_process_it_was_written_for(server: Server, tmp_path: Path) -> None:
    me, port = os.getpid(), server.server_address[1]
    begun = int(Path(f"/proc/{me}/stat").read_text().rpartition(")")[2].split()[19])
    for listener in ((me, begun), (me, begun + 1), (2**22 + 1, begun)):
        said = run(tmp_path, callback(port, decides=True, patience=60.0, listener=listener), "PreToolUse")
        assert said.returncode == 0 and len(server.heard) == 1
        assert said.stdout == (b'{"said": 1}' if listener == (me, begun) else b"")


def test_where_a_person_is_to_be_asked_silence_is_a_no(server: Server, tmp_path: Path) -> None:
    """It waits for the next ostler, whose file has replaced its own by then; in the end it denies."""
    nobody = callback(1, decides=True, asks=True, patience=0.2)
    said = run(tmp_path, nobody, "PreToolUse").stdout
    assert json.loads(said)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert run(tmp_path, nobody, "PostToolUse").stdout == b""
    script = tmp_path / "hook.py"
    script.write_bytes(program(callback(1, decides=True, asks=True, patience=60.0), FACE))
    argv = [sys.executable, "-IS", str(script), "PreToolUse"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as waiting:
        draft = tmp_path / "next.py"
        draft.write_bytes(program(callback(server.server_address[1], decides=True, asks=True, patience=60.0), FACE))
        draft.replace(script)
        assert waiting.communicate()[0] == b'{"said": 1}' and waiting.returncode == 0
