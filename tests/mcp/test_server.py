"""`ostler mcp` as a real process, driven by the client of the official SDK over stdio."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters
from ostler.process import tree
from waiting import until
from work.scripted import Stable

NAMES = ["list_agents", "list_sessions", "start_turn", "wait_turn", "read_turn", "cancel_turn"]
OSTLER = [sys.executable, "-m", "ostler", "mcp"]


@asynccontextmanager
async def client_of(stable: Stable, *argv: str, **env: str) -> AsyncIterator[Client]:
    program, *args = argv or OSTLER
    server = StdioServerParameters(command=program, args=args, env={**stable.env, **env}, cwd=str(stable.folder))
    async with Client(server) as client:
        yield client


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def test_a_client_delegates(stable: Stable) -> None:
    async with client_of(stable) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == NAMES
        start = next(tool for tool in tools if tool.name == "start_turn")
        assert start.input_schema["required"] == ["prompt"] and "returns at once" in (start.description or "")
        begun = await call(client, "start_turn", agent="script", prompt="[[say:by another]]")
        ended = await call(client, "wait_turn", turn=begun["turn"])
        assert (ended["envelope"]["status"], ended["envelope"]["text"]) == ("ok", "by another")
        refused = await client.call_tool("start_turn", {"agent": "script", "prompt": "x", "access": "full"})
        assert refused.is_error and refused.structured_content["error"]["kind"] == "denied"  # type: ignore[index]
        left = await call(client, "start_turn", agent="script", prompt="[[never_end]]")
        await until(lambda: tree.marked(left["turn"]))
    await until(lambda: not tree.marked(left["turn"]))  # it ended with its server


async def test_a_forged_mark_does_not_make_it_less_deep(stable: Stable) -> None:
    marks = [""]
    for _ in range(3):  # each turn is begun by the agent of the one before
        async with stable.ostler(**({"OSTLER_TURN": marks[-1]} if marks[-1] else {})) as o:
            live = await o.session("script", folder=str(stable.folder), access="full")
            marks.append((await live.run("go")).turn)
    # The shell has the mark of the deepest turn; what it starts claims to belong to the first one.
    forged = f"OSTLER_TURN={marks[1]} {' '.join(OSTLER)} --access full; :"
    async with client_of(stable, "/bin/sh", "-c", forged, OSTLER_TURN=marks[3], PATH=os.environ["PATH"]) as client:
        told = await call(client, "start_turn", agent="script", prompt="x")
        assert told["error"]["kind"] == "denied" and "3 levels deep" in told["error"]["message"]
