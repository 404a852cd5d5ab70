"""Old sessions: which they are, and their removal."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.store import Store
from ostler.testing import Clock
from waiting import until
from work.scripted import Stable, collect, turn_until


async def test_prune_removes_what_expired_and_its_files(stable: Stable) -> None:
    async with stable.ostler() as o:
        old = await o.session("script", folder=str(stable.folder))
        await collect(old, "[[say:old]]")
        new = await o.session("script", folder=str(stable.folder))
        await collect(new, "[[say:new]]")
        await o.store.change_session(old.id, expires_at=time.time() - 1)
        with pytest.raises(OstlerError) as caught:
            await o.session(session=old.id)
        assert caught.value.message == f"session {old.id} has expired"
        assert [row.id for row in await o.prune(dry_run=True)] == [old.id]
        assert len(o.sessions()) == 2
        assert [row.id for row in await o.prune()] == [old.id]
        assert [row.id for row in o.sessions()] == [new.id]
        assert not Path(old.last.artifacts["prompt"]).exists()
        assert Path(new.last.artifacts["prompt"]).exists()


async def test_prune_is_of_a_folder_and_takes_closed_ones_too(stable: Stable) -> None:
    async with stable.ostler() as o:
        (stable.folder / "below").mkdir()
        rows = []
        for folder in (stable.folder, stable.folder / "below", stable.home):
            rows.append(await (await o.session("script", folder=str(folder))).keep())
            await o.store.change_session(rows[-1].id, expires_at=time.time() - 1)
        await o.close_session(rows[0].id)
        here = await o.prune(folder=str(stable.folder), dry_run=True)
        assert {row.id for row in here} == {rows[0].id, rows[1].id}
        assert [row.id for row in await o.prune(folder=str(stable.folder / "below"))] == [rows[1].id]
        assert {row.id for row in await o.prune()} == {rows[0].id, rows[2].id}


DAY = 86400.0


async def test_what_has_expired_goes_by_itself_once_a_day(stable: Stable, clock: Clock) -> None:
    async with stable.ostler() as o:
        made = [await (await o.session("script", folder=str(stable.folder))).keep() for _ in range(2)]
        await o.store.change_session(made[0].id, expires_at=time.time() + DAY / 2)
    await clock.turn(DAY * 0.9)
    async with stable.ostler() as o:
        pass
    with Store.open(stable.state) as store:
        assert len(store.sessions()) == 2, "it was looked less than a day ago"
    await clock.turn(DAY * 0.2)
    async with stable.ostler() as o:
        await until(lambda: [row.id for row in o.sessions()] == [made[1].id])


async def test_a_server_removes_them_at_its_start_and_each_day(stable: Stable, clock: Clock) -> None:
    async with stable.ostler() as o:
        old, used, later = [await (await o.session("script", folder=str(stable.folder))).keep() for _ in range(3)]
        for row, days in ((old, -1), (used, -1), (later, 1)):
            await o.store.change_session(row.id, expires_at=time.time() + days * DAY)
        terminal = await o.terminals.open(used.id, ["cat"])
        async with stable.ostler(role="up") as server:
            await until(lambda: {row.id for row in server.sessions()} == {used.id, later.id})
            gone = until(lambda: [row.id for row in server.sessions()] == [used.id])
            await turn_until(clock, 1.5 * DAY, asyncio.create_task(gone))
        assert terminal.row.state == "live" and not os.path.exists(stable.state / "sessions" / old.id)
