"""MCP servers as agents are told of them: no value in an argument, and no tool of theirs short of full access."""

import json
from typing import Any

import pytest

from agents.acp_replayed import HOST, dialog_of, turn_of
from agents.codex_played import OPTIONS, THREAD, TURN, Played
from ostler.agents import AGENTS
from ostler.agents.acp.protocol import Acp
from ostler.agents.dialog import Fail, Write
from ostler.errors import OstlerError
from ostler.model import Asked, Denial, McpServer, ToolEnded

SECRET = "a-secret-of-a-server"
DB = McpServer(name="db", command="/bin/db", args=("-v",), env={"TOKEN": SECRET})
FAR = McpServer(name="far", url="https://h/mcp", transport="http", headers={"Auth": SECRET})
OLD = McpServer(name="old", url="https://h/sse", transport="sse")
PROGRAM = {"command": "/bin/db", "args": ["-v"], "env": {"TOKEN": SECRET}}
TYPED = {
    "db": {"type": "stdio", **PROGRAM},
    "far": {"type": "http", "url": "https://h/mcp", "headers": {"Auth": SECRET}},
    "old": {"type": "sse", "url": "https://h/sse", "headers": {}},
}
FILES: dict[str, tuple[str, Any]] = {
    "claude": ("--mcp-config=/private/mcp.json", TYPED),
    "qwen": (
        "--mcp-config=/private/mcp.json",
        {
            "db": PROGRAM,
            "far": {"httpUrl": "https://h/mcp", "headers": {"Auth": SECRET}},
            "old": {"url": "https://h/sse", "headers": {}},
        },
    ),
    "copilot": (
        "--additional-mcp-config=@/private/mcp.json",
        {name: {**server, "tools": ["*"]} for name, server in TYPED.items()},
    ),
}


@pytest.mark.parametrize("dialog", [True, False])
@pytest.mark.parametrize("agent", [*FILES])
def test_by_a_private_file(agent: str, dialog: bool) -> None:
    face = AGENTS[agent].dialog
    assert face is not None
    launch = (face.launch if dialog else AGENTS[agent].launch)(turn_of(agent=agent, mcp=(DB, FAR, OLD)), HOST)
    flag, servers = FILES[agent]
    assert flag in launch.argv
    assert json.loads(launch.files["/private/mcp.json"]) == {"mcpServers": servers}
    assert SECRET not in str((launch.argv, launch.env))


@pytest.mark.parametrize("agent", [*AGENTS])
def test_without_servers_nothing_is_said_of_them(agent: str) -> None:
    launch = AGENTS[agent].launch(turn_of(agent=agent, agent_session=None), HOST)
    assert not any("mcp" in said for said in (*launch.argv, *launch.files))


def test_a_turn_of_codex_has_no_values_in_its_arguments() -> None:
    plain = McpServer(name="db", command="/bin/d b", args=('"', "\\"))
    argv = AGENTS["codex"].launch(turn_of(agent="codex", mcp=(plain,)), HOST).argv
    assert r'--config=mcp_servers.db={command="/bin/d b",args=["\"","\\"]}' in argv
    with pytest.raises(OstlerError) as refused:
        AGENTS["codex"].launch(turn_of(agent="codex", mcp=(DB,)), HOST)
    assert (refused.value.kind, refused.value.hint) == ("unsupported", "Use --dialog")


# -- ACP ----------------------------------------------------------------------------------------------


def initialized(able: Any, acp: Acp | None = None, **changes: Any) -> Any:
    """The first step after `initialize`."""
    dialog = dialog_of(acp, **changes)
    (hello,) = dialog.open()
    assert isinstance(hello, Write)
    capabilities = {"mcpCapabilities": able, "loadSession": True}
    answer = {"id": hello.record["id"], "result": {"protocolVersion": 1, "agentCapabilities": capabilities}}
    return dialog.read(answer)[0]


@pytest.mark.parametrize("resume", [True, False])
def test_over_acp(resume: bool) -> None:
    step = initialized({"http": True, "sse": True}, mcp=(DB, FAR, OLD), resume=resume, agent_session="S")
    assert step.record["method"] == ("session/load" if resume else "session/new")
    assert step.record["params"]["mcpServers"] == [
        {"name": "db", "command": "/bin/db", "args": ("-v",), "env": [{"name": "TOKEN", "value": SECRET}]},
        {"type": "http", "name": "far", "url": "https://h/mcp", "headers": [{"name": "Auth", "value": SECRET}]},
        {"type": "sse", "name": "old", "url": "https://h/sse", "headers": []},
    ]


@pytest.mark.parametrize("able", [None, {}, {"http": False}, {"http": 1}, {"sse": True}, [], "http"])
def test_an_agent_that_does_not_say_that_it_can(able: Any) -> None:
    step = initialized(able, mcp=(DB, FAR))
    assert isinstance(step, Fail) and step.problem.kind == "unsupported" and "far" in step.problem.message
    assert isinstance(initialized(able, mcp=(DB,)), Write)


def test_what_its_launch_has_told_is_not_told_again() -> None:
    step = initialized({}, Acp(mcp_by_flag=True), mcp=(DB, FAR))
    assert step.record["params"]["mcpServers"] == []


# -- codex in a dialog ----------------------------------------------------------------------------------

QUESTION = {
    "threadId": THREAD,
    "turnId": TURN,
    "serverName": "db",
    "message": 'Allow the db MCP server to run tool "put"?',
    "_meta": {"codex_approval_kind": "mcp_tool_call", "tool_params": {"row": 1}},
}
CALL = {"type": "mcpToolCall", "id": "call_1", "server": "db", "tool": "put", "arguments": {"row": 1}}


def asked(**options: Any) -> Played:
    played = Played(**options).begun().item("started", **CALL, status="inProgress")
    return played.hear({"method": "mcpServer/elicitation/request", "id": 0, "params": QUESTION})


def test_codex_is_told_when_the_thread_begins() -> None:
    played = Played(access="full", mcp=(DB, FAR)).opened()
    (begun,) = [r for r in played.written if r.get("method") == "thread/start"]
    far = {"url": "https://h/mcp", "http_headers": {"Auth": SECRET}}
    told = {"db": {**PROGRAM, "args": ("-v",)}, "far": far}
    assert begun["params"]["config"] == {"mcp_servers": told}


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("allow_once", {"action": "accept", "content": {}}),
        ("allow_always", {"action": "accept", "content": {}, "_meta": {"persist": "session"}}),
        ("reject_once", {"action": "decline"}),
        ("cancelled", {"action": "cancel"}),
    ],
)
def test_codex_asks_before_it_calls(kind: Any, result: Any) -> None:
    played = asked(access="full")
    (ask,) = played.asks
    assert ask == Asked(
        id=ask.id, tool="db.put", category="mcp", title=QUESTION["message"], input={"row": 1}, options=OPTIONS
    )
    played.do(played.dialog.answer(ask.id, kind))
    assert played.written == [{"id": 0, "result": result}]


def test_a_call_that_was_refused_is_denied() -> None:
    played = asked(access="full")
    played.do(played.dialog.answer(played.asks[0].id, "reject_once", "not today"))
    played.item("completed", **CALL, status="failed", error={"message": "user rejected MCP tool call"}).ended()
    assert [(e.ok, e.denied) for e in played.events if isinstance(e, ToolEnded)] == [(False, True)]
    assert played.verdicts[0].denied == (Denial(tool="db.put", reason="not today"),)


@pytest.mark.parametrize("access", ["read", "write"])
def test_short_of_full_access_codex_hears_a_no(access: Any) -> None:
    """Servers of the user's own config.toml ask so, too."""
    played = asked(access=access)
    assert played.asks == [] and [set(r) for r in played.written] == [{"id", "error"}]


def test_what_a_server_itself_asks_is_not_served() -> None:
    played = Played(access="full").begun()
    params = {**QUESTION, "_meta": None}
    played.hear({"method": "mcpServer/elicitation/request", "id": 0, "params": params})
    assert played.asks == [] and [set(r) for r in played.written] == [{"id", "error"}]
