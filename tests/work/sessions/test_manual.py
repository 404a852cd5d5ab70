"""Sessions that a person drives: nothing is scheduled into the screen that somebody types into."""

import asyncio

import pytest

from ostler.errors import OstlerError
from ostler.model import Envelope, TransportName
from ostler.terminal.lease import Author
from ostler.testing.clock import Clock
from ostler.work import LiveSession, Ostler
from waiting import until
from work.scripted import Stable

EVE = Author("Eve", "person", "window-1")


@pytest.fixture(autouse=True)
def remembers(stable: Stable) -> None:
    stable.script.plays([{"history": True}])


async def shown(o: Ostler, stable: Stable) -> tuple[LiveSession, str]:
    """A session in its agent's own screen, with the id of that terminal, and Eve at its keyboard."""
    session = await o.session("script", folder=str(stable.folder), transport="pty")
    await session.run("one")
    [terminal] = o.terminals.list(session.id, live=True)
    await o.terminals.lease(terminal.id, EVE, "take")
    return session, terminal.id


async def envelope_of(session: LiveSession, transport: TransportName | None = None) -> Envelope:
    return await session.run("two", wait=True, transport=transport)


async def test_a_turn_is_refused_with_who_has_the_keyboard(stable: Stable) -> None:
    async with stable.ostler() as o:
        session, terminal = await shown(o, stable)
        assert o.terminals.get(terminal).tui and o.terminals.get(terminal).held_by == "Eve"
        for transport in ("pty", "pipe"):
            with pytest.raises(OstlerError, match=rf"Eve has the keyboard of script \({terminal}\)") as raised:
                await session.run("two", transport=transport)
            assert raised.value.kind == "busy" and "--wait" in raised.value.hint
        assert o.terminals.get(terminal).state == "live" and len(o.store.turns(session.id)) == 1
        await o.terminals.lease(terminal, EVE, "release")
        assert o.terminals.get(terminal).held_by == ""
        assert (await session.run("two")).text == "one"


async def test_another_process_knows_too(stable: Stable) -> None:
    async with stable.ostler() as here, stable.ostler() as there:
        session, terminal = await shown(here, stable)
        await until(lambda: there.store.terminal(terminal).held_by == "Eve")  # type: ignore[union-attr]
        other = await there.session(session=session.id)
        with pytest.raises(OstlerError, match="Eve has the keyboard"):
            await other.run("two")
        turn = asyncio.create_task(envelope_of(other, "pipe"))
        await until(lambda: there.find(session.id).state == "queued")
        await here.terminals.lease(terminal, EVE, "release")
        assert (await turn).text == "one"


@pytest.mark.parametrize("transport", ["pty", "pipe"])
async def test_a_turn_waits_in_line_until_it_is_handed_back(stable: Stable, transport: TransportName) -> None:
    async with stable.ostler() as o:
        session, terminal = await shown(o, stable)
        live = o.terminals.live(terminal)
        turn = asyncio.create_task(envelope_of(session, transport))
        await until(lambda: live is not None and live.lease.waiting is not None)
        assert o.find(session.id).state == "queued" and o.terminals.get(terminal).state == "live"
        await o.terminals.lease(terminal, EVE, "release")
        assert (await turn).text == "one"


async def test_an_idle_person_is_not_waited_for(stable: Stable, clock: Clock) -> None:
    async with stable.ostler() as o:
        session, terminal = await shown(o, stable)
        live = o.terminals.live(terminal)
        turn = asyncio.create_task(envelope_of(session))
        await until(lambda: live is not None and live.lease.waiting is not None)
        await clock.turn(61)
        assert (await turn).text == "one"


async def test_a_turn_that_waits_is_cancelled(stable: Stable) -> None:
    async with stable.ostler() as o:
        session, terminal = await shown(o, stable)
        live = o.terminals.live(terminal)
        turn = asyncio.create_task(envelope_of(session))
        await until(lambda: live is not None and live.lease.waiting is not None)
        await o.cancel(session.id)
        with pytest.raises(OstlerError, match="cancelled"):
            await turn
        assert o.terminals.get(terminal).held_by == "Eve" and live is not None and live.lease.waiting is None


async def test_the_end_of_the_program_hands_it_back(stable: Stable) -> None:
    async with stable.ostler() as o:
        session, terminal = await shown(o, stable)
        live = o.terminals.live(terminal)
        turn = asyncio.create_task(envelope_of(session))
        await until(lambda: live is not None and live.lease.waiting is not None)
        await o.terminals.kill(terminal)
        assert (await turn).text == "one"
        assert o.store.terminal(terminal).held_by == ""  # type: ignore[union-attr]
