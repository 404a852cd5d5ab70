"""MCP servers of a dialog with codex, and how it asks before it calls one."""

from typing import Any

import pytest

from agents.codex_played import a_turn
from ostler.agents.codex.items import AppServerReader
from ostler.agents.codex.mcp import ANSWERS, ELICITATION, asks_for_call, call_of, server_of
from ostler.model import McpServer, ToolStarted


def test_servers_as_the_config_has_them() -> None:
    program = McpServer(name="db", command="db-server", args=("-x",), env={"K": "v"})
    assert server_of(program) == {"command": "db-server", "args": ("-x",), "env": {"K": "v"}}
    remote = McpServer(name="web", url="https://example.org/mcp", transport="http", headers={"A": "b"})
    assert server_of(remote) == {"url": "https://example.org/mcp", "http_headers": {"A": "b"}}


def test_no_answer_is_written_into_the_users_config() -> None:
    persisted = [answer.get("_meta", {}).get("persist") for answer in ANSWERS.values()]
    assert persisted == [None, "session", None, None, None]
    assert [answer["action"] for answer in ANSWERS.values()] == ["accept", "accept", "decline", "decline", "cancel"]


@pytest.mark.parametrize(
    ("method", "meta", "asks"),
    [
        (ELICITATION, {"codex_approval_kind": "mcp_tool_call"}, True),
        (ELICITATION, {"codex_approval_kind": "else"}, False),
        (ELICITATION, {}, False),
        (ELICITATION, None, False),
        (ELICITATION, "mcp_tool_call", False),
        ("item/commandExecution/requestApproval", {"codex_approval_kind": "mcp_tool_call"}, False),
    ],
)
def test_only_codex_itself_is_answered(method: str, meta: Any, asks: bool) -> None:
    assert asks_for_call(method, {"_meta": meta}) is asks


def test_the_call_that_it_asks_about() -> None:
    reader = AppServerReader(a_turn())
    first = ToolStarted(id="1", name="db.query", input={"q": 1})
    second = ToolStarted(id="2", name="db.query", input={"q": 2})
    other = ToolStarted(id="3", name="dbx.query", input={"q": 3})
    for call in (first, second, other):
        reader.tool_started(call)

    def asked(server: Any, input: Any) -> ToolStarted:
        return call_of({"serverName": server, "message": "Allow query?", "_meta": {"tool_params": input}}, reader)

    assert asked("db", {"q": 2}) == second
    assert asked("db", {"q": 3}) == ToolStarted(id="", name="db", title="Allow query?", input={"q": 3})
    assert asked(None, {"q": 3}) == ToolStarted(id="", name="", title="Allow query?", input={"q": 3})
    assert call_of({}, reader) == ToolStarted(id="", name="")
