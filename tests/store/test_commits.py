"""Whoever writes to a store wakes those who watch it."""

import asyncio
import sys
from pathlib import Path

import pytest

from ostler.model import Session
from ostler.store import Store
from ostler.store.commits import Commits


def session(id: str) -> Session:
    return Session(id=id, agent="script", folder="/", created_at=1, used_at=1)


async def test_a_write_of_this_process_wakes(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        watch = store.watch()
        commits, before = watch.commits(), watch.version()
        try:
            assert commits.works and not await commits.wait(0.001)
            await store.add_session(session("s1"))
            assert await commits.wait(60)
            assert watch.version() != before
            assert not await commits.wait(0.001), "one is woken once for what was written"
        finally:
            commits.close()
            commits.close()


async def test_a_write_of_another_process_wakes_whoever_waits(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from ostler.model import Session
from ostler.store import Store
with Store.open(sys.argv[1]) as store:
    asyncio.run(store.add_session(Session(id="s1", agent="script", folder="/", created_at=1, used_at=1)))
"""
    with Store.open(tmp_path) as store:
        commits = store.watch().commits()
        try:
            waiting = asyncio.create_task(commits.wait(60))
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(tmp_path))
            assert await waiting
            assert await process.wait() == 0
        finally:
            commits.close()


async def test_who_is_cancelled_leaves_it_usable(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        commits = store.watch().commits()
        try:
            waiting = asyncio.create_task(commits.wait(60))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            await store.add_session(session("s1"))
            assert await commits.wait(60)
        finally:
            commits.close()


async def test_where_nothing_can_be_watched_one_only_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    commits = Commits(tmp_path / "nothing.db")
    assert not commits.works and not await commits.wait(0.001)
    assert [record.getMessage() for record in caplog.records] == [
        f"writes to {tmp_path}/nothing.db-wal are not seen at once: No such file or directory"
    ]
    commits.close()
