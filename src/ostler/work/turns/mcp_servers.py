"""MCP servers that go with a turn: where they come from, and whether they can go."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import structs

from ostler.agents import AGENTS, Agent
from ostler.errors import OstlerError, quoted
from ostler.model import McpServer, Turn
from ostler.settings import McpEntry, Settings, nearest
from ostler.work.probe import on_path
from ostler.work.transports.facts import TRANSPORT_FACTS
from ostler.work.turns.environment import holds_secret, password_in, pieces

WantedServer = McpServer | Mapping[str, Any] | str

NAME = r"[A-Za-z0-9_-]{1,64}"
VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
HEADER = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_KEYS = ("command", "args", "env", "url", "headers", "type", "transport")
_TYPES = {"streamable-http": "http", "streamableHttp": "http"}  # as other programs call it


# -- where they come from -----------------------------------------------------------------------------


def servers_of(wanted: Iterable[WantedServer], settings: Settings) -> tuple[McpServer, ...]:
    """Servers by the names that the settings give them, by their fields, or as they are."""
    known = [from_fields(each) for each in wanted]
    return tuple(_named(each, settings) if isinstance(each, str) else each for each in known)


def from_fields(wanted: WantedServer) -> McpServer | str:
    """A server by its fields; what is one already, or the name of one, stays as it is. Raises bad_request."""
    if isinstance(wanted, McpServer | str):
        return wanted
    return from_table(wanted.get("name"), {key: value for key, value in wanted.items() if key != "name"})


def _named(wanted: str, settings: Settings) -> McpServer:
    if wanted not in settings.mcp:
        known = f"Known servers: {', '.join(settings.mcp)}. " if settings.mcp else ""
        guess = nearest(wanted, settings.mcp)
        hint = f"Did you mean {guess}?" if guess else f"{known}Define it: [mcp.NAME] in your settings"
        raise OstlerError("not_found", f"the settings have no MCP server {quoted(wanted[:100])}", hint)
    entry = settings.mcp[wanted]
    fields = {name: value for name, value in structs.asdict(entry).items() if value is not None}
    return McpServer(name=wanted, **fields)


def from_json(text: str, where: str) -> tuple[McpServer, ...]:
    """The servers of a file in the form that many programs share: `{"mcpServers": {"NAME": {…}}}`."""
    hint = 'Write {"mcpServers": {"NAME": {"command": "…"}}}'
    try:
        found = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise OstlerError("bad_request", f"{where} is not valid JSON: {error}", hint) from error
    tables = found.get("mcpServers") if isinstance(found, dict) else None
    if not isinstance(tables, dict) or not tables:
        raise OstlerError("bad_request", f"{where} does not define any MCP servers", hint)
    return tuple(from_table(name, table) for name, table in tables.items())


def from_table(name: Any, table: Any) -> McpServer:
    """A server by its fields; `type` is another word for `transport`. Raises bad_request."""
    if not isinstance(table, Mapping):
        raise _broken(name, "it is not a table of fields")
    for key in table:
        if key not in _KEYS:
            raise _broken(name, f"it has an unknown field {quoted(key)}", f"Known: {', '.join(_KEYS)}")
    fields = {key: value for key, value in table.items() if value is not None and key != "type"}
    if isinstance(kind := table.get("type"), str):
        fields["transport"] = _TYPES.get(kind, kind)
    return _converted({**fields, "name": name})


def _converted(fields: dict[str, Any]) -> McpServer:
    try:
        return msgspec.convert(fields, McpServer)
    except msgspec.ValidationError as error:
        raise _broken(fields.get("name"), str(error).replace("`", "")) from error


# -- whether they can go ------------------------------------------------------------------------------


def sound(servers: Sequence[McpServer]) -> tuple[McpServer, ...]:
    """The servers with their transports. Raises bad_request for one that is broken, wherever it came from."""
    checked = tuple(_sound(_converted(msgspec.to_builtins(server))) for server in servers)
    names = [server.name for server in checked]
    for name in names:
        if names.count(name) > 1:
            raise _broken(name, "there are two of this name", "Name each once")
    return checked


def _sound(server: McpServer) -> McpServer:
    name = server.name
    if not re.fullmatch(NAME, name):
        message = f"invalid name for an MCP server: {name[:100] or 'it is empty'}"
        raise OstlerError("bad_request", message, "Write up to 64 of A-Z, a-z, 0-9, _ and -")
    if bool(server.command) == bool(server.url):
        wrong = "it has both command and url" if server.url else "it has neither command nor url"
        raise _broken(name, wrong, "Give the command of a program, or the url of a server")
    if server.url and server.transport == "stdio":
        server = structs.replace(server, transport="http")
    if server.command and server.transport != "stdio":
        raise _broken(name, f"{server.transport} needs a url", "Leave out transport, or give a url")
    if server.url and not _is_url(server.url):
        raise _broken(name, "its url is not valid", "Write http://… or https://…")
    _check_values(server)
    return server


def _check_values(server: McpServer) -> None:
    name = server.name
    for key in server.env:
        if not re.fullmatch(VARIABLE, key):
            raise _broken(name, f"{quoted(key[:100])} cannot be the name of a variable")
    for key, value in server.headers.items():
        if not re.fullmatch(HEADER, key) or re.search(r"[\r\n]", value):
            raise _broken(name, f"{quoted(key[:100])} is not a valid header, or its value spans several lines")
    if (server.env and server.url) or (server.headers and server.command):
        raise _broken(name, "env is for a command, headers are for a url")
    for text in (server.command, *server.args, *server.env.values(), *server.headers.values()):
        if "\0" in text or not _is_unicode(text):
            raise _broken(name, "it contains a NUL character or invalid Unicode")


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and " " not in url
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _broken(name: Any, what: str, hint: str = "") -> OstlerError:
    called = quoted(name[:100]) if isinstance(name, str) and name else "without a name"
    return OstlerError("bad_request", f"the MCP server {called} is broken: {what}", hint)


def ready(turn: Turn, agent: Agent, path: str) -> tuple[McpServer, ...]:
    """The turn's servers as its agent gets them, programs by their whole paths. Raises what keeps them from going."""
    servers = sound(turn.mcp)
    if servers and turn.access != "full":
        what = f"MCP servers need access full, since nothing confines them; this turn has {turn.access}"
        raise OstlerError("denied", what, "Use --access full, or leave the server out")
    for server in servers:
        if server.transport not in taken(agent, turn):
            raise _unsupported(server, agent, turn)
    return tuple(_with_program(server, path) if server.command else server for server in servers)


def taken(agent: Agent, turn: Turn) -> tuple[str, ...]:
    """The transports of MCP servers that the agent takes in such a turn."""
    return (agent.dialog.mcp if agent.dialog else ()) if TRANSPORT_FACTS[turn.transport].is_dialog else agent.mcp


def _unsupported(server: McpServer, agent: Agent, turn: Turn) -> OstlerError:
    what = f"{agent.name} does not support MCP servers over {server.transport}"
    in_dialog = TRANSPORT_FACTS[turn.transport].is_dialog
    if not in_dialog and agent.dialog is not None and server.transport in agent.dialog.mcp:
        return OstlerError("unsupported", f"{what} without --dialog", "Use --dialog")
    able = ", ".join(a.name for a in AGENTS.values() if a.dialog and server.transport in a.dialog.mcp)
    return OstlerError("unsupported", what, f"In a dialog these do: {able}")


def _with_program(server: McpServer, path: str) -> McpServer:
    found = on_path(server.command, path)
    if found is None:
        what = f"the MCP server {quoted(server.name)} has no program: `{server.command[:200]}`"
        raise OstlerError("missing", what, "Write its whole path, or the name of a program on PATH")
    return structs.replace(server, command=found)


# -- what they hold -----------------------------------------------------------------------------------


def secrets(servers: Iterable[McpServer | McpEntry]) -> set[str]:
    """Values that must not be written anywhere."""
    found: set[str] = set()
    for server in servers:
        for name, value in server.env.items():
            if holds_secret(name) or not value.startswith("/"):  # a folder's name would be masked wherever it stands
                found |= pieces(value)
        for value in server.headers.values():
            found |= {*pieces(value), *value.split()}  # of `Bearer …`, the token alone, too
        query = parse_qsl(urlsplit(server.url).query) if server.url else []
        found |= {value for _, value in query} | {password_in(server.url) or ""}
    return found


def without_values(servers: Iterable[McpServer]) -> tuple[McpServer, ...]:
    """What the store keeps: which servers there were, and the names of what they were given."""
    return tuple(
        McpServer(
            name=server.name,
            command=server.command,
            transport=server.transport,
            env=dict.fromkeys(server.env, ""),
            headers=dict.fromkeys(server.headers, ""),
        )
        for server in servers
    )
