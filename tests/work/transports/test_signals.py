"""A turn that is cancelled by a signal: its processes get that, whatever runs the turn, and none is left."""

import signal
from contextlib import aclosing

import pytest

from ostler.model import Exit, TerminalOpened, Text, TransportName
from ostler.process import Size, tree
from waiting import until
from work.scripted import Stable


@pytest.mark.parametrize("transport", ["pipe", "dialog"])
async def test_an_agent_is_not_asked_first(stable: Stable, transport: TransportName) -> None:
    stable.script.plays([{"say": "here"}, {"never_end": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        async with aclosing(session.run("go", transport=transport)) as events:
            async for event in events:
                if isinstance(event, Text):
                    assert await o.cancel(session.id, signal="QUIT") is True
        last = session.last
        assert (last.outcome, last.exit) == ("cancelled", Exit(signal=signal.SIGQUIT))
        assert tree.marked(last.turn) == []


@pytest.mark.parametrize("of", ["turn", "session"])
async def test_whoever_holds_the_turn_can_send_one_too(stable: Stable, of: str) -> None:
    stable.script.plays([{"say": "here"}, {"never_end": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = session.run("go")
        async for event in turn:
            if isinstance(event, Text) and of == "turn":
                turn.cancel("HUP")
            elif isinstance(event, Text):
                await session.cancel("HUP")
        assert (session.last.outcome, session.last.exit) == ("cancelled", Exit(signal=signal.SIGHUP))


async def test_what_ignores_the_signal_is_killed(stable: Stable) -> None:
    ready = stable.folder / "ready"
    async with stable.ostler() as o:
        command = ["sh", "-c", f"trap '' TERM; touch {ready}; while :; do sleep 0.05; done"]
        events = o.exec(command, folder=str(stable.folder), name="stubborn", tty=Size(80, 24))
        async with aclosing(events):
            async for event in events:
                if isinstance(event, TerminalOpened):
                    await until(ready.exists)
                    assert await o.cancel("stubborn", signal="TERM") is True
        envelope = await events
        assert (envelope.outcome, envelope.exit) == ("cancelled", Exit(signal=signal.SIGKILL))
