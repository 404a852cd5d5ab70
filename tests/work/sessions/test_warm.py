"""Dialogs and agents' own screens that are started before their sessions come."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from ostler.access import Access
from ostler.agents import AGENTS
from ostler.errors import OstlerError
from ostler.model import Hook, TransportName, TurnOptions
from ostler.process import tree
from ostler.settings import load_settings
from ostler.testing.clock import Clock
from ostler.work import LiveSession, Ostler
from ostler.work.transports.spares import SpareKind
from ostler.work.transports.stop import Stop
from waiting import until
from work.scripted import Stable, collect

KINDS: tuple[TransportName, ...] = ("dialog", "pty")
both = pytest.mark.parametrize("kind", KINDS)


@asynccontextmanager
async def warmed(stable: Stable, profiles: dict[str, Any] | None = None, **pool: Any) -> AsyncIterator[Ostler]:
    flags = {"pool": {"warm": {"script": 1}, **pool}, "profiles": profiles or {}}
    settings = load_settings(folder=str(stable.folder), environ=stable.env, flags=flags).settings
    async with Ostler(settings, stable.env) as o:
        yield o


def spares(
    o: Ostler, stable: Stable, access: Access = "read", who: str = "script", kind: TransportName | None = None
) -> list[str]:
    return o.keepers.spares.find(SpareKind(who, str(stable.folder), access), kind)


def pid(o: Ostler, session: str, kind: TransportName) -> int:
    if kind == "dialog":
        return o.dialogs._live[session].dialog.process.pid
    found = o.keepers.tuis._live[session].tui.program.row.pid
    assert found is not None
    return found


async def first_turn(o: Ostler, stable: Stable, kind: TransportName = "dialog", **options: Any) -> LiveSession:
    """A new session, and a turn in it; its spare is on the way then."""
    session = await o.session("script", folder=str(stable.folder), **options)
    await collect(session, "[[say:hello]]", transport=kind)
    assert session.last is not None and session.last.ok, session.last
    return session


@both
async def test_the_next_session_has_a_process_that_is_started_already(stable: Stable, kind: TransportName) -> None:
    async with warmed(stable) as o:
        first = await first_turn(o, stable, kind)
        (spare,) = await until(lambda: spares(o, stable))
        started = pid(o, spare, kind)
        second = await first_turn(o, stable, kind)
        assert second.id == spare != first.id
        assert pid(o, second.id, kind) == started  # the very same process
        assert [row.id for row in o.sessions()] == [second.id, first.id]
        third = (await until(lambda: spares(o, stable)))[0]
        assert third not in (first.id, second.id)  # and there is another one for whoever comes next
        pids = [pid(o, id, kind) for id in (first.id, second.id, third)]
        await collect(second, "[[history]]", transport=kind)
        assert second.last is not None and second.last.text.startswith("[[say:hello]]")  # nobody else's conversation
        assert pid(o, second.id, kind) == started
    assert not any(map(tree.identity, pids))


@both
async def test_the_very_first_turn_need_not_wait_either(stable: Stable, kind: TransportName) -> None:
    """A profile whose transport is the agent's own screen has that started, one that names none a dialog."""
    profiles = {"groom": {"agent": "script", **({"transport": "pty"} if kind == "pty" else {})}}
    async with warmed(stable, profiles, warm={"groom": 1}) as o:
        o.warm_up(str(stable.folder))
        (spare,) = await until(lambda: spares(o, stable, who="groom", kind=kind))
        started = pid(o, spare, kind)
        assert o.sessions() == []  # nobody has asked for one yet
        first = await o.session("groom", folder=str(stable.folder))
        await collect(first, "[[say:hello]]", transport=kind)
        assert first.last is not None and first.last.ok, first.last
        assert first.id == spare and pid(o, first.id, kind) == started
    async with warmed(stable, profiles, warm={"groom": 2}) as o:
        o.warm_up(str(stable.folder))
        await until(lambda: len(spares(o, stable, who="groom", kind=kind)) == 2)


async def test_nothing_is_started_ahead_for_a_transport_without_spares(stable: Stable) -> None:
    profiles = {"groom": {"agent": "script", "transport": "pipe"}}
    async with warmed(stable, profiles, warm={"groom": 1, "script": 1}) as o:
        o.warm_up(str(stable.folder))
        await until(lambda: spares(o, stable))
        assert spares(o, stable, who="groom") == []


async def test_an_agent_that_cannot_be_started_ahead_keeps_nobody_from_anything(stable: Stable) -> None:
    async with warmed(stable, warm={"nobody": 1, "script": 1}) as o:
        o.warm_up(str(stable.folder))
        await until(lambda: spares(o, stable))
        assert (await first_turn(o, stable)).last is not None


@both
async def test_one_that_differs_is_not_used(stable: Stable, kind: TransportName) -> None:
    """Another access or folder does not find it; other options find it, and get a new process."""
    other = stable.folder / "other"
    other.mkdir()
    async with warmed(stable) as o:
        await first_turn(o, stable, kind)
        (spare,) = await until(lambda: spares(o, stable))
        started = pid(o, spare, kind)
        assert (await first_turn(o, stable, kind, access="write")).id != spare
        elsewhere = await o.session("script", folder=str(other))
        assert elsewhere.id != spare and spares(o, stable) == [spare]
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:hello]]", transport=kind, env={"MORE": "1"})
        assert session.last is not None and session.last.ok, session.last
        assert session.id == spare and pid(o, spare, kind) != started and not tree.identity(started)


async def test_a_session_takes_a_spare_of_its_own_transport(stable: Stable) -> None:
    async with warmed(stable) as o:
        for kind in KINDS:
            await first_turn(o, stable, kind, transport=kind)
        (screen,) = await until(lambda: spares(o, stable, kind="pty"))
        (dialog,) = await until(lambda: spares(o, stable, kind="dialog"))
        assert (await first_turn(o, stable, "pty", transport="pty")).id == screen
        assert (await first_turn(o, stable, "dialog", transport="dialog")).id == dialog


@both
async def test_one_that_was_taken_for_another_transport_is_closed(stable: Stable, kind: TransportName) -> None:
    async with warmed(stable) as o:
        await first_turn(o, stable, kind)
        (spare,) = await until(lambda: spares(o, stable))
        started = pid(o, spare, kind)
        session = await first_turn(o, stable, "pipe")
        assert session.id == spare and not tree.identity(started)
        assert session.last is not None and os.path.exists(session.last.artifacts["prompt"])
        assert [row.source for row in o.terminals.list(session.id)] == ["turn"]


@both
async def test_a_spare_is_closed_when_it_is_old_and_when_memory_is_wanted(
    stable: Stable, clock: Clock, kind: TransportName
) -> None:
    async with warmed(stable, warm_seconds=60.0) as o:
        first = await first_turn(o, stable, kind)
        (spare,) = await until(lambda: spares(o, stable))
        idle = {each.session: each for each in o.pool.idle()}
        assert idle[spare].since == min(each.since for each in idle.values()) and idle[spare].memory_mb > 0
        assert (first.id in idle) == (kind == "dialog")  # a screen that was used may be looked at
        assert o.turns.line.end_idle is not None
        await o.turns.line.end_idle(spare)  # as the pool does with the first of these
        assert spares(o, stable) == []
        await first_turn(o, stable, kind)
        (spare,) = await until(lambda: spares(o, stable))
        started = pid(o, spare, kind)
        await clock.turn(61)
        await until(lambda: not spares(o, stable) and not tree.identity(started))


async def test_nobody_sees_the_screen_of_a_session_to_come(stable: Stable) -> None:
    async with warmed(stable) as o:
        first = await first_turn(o, stable, "pty")
        (spare,) = await until(lambda: spares(o, stable))
        assert {row.session for row in o.terminals.list()} == {first.id}
        shown = o.keepers.tuis._live[spare].tui.program.row
        assert os.path.exists(shown.recording)
        second = await first_turn(o, stable, "pty")
        (row,) = o.terminals.list(second.id, live=True)
        assert (row.id, row.name, row.pid) == (shown.id, "script", shown.pid)
        assert (stored := o.store.terminal(row.id)) is not None and stored.recording == shown.recording
        (third,) = await until(lambda: spares(o, stable))
        unused = o.keepers.tuis._live[third].tui.program.row
        assert os.path.exists(unused.recording)
    async with stable.ostler() as o:
        assert {row.session: row.state for row in o.terminals.list()} == {first.id: "ended", second.id: "ended"}
    assert os.path.exists(shown.recording)
    assert third not in os.listdir(stable.state / "sessions")  # it has left nothing


async def test_a_screen_waits_anew_for_a_turn_that_is_about_to_begin(stable: Stable, clock: Clock) -> None:
    """Its id is the turn's by then: without the screen that would be taken."""
    async with warmed(stable, warm_seconds=60.0) as o:
        await first_turn(o, stable, "pty")
        (spare,) = await until(lambda: spares(o, stable))
        session = await o.session("script", folder=str(stable.folder))
        await clock.turn(50)
        await session.prepare("go", TurnOptions(transport="pty"), Stop())
        await clock.turn(50)
        assert session.id == spare and o.keepers.holds(spare)


async def test_a_session_that_moves_takes_nothing_of_a_screen_along_that_nobody_has_seen(stable: Stable) -> None:
    async with warmed(stable) as o:
        await first_turn(o, stable, "pty")
        (spare,) = await until(lambda: spares(o, stable))
        session = await o.session("script", folder=str(stable.folder))
        await session.keep()
        await session.move("pipe")
        assert session.id == spare and not o.keepers.holds(spare)
        assert (row := o.store.session(spare)) is not None and row.agent_session is None


async def test_it_has_the_size_that_is_asked_for(stable: Stable) -> None:
    async with warmed(stable) as o:
        await first_turn(o, stable, "pty")
        (spare,) = await until(lambda: spares(o, stable))
        session = await o.session("script", folder=str(stable.folder))
        terminal = await session.open_tui(cols=100, rows=40)
        assert session.id == spare and (terminal.row.cols, terminal.row.rows) == (100, 40)


async def test_its_hooks_are_those_of_the_turn_that_it_runs(stable: Stable) -> None:
    async with warmed(stable) as o:
        await first_turn(o, stable, "pty")
        (spare,) = await until(lambda: spares(o, stable))
        assert len(o.callbacks.tokens_of(spare)) == 1  # with which they will call: kept secret from now on
        session = await first_turn(o, stable, "pty")
        assert session.id == spare and session.last is not None
        hooks = [event for event in o.events(session.id) if isinstance(event, Hook)]
        assert {"UserPromptSubmit", "Stop"} <= {hook.name for hook in hooks}
        assert {hook.turn for hook in hooks} == {session.last.turn}


async def test_one_that_has_ended_is_not_given_to_anybody(stable: Stable) -> None:
    async with warmed(stable) as o:
        await first_turn(o, stable, "pty")
        (spare,) = await until(lambda: spares(o, stable))
        os.kill(pid(o, spare, "pty"), 9)
        await until(lambda: not spares(o, stable))
        assert (await first_turn(o, stable, "pty")).id != spare


async def test_one_that_ends_once_it_was_taken_is_replaced(stable: Stable) -> None:
    async with warmed(stable) as o:
        await first_turn(o, stable, "pty")
        (spare,) = await until(lambda: spares(o, stable))
        session = await o.session("script", folder=str(stable.folder))
        assert session.id == spare
        started = pid(o, spare, "pty")
        os.kill(started, 9)
        await until(lambda: not o.keepers.holds(spare))
        await collect(session, "[[say:hello]]", transport="pty")
        assert session.last is not None and session.last.ok and pid(o, spare, "pty") != started


@both
async def test_without_the_setting_nothing_is_started(stable: Stable, kind: TransportName) -> None:
    async with stable.ostler() as o:
        session = await first_turn(o, stable, kind)
        keeper = o.dialogs if kind == "dialog" else o.keepers.tuis
        assert list(keeper._live) == [session.id]


async def test_no_screen_is_kept_of_an_agent_that_chooses_its_conversation_itself(stable: Stable) -> None:
    """Of several that wait, nobody could tell which file is whose."""
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        prepared = await session.prepare("go", TurnOptions(transport="pty"), Stop())
        with pytest.raises(OstlerError) as raised:
            await o.keepers.spares.start(structs.replace(prepared.attempt, agent=AGENTS["codex"]), 60, Stop())
        assert raised.value.kind == "unsupported"
        assert o.keepers.tuis._live == {} and os.listdir(stable.state / "sessions") == []
