"""A session goes from transport to transport: same id, same journal, the agent's own conversation."""

import asyncio
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import Envelope, Notice, TransportName
from ostler.process import tree
from ostler.terminal.keys import Key
from ostler.terminal.lease import Author
from ostler.terminal.live import LiveTerminal
from ostler.terminal.viewer_protocol import PressKey, Type
from ostler.work import LiveSession, Ostler
from ostler.work.sessions.moving import MidTurn
from ostler.work.terminals.terminal import Terminal
from waiting import until
from work.scripted import Stable

EVE = Author("Eve", "person", "window-1")


def moves(o: Ostler, session: str) -> list[str]:
    events = o.store.events(session)
    return [event.text for event in events if isinstance(event, Notice) and event.code == "moved"]


async def begun(o: Ostler, session: LiveSession, prompt: str, **options: Any) -> "asyncio.Task[Envelope]":
    """A turn that has begun, and waits for the file `go`."""

    async def run() -> Envelope:
        return await session.run(prompt, **options)

    task = asyncio.create_task(run())
    await until(lambda: any(turn.state == "running" for turn in o.store.running_turns()))
    return task


async def test_a_conversation_goes_along(stable: Stable) -> None:
    stable.script.plays([{"history": True}])
    way: list[TransportName] = ["pipe", "pty", "dialog", "visible", "pipe"]
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        told: list[str] = []
        for n, transport in enumerate(way):
            await session.move(transport)
            envelope = await session.run(f"word {n}")
            assert envelope.outcome == "done", envelope
            if transport != "visible":  # what a command prints is for people
                assert envelope.text == ("\n".join(told) or "nothing")  # all that was said before
            told.append(f"word {n}")
        turns = o.store.turns(session.id)
        assert [row.turn.transport for row in turns] == way
        assert len({row.turn.agent_session for row in turns}) == 1
        assert [text.partition(":")[0] for text in moves(o, session.id)] == [f"moved to {name}" for name in way[1:]]
        assert o.find(session.id).transport == "pipe"


async def test_what_the_transport_before_kept_is_ended(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), transport="pty")
        await session.run("one")
        [terminal] = o.terminals.list(session.id, live=True)
        await session.move("dialog")
        assert o.terminals.list(session.id, live=True) == [] and tree.marked(terminal.id) == []
        await session.run("two")
        assert o.dialogs.holds(session.id)
        await session.move("pty")
        assert not o.dialogs.holds(session.id)


async def test_another_process_ends_what_it_keeps(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}])
    async with stable.ostler() as here, stable.ostler() as there:
        session = await here.session("script", folder=str(stable.folder), transport="dialog")
        await session.run("one")
        moved = await there.move(session.id, "pty")
        assert moved.transport == "pty" and not here.dialogs.holds(session.id)
        await session.run("two")  # which was opened before it moved
        assert here.store.turns(session.id)[-1].turn.transport == "pty"


async def test_a_turn_that_says_otherwise(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await session.move("dialog")  # before its first turn: nothing to tell
        for transport in (None, "pipe", None):
            await session.run("go", transport=transport)
        assert [row.turn.transport for row in o.store.turns(session.id)] == ["dialog", "pipe", "dialog"]
        assert moves(o, session.id) == []


async def test_where_it_is_already(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await session.run("go")
        await session.move("pipe")
        await session.move("pipe")
        assert moves(o, session.id) == [] and o.find(session.id).transport == "pipe"


async def test_a_busy_session_says_what_to_do(stable: Stable) -> None:
    stable.script.plays([{"wait_for": str(stable.folder / "go")}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), name="barn")
        turn = await begun(o, session, "work")
        with pytest.raises(OstlerError, match="a turn is running in session barn") as raised:
            await o.move("barn", "pty")
        assert raised.value.kind == "busy" and "--wait" in raised.value.hint and "--interrupt" in raised.value.hint
        (stable.folder / "go").touch()
        await turn
        assert o.find("barn").transport is None


async def test_a_turn_is_waited_for(stable: Stable) -> None:
    stable.script.plays([{"wait_for": str(stable.folder / "go")}, {"say": "Whole."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = await begun(o, session, "work")
        moving = asyncio.create_task(o.move(session.id, "dialog", "wait"))
        await until(lambda: o.find(session.id).moving_to == "dialog")
        assert not moving.done() and o.find(session.id).transport is None
        (stable.folder / "go").touch()
        assert (await turn).outcome == "done"
        moved = await moving
        assert (moved.transport, moved.moving_to) == ("dialog", None)
        assert [text.partition(":")[0] for text in moves(o, session.id)] == ["moved to dialog"]


async def test_it_moves_though_nobody_waits_any_more(stable: Stable) -> None:
    stable.script.plays([{"wait_for": str(stable.folder / "go")}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = await begun(o, session, "work")
        moving = asyncio.create_task(o.move(session.id, "dialog", "wait"))
        await until(lambda: o.find(session.id).moving_to == "dialog")
        moving.cancel()
        (stable.folder / "go").touch()
        await turn
        assert o.find(session.id).transport == "dialog"


@pytest.mark.parametrize("transport", ["pipe", "pty"])
async def test_a_turn_is_interrupted(stable: Stable, transport: TransportName) -> None:
    stable.script.plays([{"wait_for": str(stable.folder / "never")}], [{"say": "Here."}])
    async with stable.ostler() as here, stable.ostler() as there:
        session = await here.session("script", folder=str(stable.folder), transport=transport)
        turn = await begun(here, session, "work")
        if transport == "pty":
            await until(lambda: any(getattr(e, "text", "").startswith("acknowledged") for e in here.events(session.id)))
        moved = await there.move(session.id, "dialog", "interrupt")
        assert moved.transport == "dialog" and (await turn).outcome == "cancelled"


@pytest.mark.parametrize("mid_turn", ["wait", "interrupt"])
async def test_a_queued_turn_goes_to_the_new_transport(stable: Stable, mid_turn: MidTurn) -> None:
    stable.script.plays(
        {"match": "one", "steps": [{"wait_for": str(stable.folder / "go")}, {"say": "Done."}]}, [{"say": "Here."}]
    )
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        first = await begun(o, session, "one")
        queued = asyncio.create_task(_envelope(await o.session(session=session.id), "two"))
        await until(lambda: any(turn.state == "queued" for turn in o.store.running_turns()))
        moving = asyncio.create_task(o.move(session.id, "dialog", mid_turn))
        if mid_turn == "wait":
            await until(lambda: o.find(session.id).moving_to)
            (stable.folder / "go").touch()
        assert (await first).outcome == ("done" if mid_turn == "wait" else "cancelled")
        assert (await queued).outcome == "done" and (await moving).transport == "dialog"
        assert [row.turn.transport for row in o.store.turns(session.id)] == ["pipe", "dialog"]


async def _envelope(session: LiveSession, prompt: str) -> Envelope:
    return await session.run(prompt, wait=True)


async def test_an_agent_that_lacks_the_transport(stable: Stable) -> None:
    async with stable.ostler(OSTLER_ONLY="cursor") as o:
        session = await o.session("cursor", folder=str(stable.folder))
        await session.keep()
        with pytest.raises(OstlerError) as raised:
            await session.move("pty")
        assert raised.value.kind == "unsupported" and "claude, codex" in raised.value.hint
        assert o.find(session.id).transport is None
        with pytest.raises(OstlerError, match="cursor") as raised:
            await o.session("cursor", folder=str(stable.folder), transport="pty")
        assert raised.value.kind == "unsupported"


async def test_a_session_of_commands_and_a_closed_one(stable: Stable) -> None:
    async with stable.ostler() as o:
        envelope = await o.exec(["true"], folder=str(stable.folder))
        with pytest.raises(OstlerError, match="it ran a command"):
            await o.move(envelope.session, "pty")
        session = await o.session("script", folder=str(stable.folder))
        await session.keep()
        await o.close_session(session.id)
        with pytest.raises(OstlerError, match="is closed"):
            await o.move(session.id, "pty")


# -- a person at the keyboard ------------------------------------------------------------------------------------


async def held(o: Ostler, stable: Stable) -> tuple[LiveSession, LiveTerminal]:
    """A session in its agent's own screen, with Eve at its keyboard."""
    session = await o.session("script", folder=str(stable.folder), transport="pty")
    await session.run("one [[say:Here.]]")
    [terminal] = o.terminals.list(session.id, live=True)
    await o.terminals.lease(terminal.id, EVE, "take")
    live = o.terminals.live(terminal.id)
    assert live is not None
    return session, live


async def test_a_person_at_the_keyboard_is_not_moved_away_from(stable: Stable) -> None:
    async with stable.ostler() as o:
        session, live = await held(o, stable)
        with pytest.raises(OstlerError, match="Eve has the keyboard of script") as raised:
            await session.move("pipe")
        assert raised.value.kind == "busy" and "--wait" in raised.value.hint
        moving = asyncio.create_task(o.move(session.id, "pipe", "wait"))
        await until(lambda: live.lease.waiting is not None)
        live.release(EVE)
        assert (await moving).transport == "pipe" and o.terminals.list(session.id, live=True) == []


async def test_an_interrupt_moves_it_all_the_same(stable: Stable) -> None:
    async with stable.ostler() as o:
        session, _ = await held(o, stable)
        assert (await session.move("pipe", "interrupt")).transport == "pipe"
        assert o.terminals.list(session.id, live=True) == []


async def test_who_took_the_keyboard_while_the_turn_ran_keeps_the_screen(stable: Stable) -> None:
    stable.script.plays(
        {"match": "work", "steps": [{"wait_for": str(stable.folder / "go")}, {"say": "Done."}]}, [{"say": "Here."}]
    )
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), transport="pty")
        turn = await begun(o, session, "work")
        await until(lambda: any(getattr(e, "text", "").startswith("acknowledged") for e in o.events(session.id)))
        [terminal] = o.terminals.list(session.id, live=True)
        await o.terminals.lease(terminal.id, EVE, "take")
        moving = asyncio.create_task(o.move(session.id, "pipe", "wait"))
        await until(lambda: o.find(session.id).moving_to)
        (stable.folder / "go").touch()
        assert (await turn).outcome == "done"
        live = o.terminals.live(terminal.id)
        assert live is not None
        await until(lambda: live.lease.waiting is not None)
        assert o.find(session.id).transport == "pipe" and o.terminals.get(terminal.id).state == "live"
        live.release(EVE)
        await moving
        assert o.terminals.get(terminal.id).state == "ended"


async def test_a_move_that_waits_ends_with_the_process(stable: Stable) -> None:
    async with stable.ostler() as o:
        session, live = await held(o, stable)
        moving = asyncio.create_task(o.move(session.id, "pipe", "wait"))
        await until(lambda: live.lease.waiting is not None)
    with pytest.raises(OstlerError, match="ostler is closing"):
        await moving


@pytest.mark.parametrize("typed", [True, False])
async def test_what_a_person_began_in_a_screen_without_a_turn_goes_along(stable: Stable, typed: bool) -> None:
    stable.script.plays({"match": "by hand", "steps": [{"say": "Mine."}]}, [{"history": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), transport="pty")
        terminal = await session.open_tui()
        await until(lambda: _shows(terminal, "Type your message"))
        if typed:
            await terminal.input(EVE, Type(text="by hand"), take=True)
            await until(lambda: _shows(terminal, "❯ by hand"))
            await terminal.input(EVE, PressKey(key=Key(name="Enter")))
            await until(lambda: _shows(terminal, "● Mine."))
            await terminal.lease(EVE, "release")
        await session.move("pipe")
        assert (await session.run("what?")).text == ("by hand" if typed else "nothing")


async def _shows(terminal: Terminal, text: str) -> bool:
    return text in "\n".join((await terminal.snapshot()).text)
