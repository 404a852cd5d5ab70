"""Slots of limits over all machines, in a real Postgres."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ostler.errors import OstlerError
from ostler.machines import slots
from ostler.machines.directory import Directory
from ostler.machines.model import MachineFacts
from ostler.machines.shares import Granted
from ostler.machines.slots import Lapsed, Leaseholder
from waiting import until

LIMITS = {"agent:claude": 3, "total:": 9}


@pytest.fixture
async def directory(database: str) -> AsyncIterator[Directory]:
    made = Directory(database)
    await made.prepare()
    yield made
    await made.close()


async def joined(directory: Directory, id: str) -> Leaseholder:
    _, epoch, lease = await directory.join(id, id, "", b"", MachineFacts())
    return Leaseholder(directory, id, epoch, lease)


async def claude(holder: Leaseholder, wanted: int, kept: int = 0) -> Granted:
    granted, _ = await holder.take_slots({"agent:claude": wanted}, {"agent:claude": kept}, LIMITS)
    assert granted["total:"] == Granted(held=0, start=0)
    return granted["agent:claude"]


async def test_slots_go_from_one_machine_to_another(directory: Directory) -> None:
    crow, owl = await joined(directory, "crow"), await joined(directory, "owl")
    assert await claude(crow, 5) == Granted(held=3, start=3)
    assert await claude(owl, 5) == Granted(held=0, start=0)
    assert await claude(crow, 5, kept=3) == Granted(held=3, start=1)  # it may keep what runs, and start no more
    assert await claude(crow, 5, kept=2) == Granted(held=2, start=1)
    assert await claude(owl, 5) == Granted(held=1, start=1)
    assert (await owl.take_slots({"agent:claude": 5}, {"agent:claude": 1}, LIMITS)).waiting == 2
    assert await claude(crow, 0) == Granted(held=0, start=0)
    assert await claude(owl, 5, kept=1) == Granted(held=3, start=3)


async def test_many_ask_at_once_and_the_limit_holds(database: str) -> None:
    directories = [Directory(database) for _ in range(6)]
    await directories[0].prepare()
    holders = [await joined(each, f"m{n}") for n, each in enumerate(directories)]
    for _ in range(3):
        granted = await asyncio.gather(*(claude(each, 2) for each in holders))
        assert sum(each.held for each in granted) <= 3
    for each in directories:
        await each.close()


async def test_who_was_fenced_gets_nothing_and_has_nothing(directory: Directory) -> None:
    crow, owl = await joined(directory, "crow"), await joined(directory, "owl")
    await claude(crow, 3)
    silent = next(row for row in await directory.machines() if row.id == "crow")
    assert await directory.fence(silent)
    assert await claude(owl, 3) == Granted(held=3, start=3)
    with pytest.raises(Lapsed):
        await claude(crow, 3)
    with pytest.raises(Lapsed):
        await crow.report_spent("2026-11-17", {"claude": 1.0})
    again = await joined(directory, "owl")  # it was started again: what it had before is free
    assert await claude(await joined(directory, "crow"), 3) == Granted(held=3, start=3)
    with pytest.raises(Lapsed):
        await claude(owl, 1)
    assert await claude(again, 1) == Granted(held=0, start=0)


async def test_who_falls_silent_in_a_transaction_holds_up_the_others_for_seconds_alone(
    directory: Directory, database: str
) -> None:
    crow, asleep = await joined(directory, "crow"), Directory(database)
    db = await asleep._connection()
    await db.execute("BEGIN")
    await db.execute("SELECT pg_advisory_xact_lock(%s)", (slots._LOCK,))  # and nothing more is heard of it

    async def granted() -> bool:
        try:
            return (await claude(crow, 1)).held == 1
        except OstlerError:
            return False  # it took too long

    await until(granted)
    await asleep.close()


async def test_what_each_machine_spent_today(directory: Directory) -> None:
    crow, owl = await joined(directory, "crow"), await joined(directory, "owl")
    assert await crow.report_spent("2026-11-17", {"claude": 1.0, "reviewer": 0.5}) == {}
    assert await crow.report_spent("2026-11-17", {"claude": 2.0}) == {}
    assert await owl.report_spent("2026-11-17", {"claude": 4.0}) == {"claude": 2.0, "reviewer": 0.5}
    assert await crow.report_spent("2026-11-18", {}) == {}
    assert await owl.report_spent("2026-11-17", {}) == {}  # crow's older day is forgotten
