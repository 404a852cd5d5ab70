"""The lease in time: who vanished or idles gives it back."""

import asyncio
import time

import pytest

from ostler.errors import OstlerError
from ostler.terminal.keyboard import Keyboard
from ostler.terminal.lease import LeaseChange
from ostler.terminal.viewing import Leased
from terminal.watching import ANN, BOB, LIMIT, ROBOT


class Watched:
    """A keyboard and what was told of it."""

    def __init__(self, idle: float = 1000.0, grace: float = 1000.0) -> None:
        self.told: list[LeaseChange | None] = []
        self.news = asyncio.Event()
        self.keyboard = Keyboard(self.hear, idle=idle, grace=grace)

    def hear(self, change: LeaseChange | None) -> None:
        self.told.append(change)
        self.news.set()

    async def next(self) -> LeaseChange | None:
        self.news.clear()
        async with asyncio.timeout(LIMIT):
            await self.news.wait()
        return self.told[-1]


async def test_every_change_is_told() -> None:
    watched = Watched()
    keyboard = watched.keyboard
    keyboard.take(ROBOT)
    keyboard.take(ANN)
    keyboard.take(ANN)
    keyboard.release(BOB)
    keyboard.release(ANN)
    assert [(change.before, change.holder, change.reason) for change in watched.told if change] == [
        (None, ROBOT, "taken"),
        (ROBOT, ANN, "taken"),
        (ANN, ROBOT, "released"),
    ]
    with pytest.raises(OstlerError):
        keyboard.use(ANN)
    keyboard.close()


async def test_an_idle_person_gives_it_back_to_automation() -> None:
    watched = Watched(idle=0.05)
    watched.keyboard.take(ROBOT)
    watched.keyboard.take(ANN)
    while not (change := await watched.next()):
        pass
    assert change == LeaseChange(before=ANN, holder=ROBOT, reason="idle")
    watched.keyboard.close()


async def test_who_types_keeps_it() -> None:
    watched = Watched(idle=0.3)
    watched.keyboard.take(ROBOT)
    watched.keyboard.take(ANN)
    first = watched.keyboard.leased(BOB).due
    while watched.told[-1] is not None:  # the timer went off, and a key had come meanwhile
        watched.keyboard.use(ANN)
        await asyncio.sleep(0)
    later = watched.keyboard.leased(BOB)
    assert first and later.due and later.due > first
    assert later == Leased(holder=ANN, yours=False, waiting=ROBOT, due=later.due)
    assert abs(later.due - time.time()) < 100
    watched.keyboard.close()


async def test_who_vanishes_gives_it_back() -> None:
    watched = Watched(grace=0.02)
    keyboard = watched.keyboard
    for author in (ANN, ANN, BOB):
        keyboard.came(author)
    keyboard.take(ANN)
    keyboard.went(ANN)
    keyboard.went(BOB)
    assert keyboard._timer is None  # one of Ann's windows is still there
    keyboard.went(ANN)
    assert await watched.next() == LeaseChange(before=ANN, holder=None, reason="released")
    keyboard.close()


async def test_who_comes_back_has_it_still() -> None:
    watched = Watched(grace=0.02)
    keyboard = watched.keyboard
    keyboard.came(ANN)
    keyboard.take(ANN)
    keyboard.went(ANN)
    keyboard.came(ANN)
    await asyncio.sleep(0.04)  # longer than the grace
    assert keyboard.leased(ANN).yours
    keyboard.went(ANN)
    keyboard.take(BOB)  # who took it meanwhile does not lose it with her
    await asyncio.sleep(0.04)
    assert (keyboard.lease.holder, len(watched.told)) == (BOB, 2)
    keyboard.close()


async def test_automation_without_a_viewer_keeps_it() -> None:
    watched = Watched(grace=0.01)
    watched.keyboard.take(ROBOT)
    watched.keyboard.came(BOB)
    watched.keyboard.went(BOB)
    await asyncio.sleep(0.03)
    assert watched.keyboard.lease.holder == ROBOT
    watched.keyboard.close()
