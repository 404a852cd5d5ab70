"""MCP servers of turns: where they come from, whether they go, and what is kept of them."""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import McpServer
from ostler.settings import McpEntry, Settings
from ostler.work.turns.mcp_servers import from_json, secrets, servers_of, sound
from work.acp_yard import AcpYard, frames, overheard, pid_of, turn
from work.scripted import Stable

SECRET = "a-secret-of-the-server-0123456789"
DB = {"name": "db", "command": sys.executable, "args": ["-c", "pass"], "env": {"DB_TOKEN": SECRET}}
TOLD = {"name": "db", "command": sys.executable, "args": ["-c", "pass"]}
ENV = [{"name": "DB_TOKEN", "value": SECRET}]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "frames"


@pytest.fixture
def yard(tmp_path: Path, log: Path) -> AcpYard:
    entry = '[mcp.db]\ncommand = "python3"\n[profiles.keeper]\nagent = "mine"\naccess = "full"\nmcp = ["db"]\n'
    return AcpYard(tmp_path, overheard(log), settings=entry)


def handed(log: Path) -> Iterator[tuple[str, Any]]:
    """What each process was told when its session was opened."""
    for frame in frames(f"{log}.client"):
        if "mcpServers" in frame.get("params", {}):
            yield frame["method"], frame["params"]["mcpServers"]


def holding(folder: Path, secret: str) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if secret.encode() in path.read_bytes()]


# -- to the agent -------------------------------------------------------------------------------------


async def test_servers_go_with_a_dialog_and_others_need_another_process(yard: AcpYard, log: Path) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        await turn(o, live, "[[say:one]]", mcp=[DB])
        pid = pid_of(o, live)
        await turn(o, live, "[[say:two]]", mcp=[McpServer(**DB)])
        assert pid_of(o, live) == pid
        assert (await turn(o, live, "[[say:three]]", mcp=[]))[0].ok
        assert pid_of(o, live) != pid
    assert list(handed(log)) == [("session/new", [{**TOLD, "env": ENV}]), ("session/resume", [])]


async def test_a_profile_chooses_servers_and_a_turn_may_choose_others(yard: AcpYard, log: Path) -> None:
    async with yard.ostler() as o:
        live = await o.session("keeper", folder=str(yard.folder))
        await turn(o, live, "[[say:one]]")
        await turn(o, live, "[[say:two]]", mcp=[])
    ((_, [db]), (_, none)) = handed(log)
    assert (db["name"], os.path.isabs(db["command"]), none) == ("db", True, [])


async def test_what_an_agent_cannot_reach_is_told(yard: AcpYard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, _ = await turn(o, live, "hi", mcp=[{"name": "far", "url": "https://mcp.example.com"}])
        assert (envelope.error.kind, envelope.error.message) == (
            "unsupported",
            "mine does not accept MCP servers by http: far",
        )
        assert (await turn(o, live, "[[say:on]]"))[0].ok


@pytest.mark.parametrize(
    ("access", "server", "kind", "hint"),
    [
        ("read", DB, "denied", "--access full"),
        ("write", DB, "denied", "--access full"),
        ("full", {**DB, "command": "./db"}, "missing", "whole path"),
        ("full", {**DB, "command": "/no/such/program"}, "missing", "whole path"),
        ("full", {**DB, "command": "no-such-program"}, "missing", "whole path"),
        ("full", "unheard-of", "not_found", "[mcp.NAME]"),
        ("full", "dbs", "not_found", "Did you mean db?"),
    ],
)
async def test_a_turn_that_cannot_begin(yard: AcpYard, access: Any, server: Any, kind: str, hint: str) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access=access)
        with pytest.raises(OstlerError) as refused:
            await turn(o, live, "hi", mcp=[server])
        assert refused.value.kind == kind and hint in refused.value.hint
        assert o.sessions() == []


async def test_an_agent_that_takes_none(stable: Stable) -> None:
    with pytest.raises(OstlerError) as refused:
        await stable.turn("hi", access="full", mcp=[DB])
    assert (refused.value.kind, refused.value.message) == (
        "unsupported",
        "script does not support MCP servers over stdio",
    )


# -- secrets ------------------------------------------------------------------------------------------


async def test_values_are_kept_nowhere(yard: AcpYard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, _ = await turn(o, live, f"[[say:it is {SECRET}]]", mcp=[DB])
        assert envelope.text == "it is [redacted]"
        assert o.store.turn(envelope.turn).turn.mcp == (
            McpServer(name="db", command=sys.executable, env={"DB_TOKEN": ""}),
        )
        assert holding(yard.base / "state", SECRET) == []
    assert holding(yard.base / "state", SECRET) == []


def test_what_is_secret() -> None:
    servers = [
        McpServer(name="a", command="x", env={"ROOT": "/home/ann/project", "KEY": "k" * 20, "API_TOKEN": "/t" * 9}),
        McpServer(
            name="b", url="https://ann:p4ssw0rd-of-ann@h/?key=1234567890abc", headers={"Auth": "Bearer 1234abcd"}
        ),
    ]
    assert secrets(servers) >= {"k" * 20, "/t" * 9, "p4ssw0rd-of-ann", "1234567890abc", "1234abcd", "Bearer 1234abcd"}
    assert "/home/ann/project" not in secrets(servers)


# -- entries ------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {"name": "db", "command": "db"}


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ({"command": "db"}, "without a name"),
        ({**GOOD, "name": ""}, "invalid name for an MCP server: it is empty"),
        ({**GOOD, "name": 5}, "name"),
        ({**GOOD, "name": "a b"}, "invalid name for an MCP server: a b"),
        ({**GOOD, "name": "a.b"}, "invalid name for an MCP server"),
        ({**GOOD, "name": "x" * 65}, "invalid name for an MCP server"),
        ({"name": "db"}, "neither command nor url"),
        ({**GOOD, "url": "https://h"}, "both command and url"),
        ({**GOOD, "transport": "http"}, "http needs a url"),
        ({**GOOD, "type": "carrier"}, "carrier"),
        ({**GOOD, "args": "-v"}, "array"),
        ({**GOOD, "args": ["a\0b"]}, "NUL"),
        ({**GOOD, "args": ["\udc80"]}, "Unicode"),
        ({**GOOD, "env": {"A-B": "c"}}, "'A-B'"),
        ({**GOOD, "env": {"A": "b\0"}}, "NUL"),
        ({**GOOD, "env": {"A": 5}}, "str"),
        ({**GOOD, "headers": {"A": "b"}}, "headers are for a url"),
        ({**GOOD, "disabled": True}, "unknown field 'disabled'"),
        ({"name": "db", "url": "ftp://h/"}, "its url is not valid"),
        ({"name": "db", "url": "https:///x"}, "its url is not valid"),
        ({"name": "db", "url": "https://h/a b"}, "its url is not valid"),
        ({"name": "db", "url": "http://[h"}, "its url is not valid"),
        ({"name": "db", "url": "https://h", "env": {"A": "b"}}, "env is for a command"),
        ({"name": "db", "url": "https://h", "headers": {"A:": "b"}}, "is not a valid header"),
        ({"name": "db", "url": "https://h", "headers": {"A": "b\r\nC: d"}}, "is not a valid header"),
    ],
)
def test_a_broken_entry(entry: dict[str, Any], wrong: str) -> None:
    with pytest.raises(OstlerError, match=re.escape(wrong)) as broken:
        sound(servers_of([entry], Settings()))
    assert broken.value.kind == "bad_request"


def test_a_broken_entry_that_no_type_has_looked_at() -> None:
    with pytest.raises(OstlerError, match="str"):
        sound([McpServer(name="db", command="db", env={"A": 5})])  # type: ignore[dict-item]


def test_a_name_twice() -> None:
    with pytest.raises(OstlerError, match="two of this name"):
        sound(servers_of([GOOD, GOOD], Settings()))


def test_transports_follow_from_what_there_is() -> None:
    entries = [GOOD, {"name": "a", "url": "http://h:1/mcp"}, {"name": "b", "url": "https://h", "type": "sse"}]
    entries += [{"name": "c", "url": "https://h", "type": "streamable-http"}]
    found = sound(servers_of([*entries, "d"], Settings(mcp={"d": McpEntry(url="https://h")})))
    assert [server.transport for server in found] == ["stdio", "http", "sse", "http", "http"]


def test_a_file_in_the_common_form() -> None:
    text = json.dumps({"mcpServers": {"a": {"command": "x", "args": ["1"]}, "b": {"type": "http", "url": "https://h"}}})
    assert from_json(text, "f") == (
        McpServer(name="a", command="x", args=("1",)),
        McpServer(name="b", url="https://h", transport="http"),
    )


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"mcpServers": {}}', '{"mcpServers": []}', '{"mcpServers": {"a": 5}}', "[" * 100_000]
)
def test_a_file_that_is_none(text: str) -> None:
    with pytest.raises(OstlerError) as broken:
        from_json(text, "servers.json")
    assert broken.value.kind == "bad_request"
