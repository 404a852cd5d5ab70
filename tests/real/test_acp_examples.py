"""ostler as the client of the example agents that the SDKs of ACP ship."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from ostler.model import Answered, Asked, TextDelta, ToolEnded
from waiting import until
from work.acp_yard import AcpYard, pid_of, turn

pytestmark = [pytest.mark.timeout(120), pytest.mark.together("acpx")]
READ = "I'll help you with that. Let me start by reading some files to understand the current situation."
LAST = {
    "allow": " Perfect! I've successfully updated the configuration. The changes have been applied.",
    "deny": " I understand you prefer not to make that change. I'll skip the configuration update.",
}


def clis() -> Path:
    if not os.environ.get("OSTLER_TEST_CLIS"):
        pytest.fail("run `make test-real`: the examples are not there")
    return Path(os.environ["OSTLER_TEST_CLIS"])


@pytest.fixture
def typescript(tmp_path: Path) -> AcpYard:
    node = str(Path(os.environ["OSTLER_TEST_NODE"]) / "node")
    return AcpYard(tmp_path, (node, str(clis() / "node_modules/acp-example/dist/examples/agent.js")))


@pytest.mark.parametrize(
    ("example", "said"), [("agent", "Client sent:hello"), ("echo_agent", "hello")], ids=["agent", "echo_agent"]
)
async def test_the_python_sdks_examples(tmp_path: Path, example: str, said: str) -> None:
    yard = AcpYard(tmp_path, (sys.executable, str(clis() / f"acp-python/examples/{example}.py")))
    async with yard.ostler() as o:
        live = await yard.session(o)
        pids = set()
        for _ in range(2):
            envelope, _ = await turn(o, live, "hello")
            assert (envelope.outcome, envelope.text, envelope.error) == ("done", said, None)
            pids.add(pid_of(o, live))
        assert len(pids) == 1


@pytest.mark.parametrize("option", ["allow", "deny"])
async def test_the_typescript_sdks_example(typescript: AcpYard, option: str) -> None:
    async with typescript.ostler() as o:
        live = await typescript.session(o)
        envelope, events = await turn(o, live, "hello", option)
        assert (envelope.outcome, envelope.text) == ("done", LAST[option])
        assert "".join(e.text for e in events if isinstance(e, TextDelta)).startswith(READ)
        (asked,) = [e for e in events if isinstance(e, Asked)]
        assert (asked.tool, asked.title) == ("edit", "/home/user/project/config.json")
        assert [e.by for e in events if isinstance(e, Answered)] == ["a person"]
        assert [e.ok for e in events if isinstance(e, ToolEnded)] == [True, option == "allow"]


async def test_the_access_answers_the_typescript_sdks_example(typescript: AcpYard) -> None:
    """The file that it wants to change is not in the folder."""
    async with typescript.ostler() as o:
        live = await typescript.session(o, access="write")
        envelope, events = await turn(o, live, "hello")
        assert (envelope.outcome, envelope.text) == ("done", LAST["deny"])
        assert [e.by for e in events if isinstance(e, Answered)] == ["access write"]
        assert [(d.tool, d.access) for d in envelope.denied] == [("edit", "full")]


async def test_the_typescript_sdks_example_is_cancelled_then_goes_on(typescript: AcpYard) -> None:
    async with typescript.ostler() as o:
        live = await typescript.session(o)
        running = asyncio.create_task(turn(o, live, "hello"))
        await until(lambda: any(isinstance(e, TextDelta) for e in o.events(live.id)))
        pid = pid_of(o, live)
        await o.cancel(live.id)
        assert (await running)[0].outcome == "cancelled"
        assert (await turn(o, live, "hello"))[0].ok and pid_of(o, live) == pid
