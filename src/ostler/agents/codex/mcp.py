"""MCP servers of a dialog with codex: how they are told, and how codex asks before it calls their tools."""

from ostler.agents.dialog import AnswerKind
from ostler.agents.mcp import program
from ostler.agents.reader import Reader
from ostler.agents.values import Record, table, text
from ostler.model import McpServer, ToolStarted

ELICITATION = "mcpServer/elicitation/request"
ANSWERS: dict[AnswerKind, Record] = {
    "allow_once": {"action": "accept", "content": {}},
    # Never `always`: it would be written into the user's config.toml.
    "allow_always": {"action": "accept", "content": {}, "_meta": {"persist": "session"}},
    "reject_once": {"action": "decline"},
    "reject_always": {"action": "decline"},
    "cancelled": {"action": "cancel"},
}


def server_of(server: McpServer) -> Record:
    """A server as config.toml has it."""
    if server.transport == "stdio":
        return program(server)
    return {"url": server.url, "http_headers": server.headers}


def asks_for_call(method: str, params: Record) -> bool:
    """Whether codex asks on its own behalf; what a server itself wants of a person is not served."""
    return method == ELICITATION and table(params.get("_meta")).get("codex_approval_kind") == "mcp_tool_call"


def call_of(params: Record, reader: Reader) -> ToolStarted:
    """The call that the question is about: it names the server and the input, and the tool in a sentence alone."""
    server, input = text(params.get("serverName")), table(params.get("_meta")).get("tool_params")
    for call in reader.open_tools.values():
        if call.name.startswith(f"{server}.") and call.input == input:
            return call
    return ToolStarted(id="", name=server, title=text(params.get("message")), input=input)
