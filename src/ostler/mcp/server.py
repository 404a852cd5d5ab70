"""The MCP server on stdio, by the official SDK, which takes seconds to import: nothing else imports this."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

import ostler
from ostler.access import Access
from ostler.errors import OstlerError
from ostler.mcp.parent_turns import marks_above, parent_turns
from ostler.mcp.tools import ToolArguments, Tools
from ostler.model import Problem
from ostler.process.tree import MARK
from ostler.settings import Settings
from ostler.store import Store
from ostler.work import Ostler
from ostler.work.folder_settings import loader

INSTRUCTIONS = (
    "Delegates work to other coding agents on this machine. start_turn gives one a prompt, wait_turn waits for what"
    " comes of it. Several turns may run side by side. They end when you do."
)
_LONGEST_LINE = 64 << 20
_READS = {"list_agents", "list_sessions", "wait_turn", "read_turn"}

_log = logging.getLogger(__name__)


async def serve(settings: Settings, environ: Mapping[str, str], access: Access) -> None:
    """Until stdin ends; then what was started is ended. Raises denied where a forged mark stands behind it."""
    with Store.open(settings.home) as store:
        marks = marks_above(store, environ)
        deepest = {MARK: parent_turns(store, marks)[0].id} if marks else {}
    async with Ostler(settings, {**environ, **deepest}, "mcp", loader(environ)) as o:
        _log.info("serving MCP on stdio, access %s, below %d turns", access, len(marks))
        tools = Tools(o, marks, access, os.path.realpath("."))
        server = _server(tools)
        async with stdio_server(stdin=await _stdin()) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        _log.info("stdin has ended: what was started is ended")


async def _stdin() -> Any:
    """Lines of stdin, which are read without a thread: one that waits for a line could not be cancelled."""
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    try:
        pipe = open(0, "rb", 0, closefd=False)  # noqa: SIM115  # read until this process ends
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    except (OSError, ValueError):
        return None  # a file or /dev/null, which never make anybody wait: the SDK reads them
    return _lines(reader)


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    while line := await reader.readline():
        yield line.decode(errors="replace")


def _server(tools: Tools) -> "Server[Any]":
    async def list_tools(_: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[described(name, kind) for name, kind in tools.kinds().items()])

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            result = await tools.call(params.name, params.arguments or {})
        except OstlerError as error:
            _log.info("a call failed: %s", error.kind)  # its message may quote an argument
            return _result({"error": msgspec.to_builtins(Problem.of(error))}, is_error=True)
        return _result(result)

    return Server(
        "ostler",
        version=ostler.__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def described(name: str, kind: type[ToolArguments]) -> types.Tool:
    """A tool as it is listed: its schema is that of its arguments."""
    (schema,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    whole = parts.pop(str(schema["$ref"]).rpartition("/")[2])
    text = " ".join(str(whole.pop("description", "")).split())
    return types.Tool(
        name=name,
        description=text,
        input_schema={**whole, **({"$defs": parts} if parts else {})},
        annotations=types.ToolAnnotations(read_only_hint=name in _READS, open_world_hint=name == "start_turn"),
    )


def _result(value: dict[str, Any], is_error: bool = False) -> types.CallToolResult:
    text = types.TextContent(type="text", text=msgspec.json.encode(value).decode())
    return types.CallToolResult(content=[text], structured_content=value, is_error=is_error)
