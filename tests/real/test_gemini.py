"""What gemini alone does: conversations that its own clean-up would take away."""

from pathlib import Path

import pytest

from real.yard import Yard

pytestmark = pytest.mark.parametrize("agent", ["gemini"])


async def test_a_resumed_conversation_survives_another_session_of_the_folder(yard: Yard) -> None:
    """Resumed in a later minute, a conversation has two files, one of them empty: gemini would delete both."""
    async with yard.ostler() as o:
        live = await yard.session(o)
        first = await live.run("how many horses?")
        _an_hour_older(yard.home)
        assert (await live.run("and how many mules?")).ok
        assert (await (await yard.session(o, name="another")).run("what else?")).ok
        async for _ in live.run("and donkeys?", transport="dialog"):
            pass
        assert live.last is not None and live.last.ok, live.last
        assert live.last.agent_session == first.agent_session
        assert "how many horses?" in yard.model.asked[-1].text


def _an_hour_older(home: Path) -> None:
    """gemini names the file after the minute in which the conversation began."""
    [file] = home.glob(".gemini/tmp/*/chats/session-*.jsonl")
    _, _, id = file.stem.rpartition("-")
    file.rename(file.with_name(f"session-2026-01-01T10-00-{id}.jsonl"))
