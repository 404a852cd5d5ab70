"""A small agent on the Python SDK of ACP: it thinks, plans, writes a file with permission, and can be cancelled."""

import asyncio
import os
from typing import Any

from acp.schema import AgentCapabilities, Implementation, PermissionOption, ToolCallLocation, ToolCallUpdate

import acp

OPTIONS = [
    PermissionOption(option_id="no", name="No", kind="reject_once"),
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
]


class Clerk(acp.Agent):
    def __init__(self) -> None:
        self.client: Any = None
        self.folders: dict[str, str] = {}
        self.stopped = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **more: Any) -> Any:
        return acp.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(load_session=True),
            agent_info=Implementation(name="clerk", title="Clerk", version="1"),
        )

    async def new_session(self, cwd: str, mcp_servers: Any = None, **more: Any) -> Any:
        id = f"clerk-{len(self.folders)}"
        self.folders[id] = cwd
        return acp.NewSessionResponse(session_id=id)

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **more: Any) -> Any:
        self.folders[session_id] = cwd
        await self.client.session_update(session_id, acp.update_user_message_text("what was said"))
        await self.client.session_update(session_id, acp.update_agent_message_text("what was answered"))
        return acp.LoadSessionResponse()

    async def prompt(self, prompt: list[Any], session_id: str, **more: Any) -> Any:
        self.stopped.clear()
        said = prompt[0].text
        await self._tell(session_id, acp.update_agent_thought_text("Hm."))
        if said == "wait":
            await self.stopped.wait()
            return acp.PromptResponse(stop_reason="cancelled")
        await self._tell(session_id, acp.update_plan([acp.plan_entry("write", status="in_progress")]))
        written = await self._write(session_id, os.path.join(self.folders[session_id], "note.txt"), said)
        for piece in ("I ", "wrote it." if written else "did not."):
            await self._tell(session_id, acp.update_agent_message_text(piece))
        return acp.PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **more: Any) -> None:
        self.stopped.set()

    async def _tell(self, session: str, update: Any) -> None:
        await self.client.session_update(session, update)

    async def _write(self, session: str, path: str, text: str) -> bool:
        place = [ToolCallLocation(path=path)]
        await self._tell(session, acp.start_tool_call("w1", "Write note.txt", kind="edit", locations=place))
        diff = [acp.tool_diff_content(path, text)]
        call = ToolCallUpdate(tool_call_id="w1", title="Write note.txt", kind="edit", locations=place, content=diff)
        asked = await self.client.request_permission(session_id=session, tool_call=call, options=OPTIONS)
        if getattr(asked.outcome, "option_id", "") != "yes":
            return False
        await self.client.write_text_file(session_id=session, path=path, content=text)
        read = await self.client.read_text_file(session_id=session, path=path)
        content = [acp.tool_content(acp.text_block(read.content))]
        await self._tell(session, acp.update_tool_call("w1", status="completed", content=content))
        return True


asyncio.run(acp.run_agent(Clerk()))
