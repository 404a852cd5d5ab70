"""ostler as an ACP client: of an agent on the TypeScript SDK; and its frames, by the published schema."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from acp_peer import Schema
from ostler.model import Asked, Attachment, McpServer, Thought, ThoughtDelta, ToolEnded
from real.yard import PIXEL
from waiting import until
from work.acp_yard import AcpYard, frames, overheard, pid_of, turn

pytestmark = [pytest.mark.timeout(240), pytest.mark.together("acpx")]


def modules() -> Path:
    clis = os.environ.get("OSTLER_TEST_CLIS")
    if not clis:
        pytest.fail("run `make test-real`: the SDK is not installed")
    return Path(clis) / "node_modules"


@pytest.fixture
def clerk(tmp_path: Path) -> AcpYard:
    """An agent on the TypeScript SDK: node looks for modules beside the file."""
    place = tmp_path / "clerk"
    place.mkdir()
    shutil.copy(Path(__file__).parent / "sdk_agent.mjs", place)
    (place / "node_modules").symlink_to(modules())
    node = str(Path(os.environ["OSTLER_TEST_NODE"]) / "node")
    return AcpYard(tmp_path, (node, str(place / "sdk_agent.mjs")))


@pytest.mark.parametrize(("option", "said", "made"), [("allow", "I wrote it.", True), ("deny", "I did not.", False)])
async def test_a_turn_of_an_agent_on_the_typescript_sdk(clerk: AcpYard, option: str, said: str, made: bool) -> None:
    async with clerk.ostler() as o:
        live = await clerk.session(o, access="write")
        envelope, events = await turn(o, live, "hello", option)
        assert (envelope.outcome, envelope.text, envelope.agent_session) == ("done", said, "clerk-0")
        assert [e.text for e in events if isinstance(e, Thought)] == ["Hm."]
        (asked,) = [e for e in events if isinstance(e, Asked)]
        assert (asked.tool, asked.diff) == ("edit", "--- /dev/null\n+++ b/note.txt\n@@ -0,0 +1 @@\n+hello\n")
        assert [e.ok for e in events if isinstance(e, ToolEnded)] == [made]
    assert (clerk.folder / "note.txt").exists() is made


async def test_cancel_then_another_turn(clerk: AcpYard) -> None:
    async with clerk.ostler() as o:
        live = await clerk.session(o)
        running = asyncio.create_task(turn(o, live, "wait"))
        await until(lambda: any(isinstance(e, ThoughtDelta) for e in o.events(live.id)))
        pid = pid_of(o, live)
        await o.cancel(live.id)
        assert (await running)[0].outcome == "cancelled"
        assert (await turn(o, live, "one"))[0].ok and pid_of(o, live) == pid


async def test_every_frame_by_the_published_schema(tmp_path: Path) -> None:
    log = tmp_path / "frames"
    yard = AcpYard(tmp_path, overheard(log))
    async with yard.ostler() as o:
        live = await yard.session(o, system="Be brief.")
        (yard.folder / "n2.txt").write_text("N2")
        (yard.folder / "pixel.png").write_bytes(PIXEL)
        mcp = [McpServer(name="db", command="/bin/cat", args=("-u",), env={"A": "b"})]
        attached: list[Any] = [Attachment(name="n.txt", content="N"), "n2.txt", "pixel.png"]
        steps = "[[run:true]][[write:a.txt]][[read:a.txt]][[say:x]]"
        await turn(o, live, steps, "always", attachments=attached, mcp=mcp)
        await turn(o, live, "[[read:/etc/passwd]][[ask:{}]][[say:x]]", "deny", model="scripted-fast", mcp=mcp)
        running = asyncio.create_task(turn(o, live, "[[ask:{}]]", "", mcp=mcp))
        await until(lambda: o.store.session(live.id).state == "asking")
        await o.cancel(live.id)
        await running
        await o.dialogs.close()
        await turn(o, live, "[[say:resumed]]", mcp=mcp)
    sent, said = (frames(f"{log}.{side}") for side in ("client", "agent"))
    methods = {frame["id"]: frame["method"] for frame in said if "method" in frame and "id" in frame}
    schema = Schema(modules() / "@agentclientprotocol/sdk/schema/v1/schema.json")
    assert schema.check(sent, methods) == len(sent)
    assert {frame["method"] for frame in sent if "method" in frame} == {
        *("initialize", "session/new", "session/resume", "session/prompt", "session/set_config_option"),
        *("session/cancel", "session/close"),
    }
    assert {methods[frame["id"]] for frame in sent if "method" not in frame} >= {
        *("session/request_permission", "fs/read_text_file", "fs/write_text_file"),
    }
    # The scripted agent keeps to it, too.
    asked = {frame["id"]: frame["method"] for frame in sent if "method" in frame and "id" in frame}
    assert schema.check(said, asked) == len(said)
