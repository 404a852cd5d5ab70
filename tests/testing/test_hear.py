"""The scripted agent is told more while it works: heard in its turn, or not at all."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import Envelope, Text, TextDelta
from ostler.work import LiveSession, Ostler
from waiting import until
from work.acp_yard import AcpYard
from work.scripted import Stable


async def begin(o: Ostler, live: LiveSession, prompt: str) -> "asyncio.Task[Envelope]":
    """A turn in a dialog that has said something, and goes on."""

    async def run() -> Envelope:
        async for _ in live.run(f"[[say:begun]]{prompt}", transport="dialog"):
            pass
        assert live.last is not None
        return live.last

    after = len(o.events(live.id))
    task = asyncio.create_task(run())
    await until(lambda: any(isinstance(event, Text | TextDelta) for event in o.events(live.id)[after:]))
    return task


@pytest.fixture
def stable(tmp_path: Path, scripted_agent: Any) -> Stable:
    return Stable(tmp_path, scripted_agent)


async def test_words_are_heard_in_order_and_only_in_their_turn(stable: Stable) -> None:
    gate = stable.folder / "gate"
    async with stable.ostler() as o:
        live = await o.session("script", folder=str(stable.folder))
        turn = await begin(o, live, f"[[wait_for:{gate}]][[hear]]")
        for words in ("one", "two, which nobody hears"):
            await o.steer(live.id, words)
        gate.touch()
        assert ((envelope := await turn).outcome, envelope.text) == ("done", "one")
        with pytest.raises(OstlerError) as late:
            await o.steer(live.id, "three")
        assert late.value.kind == "not_found"
        turn = await begin(o, live, "[[hear]]")
        await o.steer(live.id, "four")
        assert (await turn).text == "four"


async def test_an_interrupt_ends_the_listening(stable: Stable) -> None:
    async with stable.ostler() as o:
        live = await o.session("script", folder=str(stable.folder))
        turn = await begin(o, live, "[[hear]]")
        await live.cancel()
        assert (await turn).outcome == "cancelled"
        turn = await begin(o, live, "[[say:still there]]")
        assert (await turn).text == "still there"


async def test_outside_of_a_dialog_nobody_can_be_heard(stable: Stable) -> None:
    envelope, _ = await stable.turn("[[hear]]")
    assert envelope.outcome != "done" and envelope.error is not None
    assert "only in a dialog" in envelope.error.message


async def test_an_agent_of_acp_takes_no_words_while_it_works(tmp_path: Path) -> None:
    yard = AcpYard(tmp_path)
    gate = yard.folder / "gate"
    async with yard.ostler() as o:
        live = await yard.session(o, access="read")
        turn = await begin(o, live, f"[[wait_for:{gate}]]")
        with pytest.raises(OstlerError) as refused:
            await o.steer(live.id, "hurry")
        assert (refused.value.kind, refused.value.hint) == ("unsupported", "Queue it as the next prompt")
        gate.touch()
        assert (await turn).outcome == "done"
