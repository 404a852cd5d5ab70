"""`ostler acp` driven by acpx, a real ACP client; and every kind of frame held to the published schema."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acp_peer import Frame, Peer, Schema, choose, environ_of, peer_of
from real.yard import Yard
from waiting import wait_until

pytestmark = [pytest.mark.timeout(240), pytest.mark.together("acpx")]

ASK = '[[ask:{"tool": "shell", "input": {"command": "touch made.txt"}, "then": [{"run": "touch made.txt"}]}]][[say:so]]'
CLIENTS = ("initialize", "session/new", "session/prompt", "session/close", "session/set_mode", "session/resume")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
def schema() -> Schema:
    return Schema(modules() / "@agentclientprotocol/sdk/schema/v1/schema.json")


def modules() -> Path:
    clis = os.environ.get("OSTLER_TEST_CLIS")
    if not clis:
        pytest.fail("run `make test-real`: acpx is not installed")
    return Path(clis) / "node_modules"


class Acpx:
    """acpx as a user runs it, with `ostler acp claude` as its agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        env = environ_of(folder)
        self.env = {**env, "PATH": f"{os.environ['OSTLER_TEST_NODE']}:{env['PATH']}"}

    def start(self, *args: str) -> "subprocess.Popen[str]":
        agent = f"{sys.executable} -m ostler acp claude --access=write"
        return subprocess.Popen(
            [str(modules() / ".bin/acpx"), "--agent", agent, "--ttl", "60", *args],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __call__(self, *args: str) -> tuple[int, str]:
        process = self.start(*args)
        said, _ = process.communicate(timeout=120)
        return process.returncode, said


@pytest.fixture
def acpx(folder: Path) -> Iterator[Acpx]:
    acpx = Acpx(folder)
    yield acpx
    acpx("sessions", "close")  # its queue owner, and our process with it


@pytest.mark.core
def test_exec_and_every_frame_of_it(acpx: Acpx, schema: Schema) -> None:
    code, said = acpx("--format", "json", "exec", "[[think:Hm]][[run:echo out]][[stream:hello there]]")
    assert code == 0, said
    frames = [json.loads(line) for line in said.splitlines()]
    sent = {f["id"]: f["method"] for f in frames if f.get("method") in CLIENTS}
    ours = [f for f in frames if f.get("method") not in CLIENTS]
    assert schema.check(ours, sent) >= 8
    assert ours[-1]["result"]["stopReason"] == "end_turn"
    words = [f["params"]["update"] for f in ours if "method" in f]
    assert "".join(u["content"]["text"] for u in words if u["sessionUpdate"] == "agent_message_chunk") == "hello there"


@pytest.mark.parametrize(("policy", "made"), [("--deny-all", False), ("--approve-all", True)])
def test_asks_go_by_its_policy(acpx: Acpx, folder: Path, policy: str, made: bool) -> None:
    code, said = acpx(policy, "exec", ASK)
    assert "so" in said and "end_turn" in said, said
    assert (folder / "made.txt").exists() is made
    assert ("refused by the editor" in said) is not made
    assert code == 0 or not made  # acpx tells a denied permission by its exit code


def test_a_failed_turn_is_no_success(acpx: Acpx) -> None:
    for prompt in ("[[fail:limited]]", "[[say:x]][[exit:0]]"):
        code, said = acpx("exec", prompt)
        assert code != 0 and "end_turn" not in said, said


def test_a_session_goes_on_in_other_processes_and_is_cancelled_from_one(acpx: Acpx) -> None:
    code, said = acpx("sessions", "new")
    assert code == 0, said
    session = said.split()[-1]
    assert acpx("[[say:first]]")[0] == 0
    running = acpx.start("[[say:begun]][[never_end]]")
    wait_until(lambda: listed(acpx, session)["state"] == "busy")
    code, said = acpx("cancel")
    assert code == 0, said
    said, _ = running.communicate(timeout=120)
    assert "cancelled" in said and running.returncode == 0, said
    code, said = acpx("set-mode", "read")
    assert code == 0, said
    code, said = acpx("[[history]][[echo:access]]")
    assert code == 0 and "[[say:first]]" in said and "read" in said, said
    assert listed(acpx, session)["turns"] == 3
    acpx("sessions", "close")
    assert listed(acpx, session)["state"] == "idle"


def listed(acpx: Acpx, session: str) -> Any:
    """The session as `ostler sessions` has it."""
    argv = [sys.executable, "-m", "ostler", "sessions", "--json"]
    said = subprocess.run(argv, cwd=acpx.folder, env=acpx.env, capture_output=True, check=True, text=True).stdout
    [row] = [row for row in json.loads(said) if row["id"] == session]
    return row


async def test_every_kind_of_frame_is_as_published(folder: Path, schema: Schema) -> None:
    hello: Frame = {
        "protocolVersion": 1,
        "clientCapabilities": {"_meta": {"terminal_output": True}, "session": {"notices": {}}},
    }
    async with peer_of(folder, "claude", "--access=write", initialize=hello) as peer:
        server = {"name": "db", "command": "/bin/db", "args": [], "env": []}
        state = await peer.call("session/new", cwd=str(folder), mcpServers=[server])
        session = {"sessionId": state["sessionId"]}
        steps = (
            '[[think:Hm]][[plan:["a", {"text": "b", "status": "done"}]]][[stream:words]][[run:echo out; exit 3]]'
            '[[write:{"path": "a.txt", "content": "new"}]][[usage:{"input_tokens": 3, "cost_usd": 0.1}]]'
            '[[notice:careful]][[retry:{"error": "limited", "message": "slow down"}]]'
        )
        await peer.call("session/prompt", **session, prompt=[{"type": "text", "text": steps}])
        await peer.call("session/prompt", **session, prompt=[{"type": "text", "text": ASK}])
        await told(peer, "session/prompt", **session, prompt=[{"type": "text", "text": "[[fail:limited]]"}])
        await told(peer, "session/prompt", **session, prompt=5)
        await told(peer, "session/nothing")
        await peer.call("session/set_mode", **session, modeId="read")
        await peer.call("session/set_config_option", **session, configId="model", value="m")
        await peer.call("session/load", **session, cwd=str(folder), mcpServers=[])
        await peer.call("session/resume", **session, cwd=str(folder))
        await peer.call("session/list")
        await peer.call("session/close", **session)
        await peer.call("session/delete", **session)
        await peer.call("authenticate", methodId="cli")
        kinds = {update["sessionUpdate"] for update in peer.updates()}
    assert schema.check(peer.frames, peer.methods) == len(peer.frames)
    assert kinds == {
        *("agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call", "tool_call_update", "plan"),
        *("usage_update", "notice", "session_info_update", "available_commands_update", "config_option_update"),
        "current_mode_update",
    }


async def told(peer: Peer, method: str, **params: Any) -> None:
    assert "error" in await peer.finish(peer.begin(method, **params))


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "qwen", "opencode", "copilot"])
async def test_a_real_agent_behind_it(yard: Yard, schema: Schema) -> None:
    """Two turns of one process; what it asks is asked of the client."""
    env = {**yard.env, "OSTLER_ONLY": ""}
    async with peer_of(yard.folder, yard.agent, "--access=full", initialize={"protocolVersion": 1}, **env) as peer:
        session = {"sessionId": (await peer.call("session/new", cwd=str(yard.folder), mcpServers=[]))["sessionId"]}
        text = {"type": "text", "text": "[[shell:echo yes > made.txt]]"}
        assert (await peer.call("session/prompt", **session, prompt=[text]))["stopReason"] == "end_turn"
        assert (yard.folder / "made.txt").read_text() == "yes\n"
        [asked] = [frame for frame in peer.frames if frame.get("method") == "session/request_permission"]
        call = asked["params"]["toolCall"]
        last = [u for u in peer.updates() if u.get("toolCallId") == call["toolCallId"]][-1]
        assert (call["kind"], last["status"]) == ("execute", "completed")
        peer.answer = lambda frame: choose(frame, "reject_once")
        text = {"type": "text", "text": "[[shell:echo no > never.txt]]"}
        assert (await peer.call("session/prompt", **session, prompt=[text]))["stopReason"] == "end_turn"
        assert not (yard.folder / "never.txt").exists()
        text = {"type": "text", "text": "[[error:401]]"}
        answer = await peer.finish(peer.begin("session/prompt", **session, prompt=[text]))
        assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-32000, "unauthenticated")
    schema.check(peer.frames, peer.methods)


def test_the_schema_would_notice(schema: Schema) -> None:
    wrong: list[Frame] = [
        {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "done"}},
        {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "x", "update": {"sessionUpdate": "?"}}},
    ]
    for frame in wrong:
        with pytest.raises(AssertionError):
            schema.check([frame], {1: "session/prompt"})
