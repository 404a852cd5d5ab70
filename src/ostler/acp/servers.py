"""MCP servers that a client sends with a session: read, and sorted into those that are handed on and the rest."""

from collections.abc import Iterable, Sequence
from typing import Any

from ostler.access import Access
from ostler.acp.updates import SessionUpdate
from ostler.agents import Agent
from ostler.agents.values import text
from ostler.errors import OstlerError
from ostler.model import McpServer
from ostler.work.turns.mcp_servers import from_table, sound

MORE = {
    "access": "Nothing confines an MCP server: choose the mode Full",
    "agent": "Set them up for {title} itself, or choose another agent",
}


def servers_of(params: dict[str, Any]) -> tuple[McpServer, ...]:
    """Raises bad_request for an entry that is broken."""
    listed = params.get("mcpServers")
    if listed is not None and not isinstance(listed, list):
        raise OstlerError("bad_request", "mcpServers must be a list")
    return sound([_server_of(each) for each in listed or ()])


def _server_of(entry: Any) -> McpServer:
    fields = entry if isinstance(entry, dict) else {}
    known = {key: value for key, value in fields.items() if key not in ("name", "_meta") and value is not None}
    for key in {"env", "headers"} & known.keys():
        known[key] = _values(known[key])
    return from_table(fields.get("name"), known)


def _values(pairs: Any) -> dict[str, Any]:
    """Names and values stand beside each other in a list."""
    if not isinstance(pairs, list) or not all(isinstance(each, dict) for each in pairs):
        raise OstlerError("bad_request", "env and headers of an MCP server must be lists of names and values")
    return {text(each.get("name")): each.get("value") for each in pairs}


def takes(agent: Agent) -> tuple[str, ...]:
    """By which transports the agent takes servers, as this connection drives it."""
    return agent.dialog.mcp if agent.dialog is not None else agent.mcp


def handed_on(servers: Iterable[McpServer], agent: Agent, access: Access) -> tuple[McpServer, ...]:
    return tuple(server for server in servers if access == "full" and server.transport in takes(agent))


def left_out(servers: Sequence[McpServer], agent: Agent, access: Access) -> SessionUpdate | None:
    """A notice of those that are not handed on; None: all of them are."""
    gone = [server.name for server in servers if server not in handed_on(servers, agent, access)]
    if not gone:
        return None
    could = handed_on(servers, agent, "full")
    why = "access" if access != "full" and could else "agent"
    title = f"MCP servers of the editor are not handed on: {', '.join(gone)}"
    more = MORE[why].format(title=agent.title)
    return {"sessionUpdate": "notice", "severity": "warning", "title": title, "description": more}
