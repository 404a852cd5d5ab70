"""`ostler acp` driven by the Python SDK's own client."""

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_peer import environ_of

ASK = '[[ask:{"tool": "shell", "input": {"command": "touch made.txt"}, "then": [{"run": "touch made.txt"}]}]][[say:so]]'


@pytest.fixture(scope="module")
def sdk() -> Any:
    """Imported by who needs it: its models take more than a second."""
    return importlib.import_module("acp")


class Editor:
    """What a client has to be; it allows everything, or nothing."""

    def __init__(self, sdk: Any, kind: str = "allow_once") -> None:
        self.sdk = sdk
        self.kind = kind
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.news = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append(update)
        self.news.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **more: Any) -> Any:
        self.asked.append(tool_call)
        option = next(option.option_id for option in options if option.kind == self.kind)
        schema = self.sdk.schema
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=option))

    def on_connect(self, conn: Any) -> None: ...

    def kinds(self) -> list[str]:
        return [update.session_update for update in self.updates]

    def said(self) -> str:
        return "".join(u.content.text for u in self.updates if u.session_update == "agent_message_chunk")


def connection(editor: Editor, folder: Path) -> Any:
    return editor.sdk.spawn_agent_process(
        editor,
        sys.executable,
        "-m",
        "ostler",
        "acp",
        "claude",
        "--access=write",
        env=environ_of(folder),
        cwd=folder,
        transport_kwargs={"shutdown_timeout": 60},  # else a busy machine is what ends the agent
    )


@pytest.mark.parametrize("kind", ["allow_once", "reject_once"])
async def test_a_session_from_beginning_to_end(sdk: Any, folder: Path, kind: str) -> None:
    editor = Editor(sdk, kind)
    async with connection(editor, folder) as (agent, process):
        told = await agent.initialize(protocol_version=1, client_capabilities=sdk.schema.ClientCapabilities())
        assert (told.protocol_version, told.agent_info.name) == (1, "ostler")
        new = await agent.new_session(cwd=str(folder), mcp_servers=[])
        answer = await agent.prompt(session_id=new.session_id, prompt=[sdk.text_block("[[think:Hm]]" + ASK)])
        assert (answer.stop_reason, editor.said()) == ("end_turn", "so")
        assert (folder / "made.txt").exists() is (kind == "allow_once")
        assert [call.title for call in editor.asked] == ["touch made.txt"]
        assert {"agent_thought_chunk", "tool_call", "tool_call_update", "session_info_update"} <= {*editor.kinds()}
        await agent.set_session_mode(session_id=new.session_id, mode_id="read")
        chosen = await agent.set_config_option(session_id=new.session_id, config_id="model", value="m1")
        assert {option.id: option.current_value for option in chosen.config_options} == {
            "mode": "read",
            "model": "m1",
            "agent": "claude",
        }
        editor.updates.clear()
        await agent.load_session(session_id=new.session_id, cwd=str(folder), mcp_servers=[])
        assert editor.kinds()[0] == "user_message_chunk" and editor.said() == "so"
        assert [info.session_id for info in (await agent.list_sessions(cwd=str(folder))).sessions] == [new.session_id]
        with pytest.raises(sdk.RequestError) as refused:
            await agent.prompt(session_id=new.session_id, prompt=[sdk.text_block("[[fail:unauthenticated]]")])
        assert refused.value.code == -32000
    assert process.returncode == 0


async def test_cancel(sdk: Any, folder: Path) -> None:
    editor = Editor(sdk)
    async with connection(editor, folder) as (agent, _):
        await agent.initialize(protocol_version=1)
        new = await agent.new_session(cwd=str(folder), mcp_servers=[])
        prompt = [sdk.text_block("[[say:begun]][[never_end]]")]
        running = asyncio.create_task(agent.prompt(session_id=new.session_id, prompt=prompt))
        while not editor.said():
            editor.news.clear()
            await editor.news.wait()
        await agent.cancel(session_id=new.session_id)
        assert (await running).stop_reason == "cancelled"
        again = await agent.prompt(session_id=new.session_id, prompt=[sdk.text_block("[[say:again]]")])
        assert again.stop_reason == "end_turn"
