"""MCP servers of an editor, by `ostler acp` as a real process: handed on where they can be, told where not."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_peer import Frame, Peer, Told, environ_of, peer_of
from work.acp_yard import frames, overheard

HELLO: Frame = {"protocolVersion": 1, "clientCapabilities": {"session": {"notices": {}}}}
SECRET = "a-secret-of-the-editor-0123456789"
DB = {"name": "db", "command": sys.executable, "args": ["-c", ""], "env": [{"name": "DB_TOKEN", "value": SECRET}]}
FAR = {"type": "http", "name": "far", "url": "http://127.0.0.1:9/mcp", "headers": [{"name": "A", "value": "b"}]}


@pytest.fixture
def log(folder: Path, tmp_path: Path) -> Path:
    """Of what `mine`, an ACP agent of the settings, is told."""
    log = tmp_path / "frames"
    config = Path(environ_of(folder)["HOME"]) / ".config" / "ostler" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'[acp]\nmine = {json.dumps(overheard(log))}\n[mcp.own]\ncommand = "{sys.executable}"\n'
        '[profiles.keeper]\nagent = "mine"\naccess = "full"\nmcp = ["own"]\n'
    )
    return log


def notices(peer: Peer) -> list[tuple[str, str]]:
    return [(u["title"], u["description"]) for u in peer.updates() if u["sessionUpdate"] == "notice"]


def handed(log: Path) -> list[Any]:
    """The servers of each session that was opened with the agent."""
    told = [frame["params"] for frame in frames(f"{log}.client")]
    return [params["mcpServers"] for params in told if "mcpServers" in params]


async def prompt(peer: Peer, session: str, said: str) -> str:
    result = await peer.call("session/prompt", sessionId=session, prompt=[{"type": "text", "text": said}])
    return str(result["stopReason"])


async def refused(call: Any) -> tuple[int, str]:
    with pytest.raises(Told) as told:
        await call
    return told.value.code, told.value.data.get("kind", "")


async def open_with(peer: Peer, folder: Path, *servers: Frame) -> str:
    return str((await peer.call("session/new", cwd=str(folder), mcpServers=[*servers]))["sessionId"])


async def test_they_are_handed_on_while_the_session_is_open(folder: Path, log: Path) -> None:
    async with peer_of(folder, "mine", "--access=full", initialize=HELLO, OSTLER_ONLY="") as peer:
        session = await open_with(peer, folder, DB)
        assert await prompt(peer, session, f"[[say:it is {SECRET}]]") == "end_turn"
        assert peer.said() == "it is [redacted]"
        await peer.call("session/load", sessionId=session, cwd=str(folder), mcpServers=[{**DB, "args": []}])
        assert await prompt(peer, session, "[[say:two]]") == "end_turn"
        await peer.call("session/resume", sessionId=session, cwd=str(folder))
        assert await prompt(peer, session, "[[say:three]]") == "end_turn"
        assert notices(peer) == []
    assert handed(log) == [[DB], [{**DB, "args": []}], []]


async def test_short_of_full_access_they_are_not(folder: Path, log: Path) -> None:
    async with peer_of(folder, "mine", initialize=HELLO, OSTLER_ONLY="", OSTLER_LOOSE="mine") as peer:
        session = await open_with(peer, folder, DB)
        assert await prompt(peer, session, "[[say:one]]") == "end_turn"
        left = "MCP servers of the editor are not handed on: db"
        assert notices(peer) == [(left, "Nothing confines an MCP server: choose the mode Full")]
        await peer.call("session/set_mode", sessionId=session, modeId="full")
        assert await prompt(peer, session, "[[say:two]]") == "end_turn"
        assert len(notices(peer)) == 1
        await peer.call("session/set_mode", sessionId=session, modeId="write")
        assert await prompt(peer, session, "[[say:three]]") == "end_turn"
        assert [title for title, _ in notices(peer)] == [left, left]
    assert handed(log) == [[], [DB], []]


async def test_a_profile_has_its_own_besides(folder: Path, log: Path) -> None:
    async with peer_of(folder, "keeper", initialize=HELLO, OSTLER_ONLY="") as peer:
        await prompt(peer, await open_with(peer, folder, DB), "[[say:one]]")
        await prompt(peer, await open_with(peer, folder, {**DB, "name": "own"}), "[[say:one]]")
    [both, replaced] = handed(log)
    assert [(server["name"], server["args"]) for server in both] == [("db", ["-c", ""]), ("own", [])]
    assert [(server["name"], server["args"]) for server in replaced] == [("own", ["-c", ""])]


async def test_a_program_that_is_not_there_ends_the_turn(folder: Path, log: Path) -> None:
    async with peer_of(folder, "mine", "--access=full", initialize=HELLO, OSTLER_ONLY="") as peer:
        session = await open_with(peer, folder, {**DB, "command": "/no/such/program"})
        code, kind = await refused(prompt(peer, session, "hi"))
        assert (code, kind) == (-32603, "missing")
        await peer.call("session/resume", sessionId=session, cwd=str(folder), mcpServers=[])
        assert await prompt(peer, session, "[[say:on]]") == "end_turn"


async def test_an_agent_that_takes_none(folder: Path) -> None:
    async with peer_of(folder, "claude", "--access=full", initialize=HELLO) as peer:
        assert await prompt(peer, await open_with(peer, folder, DB, FAR), "[[say:one]]") == "end_turn"
        [(title, more)] = notices(peer)
        assert title.endswith(": db, far") and more.startswith("Set them up for Scripted agent itself")


@pytest.mark.parametrize(
    ("agent", "http", "sse"),
    [("claude", True, True), ("codex", True, False), ("cursor", False, False), ("mine", False, False)],
)
async def test_what_is_promised(folder: Path, log: Path, agent: str, http: bool, sse: bool) -> None:
    async with peer_of(folder, agent, OSTLER_ONLY="") as peer:
        said = await peer.call("initialize", **HELLO)
        assert said["agentCapabilities"]["mcpCapabilities"] == {"http": http, "sse": sse}


@pytest.mark.parametrize(
    "broken",
    [
        {**DB, "name": "a b"},
        {**DB, "url": "https://h"},
        {**DB, "args": "-c"},
        {**DB, "env": {"A": "b"}},
        {**DB, "env": [{"value": "b"}]},
        {**DB, "env": [{"name": "A"}]},
        {**DB, "env": [{"name": "A-B", "value": "c"}]},
        {**DB, "type": "http"},
        {**FAR, "url": "ftp://h"},
        {**FAR, "headers": [{"name": "A", "value": "b\r\nC: d"}]},
    ],
)
async def test_a_broken_entry(peer: Peer, folder: Path, broken: Frame) -> None:
    session = await open_with(peer, folder)
    where = {"cwd": str(folder), "mcpServers": [broken]}
    assert await refused(peer.call("session/new", **where)) == (-32602, "bad_request")
    for method in ("session/load", "session/resume", "session/fork"):
        assert await refused(peer.call(method, sessionId=session, **where)) == (-32602, "bad_request")
    twice = [DB, DB]
    assert await refused(peer.call("session/new", cwd=str(folder), mcpServers=twice)) == (-32602, "bad_request")
