"""A prompt that the process of a dialog does not take up is undelivered, long before silence counts."""

import asyncio

from ostler.testing.clock import Clock
from waiting import stop, until
from work.scripted import Stable, collect, turn_until


async def test_a_prompt_that_is_not_read_is_undelivered(stable: Stable, clock: Clock) -> None:
    stable.script.plays([{"history": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "one", transport="dialog")
        [launch] = stable.script.launches
        stop(launch.pid)
        await turn_until(clock, 1, asyncio.create_task(collect(session, "two", transport="dialog")))
        envelope = session.last
        assert envelope and envelope.error, envelope
        assert (envelope.outcome, envelope.error.kind) == ("failed", "undelivered")
        assert envelope.error.message == "script did not pick up the prompt within 30 s"
        # The next turn has another process, which goes on with the conversation.
        await collect(session, "three", transport="dialog")
        assert session.last and (session.last.outcome, session.last.text) == ("done", "one")


async def test_one_that_was_read_may_take_its_time(stable: Stable, clock: Clock) -> None:
    stable.script.plays([{"wait_for": str(stable.folder / "go")}, {"say": "Here."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        running = asyncio.create_task(collect(session, "one", transport="dialog"))
        await until(lambda: stable.script.launches)  # it has read the prompt
        await clock.turn(60)
        (stable.folder / "go").touch()
        await running
        assert session.last and session.last.text == "Here."
