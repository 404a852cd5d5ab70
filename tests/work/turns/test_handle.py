"""A turn in the caller's hands: awaited, iterated, left, cancelled."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from ostler.errors import OstlerError
from ostler.model import AnyEvent, Ended, Envelope, Text
from ostler.work.turns.handle import TurnHandle
from waiting import until
from work.scripted import Stable


async def test_it_is_awaited_for_its_envelope(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = session.run("[[say:hi]]")
        assert repr(turn) == "<TurnHandle (no id yet): not begun>" and turn.envelope is None
        envelope = await turn
        assert (envelope.ok, envelope.text) == (True, "hi")
        assert turn.envelope is envelope is session.last is await turn
        assert repr(turn) == f"<TurnHandle {envelope.turn}: done>"
        assert len(o.store.turns(session.id)) == 1


async def test_it_is_iterated_and_then_awaited(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = session.run("[[say:hi]]")
        events = [event async for event in turn]
        assert events == o.events(session.id) and isinstance(events[-1], Ended)
        assert (await turn).text == "hi"
        assert [event async for event in turn] == []  # it runs once


async def test_many_at_once(stable: Stable) -> None:
    async with stable.ostler() as o:
        sessions = [await o.session("script", folder=str(stable.folder)) for _ in range(3)]
        envelopes = await asyncio.gather(*(each.run(f"[[say:{n}]]") for n, each in enumerate(sessions)))
        assert [envelope.text for envelope in envelopes] == ["0", "1", "2"]


async def test_leaving_the_loop_early_cancels_it(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = session.run("[[say:working]] [[never_end]]")
        async for event in turn:
            if isinstance(event, Text):
                assert repr(turn).endswith(": running>")
                break
        envelope = await turn
        assert (envelope.outcome, envelope.text) == ("cancelled", "working")
        assert envelope.error is not None and envelope.error.message == "its caller stopped reading events"


async def test_an_error_in_the_loop_cancels_it_too(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = session.run("[[say:working]] [[never_end]]")
        with pytest.raises(ZeroDivisionError):
            async with aclosing(turn):
                async for event in turn:
                    if isinstance(event, Text):
                        1 / 0  # noqa: B018
        assert turn.envelope is not None and turn.envelope.outcome == "cancelled"


async def test_a_cancel_ends_it_as_cancelled(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = session.run("[[say:working]] [[never_end]]")
        last: AnyEvent | None = None
        async for event in turn:
            last = event
            if isinstance(event, Text):
                turn.cancel()
        assert isinstance(last, Ended) and last.outcome == "cancelled"
        assert (await turn).text == "working"


async def test_cancelling_the_task_that_awaits_it_cancels_it(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = session.run("[[say:working]] [[never_end]]")
        waiting = asyncio.ensure_future(turn)
        await until(lambda: any(isinstance(event, Text) for event in o.events(session.id)))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert turn.envelope is not None and turn.envelope.outcome == "cancelled"


async def test_somebody_awaits_what_another_one_reads(stable: Stable) -> None:
    gate = stable.folder / "gate"
    stable.script.plays([{"say": "1"}, {"wait_for": str(gate)}, {"say": "2"}])
    async with stable.ostler() as o:
        turn = (await o.session("script", folder=str(stable.folder))).run("go")
        waiting: asyncio.Future[Envelope] | None = None
        async for event in turn:
            if waiting is None and isinstance(event, Text):
                waiting = asyncio.ensure_future(turn)
                gate.touch()
        assert waiting is not None and await waiting is turn.envelope


async def test_what_cannot_begin_raises_each_time(stable: Stable) -> None:
    async with stable.ostler() as o:
        turn = (await o.session("script", folder=str(stable.folder))).run(" ")
        for _ in range(2):
            with pytest.raises(OstlerError, match="the prompt is empty"):
                await turn
        assert o.sessions() == []


async def test_a_turn_that_was_closed_before_it_began() -> None:
    async def run(turn: TurnHandle) -> AsyncGenerator[AnyEvent, None]:
        raise AssertionError("it began")
        yield Ended(outcome="done")

    turn = TurnHandle(run)
    await turn.aclose()
    with pytest.raises(OstlerError, match="cancelled before the turn began") as raised:
        await turn
    assert raised.value.kind == "cancelled"


async def test_what_one_meets_in_a_debugger(stable: Stable) -> None:
    folder = str(stable.folder)
    async with stable.ostler() as o:
        session = await o.session("script", folder=folder, name="tour")
        assert repr(session) == f"<LiveSession {session.id} 'tour': script in {folder}, idle>"
        assert repr(o) == f"<Ostler on {o.store.folder}>"
    error = OstlerError("busy", "it runs", "Wait")
    assert (repr(error), repr(OstlerError("busy", "it runs"))) == (
        "OstlerError('busy', 'it runs', hint='Wait')",
        "OstlerError('busy', 'it runs')",
    )
