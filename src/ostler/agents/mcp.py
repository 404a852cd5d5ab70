"""MCP servers of a turn, in the shapes that agents are told of them. Pure."""

from collections.abc import Callable
from typing import Any, get_args

from msgspec.json import encode

from ostler.model import Host, McpServer, McpTransport, Turn

MCP_TRANSPORTS: tuple[McpTransport, ...] = get_args(McpTransport)


def by_file(
    flag: str, turn: Turn, host: Host, files: dict[str, bytes], shape: Callable[[McpServer], dict[str, Any]]
) -> list[str]:
    """A flag that names a private file: an argument can be read by everyone on the machine, and values are secrets."""
    if not turn.mcp:
        return []
    path = f"{host.private}/mcp.json"
    files[path] = encode({"mcpServers": {server.name: shape(server) for server in turn.mcp}})
    return [flag + path]


def typed(server: McpServer) -> dict[str, Any]:
    """As most programs have it in their files."""
    if server.transport == "stdio":
        return {"type": "stdio", **program(server)}
    return {"type": server.transport, "url": server.url, "headers": server.headers}


def program(server: McpServer) -> dict[str, Any]:
    return {"command": server.command, "args": server.args, "env": server.env}


def over_acp(server: McpServer) -> dict[str, Any]:
    """As `session/new` and its kin take it: a program has no `type`, and names stand beside values."""
    if server.transport == "stdio":
        return {"name": server.name, **program(server), "env": _pairs(server.env)}
    return {"type": server.transport, "name": server.name, "url": server.url, "headers": _pairs(server.headers)}


def _pairs(values: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]
