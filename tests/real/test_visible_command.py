"""`claude -p` in a terminal: ended by its exit and its hooks."""

import pytest

from ostler.model import Hook, TerminalOpened
from ostler.testing.answers import FINAL
from real.yard import Yard

pytestmark = [pytest.mark.parametrize("agent", ["claude"]), pytest.mark.timeout(240)]


@pytest.mark.core
async def test_a_visible_turn_and_the_next_one(yard: Yard) -> None:
    async with yard.ostler() as o:
        session = await yard.session(o)
        prompt = '[[shell:echo from-the-tool > made.txt]] it\'s "quoted"; ü'
        events = [event async for event in session.run(prompt, transport="visible", access="full")]
        envelope = session.last
        assert envelope and (envelope.status, envelope.text) == ("ok", FINAL), envelope
        assert envelope.evidence[:2] == ("the process exited, SessionEnd came", "hook Stop")
        assert envelope.exit and envelope.exit.code == 0
        assert envelope.stdout and FINAL in envelope.stdout
        assert (yard.folder / "made.txt").read_text() == "from-the-tool\n"
        assert any(isinstance(event, TerminalOpened) for event in events)
        assert {"SessionStart", "Stop", "SessionEnd"} <= {event.name for event in events if isinstance(event, Hook)}
        again = [event async for event in session.run("and now?", transport="visible")]
        assert session.last and session.last.ok and session.last.agent_session == envelope.agent_session
        starts = [event for event in again if isinstance(event, Hook) and event.name == "SessionStart"]
        assert starts[0].payload["source"] == "resume"
        # Behind the wall of `read`, in which nothing of ostler's can be removed: in one terminal, turn after turn.
        more = [event async for event in session.run("and then?", transport="visible")]
        assert session.last.ok
        walled = [event.terminal for event in (*again, *more) if isinstance(event, TerminalOpened)]
        assert len(walled) == 2 and walled[0] == walled[1]
