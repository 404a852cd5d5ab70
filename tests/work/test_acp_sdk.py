"""ostler as the client of an agent on the Python SDK."""

import asyncio
import sys
from pathlib import Path

import pytest

from ostler.model import Asked, PlanStep, Text, Thought, ThoughtDelta, ToolEnded
from waiting import until
from work.acp_yard import AcpYard, pid_of, turn

AGENT = (sys.executable, str(Path(__file__).parent / "sdk_agent.py"))


@pytest.mark.parametrize(("option", "said", "made"), [("allow", "I wrote it.", True), ("deny", "I did not.", False)])
async def test_a_turn_with_a_question_and_a_file(tmp_path: Path, option: str, said: str, made: bool) -> None:
    yard = AcpYard(tmp_path, AGENT)
    async with yard.ostler() as o:
        live = await yard.session(o, access="write")
        envelope, events = await turn(o, live, "hello", option)
        assert (envelope.outcome, envelope.text, envelope.agent_session) == ("done", said, "clerk-0")
        assert [e.text for e in events if isinstance(e, Thought)] == ["Hm."]
        assert [s for e in events for s in getattr(e, "steps", ())] == [PlanStep(text="write", status="active")]
        (asked,) = [e for e in events if isinstance(e, Asked)]
        assert (asked.tool, asked.diff) == ("edit", "--- /dev/null\n+++ b/note.txt\n@@ -0,0 +1 @@\n+hello\n")
        assert [e.ok for e in events if isinstance(e, ToolEnded)] == [made]
    assert (yard.folder / "note.txt").exists() is made


async def test_cancel_then_resume_in_a_new_process(tmp_path: Path) -> None:
    yard = AcpYard(tmp_path, AGENT)
    async with yard.ostler() as o:
        live = await yard.session(o)
        running = asyncio.create_task(turn(o, live, "wait"))
        await until(lambda: any(isinstance(e, ThoughtDelta) for e in o.events(live.id)))
        await o.cancel(live.id)
        envelope, _ = await running
        assert envelope.outcome == "cancelled"
        first = pid_of(o, live)
        assert (await turn(o, live, "one"))[0].ok and pid_of(o, live) == first
        await o.dialogs.close()
        envelope, events = await turn(o, live, "two")
        assert envelope.ok and envelope.agent_session == "clerk-0"
        assert [e.text for e in events if isinstance(e, Text)] == ["I wrote it."]  # nothing of what was replayed
    assert (yard.folder / "note.txt").read_text() == "two"
