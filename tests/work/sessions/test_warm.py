"""Dialogs that are started before their sessions come."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ostler.process import tree
from ostler.settings import load_settings
from ostler.testing.clock import Clock
from ostler.work import LiveSession, Ostler
from ostler.work.dialogs.open_dialogs import Dialogs
from waiting import until
from work.scripted import Stable, collect


@asynccontextmanager
async def warmed(stable: Stable, **pool: Any) -> AsyncIterator[Ostler]:
    flags = {"pool": {"warm": {"script": 1}, **pool}}
    settings = load_settings(folder=str(stable.folder), environ=stable.env, flags=flags).settings
    async with Ostler(settings, stable.env) as o:
        yield o


def spares(o: Ostler, stable: Stable, access: str = "read") -> list[str]:
    return o.dialogs.spares("script", str(stable.folder), access)


def pid(dialogs: Dialogs, session: str) -> int:
    return dialogs._live[session].dialog.process.pid


async def first_turn(o: Ostler, stable: Stable, **options: Any) -> LiveSession:
    """A new session with a dialog; its spare is there then."""
    session = await o.session("script", folder=str(stable.folder), **options)
    await collect(session, "[[say:hello]]", transport="dialog")
    assert session.last is not None and session.last.ok, session.last
    return session


async def test_the_next_session_has_a_dialog_that_is_started_already(stable: Stable) -> None:
    async with warmed(stable) as o:
        first = await first_turn(o, stable)
        (spare,) = await until(lambda: spares(o, stable))
        started = pid(o.dialogs, spare)
        second = await first_turn(o, stable)
        assert second.id == spare != first.id
        assert pid(o.dialogs, second.id) == started  # the very same process
        assert [row.id for row in o.sessions()] == [second.id, first.id]
        third = (await until(lambda: spares(o, stable)))[0]
        assert third not in (first.id, second.id)  # and there is another one for whoever comes next
        pids = [pid(o.dialogs, id) for id in (first.id, second.id, third)]
        await collect(second, "[[history]]", transport="dialog")
        assert second.last is not None and second.last.text.startswith("[[say:hello]]")  # nobody else's conversation
    assert not any(map(tree.identity, pids))


async def test_the_very_first_turn_need_not_wait_either(stable: Stable) -> None:
    async with warmed(stable) as o:
        o.warm_up(str(stable.folder))
        (spare,) = await until(lambda: spares(o, stable))
        started = pid(o.dialogs, spare)
        assert o.sessions() == []  # nobody has asked for one yet
        first = await first_turn(o, stable)
        assert first.id == spare and pid(o.dialogs, first.id) == started
    async with warmed(stable, warm={"script": 2}) as o:
        o.warm_up(str(stable.folder))
        await until(lambda: len(spares(o, stable)) == 2)


async def test_an_agent_that_cannot_be_started_ahead_keeps_nobody_from_anything(stable: Stable) -> None:
    async with warmed(stable, warm={"nobody": 1, "script": 1}) as o:
        o.warm_up(str(stable.folder))
        await until(lambda: spares(o, stable))
        assert (await first_turn(o, stable)).last is not None


async def test_one_that_differs_is_not_used(stable: Stable) -> None:
    """Another access or folder does not find it; other options find it, and get a new process."""
    other = stable.folder / "other"
    other.mkdir()
    async with warmed(stable) as o:
        await first_turn(o, stable)
        (spare,) = await until(lambda: spares(o, stable))
        started = pid(o.dialogs, spare)
        assert (await first_turn(o, stable, access="write")).id != spare
        elsewhere = await o.session("script", folder=str(other))
        assert elsewhere.id != spare and spares(o, stable) == [spare]
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:hello]]", transport="dialog", env={"MORE": "1"})
        assert session.last is not None and session.last.ok, session.last
        assert session.id == spare and pid(o.dialogs, spare) != started and not tree.identity(started)


async def test_a_spare_is_closed_when_it_is_old_and_when_memory_is_wanted(stable: Stable, clock: Clock) -> None:
    async with warmed(stable, warm_seconds=60.0) as o:
        await first_turn(o, stable)
        (spare,) = await until(lambda: spares(o, stable))
        idle = {each.session: each for each in o.pool.idle()}
        assert idle[spare].since == min(each.since for each in idle.values()) and idle[spare].memory_mb > 0
        assert o.turns.line.end_idle is not None
        await o.turns.line.end_idle(spare)  # as the pool does with the first of these
        assert spares(o, stable) == []
        await first_turn(o, stable)
        (spare,) = await until(lambda: spares(o, stable))
        started = pid(o.dialogs, spare)
        await clock.turn(61)
        await until(lambda: not spares(o, stable) and not tree.identity(started))


async def test_without_the_setting_nothing_is_started(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await first_turn(o, stable)
        assert list(o.dialogs._live) == [session.id]
