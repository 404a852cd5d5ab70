"""The lease in time: who vanished or idles gives it back."""

import pytest

from ostler import clock as ostler_clock
from ostler.errors import OstlerError
from ostler.terminal.keyboard import Keyboard
from ostler.terminal.lease import LeaseChange
from ostler.terminal.viewer_protocol import Leased
from ostler.testing import Clock
from terminal.watching import ANN, BOB, ROBOT


class Watched:
    """A keyboard and what was told of it."""

    def __init__(self) -> None:
        self.told: list[LeaseChange | None] = []
        self.keyboard = Keyboard(self.told.append, idle=1000.0, grace=100.0)


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


async def test_an_idle_person_gives_it_back_to_automation(clock: Clock) -> None:
    watched = Watched()
    watched.keyboard.take(ROBOT)
    watched.keyboard.take(ANN)
    await clock.turn(999)
    assert watched.keyboard.lease.holder == ANN
    await clock.turn(2)
    assert watched.told[-1] == LeaseChange(before=ANN, holder=ROBOT, reason="idle")
    watched.keyboard.close()


async def test_who_types_keeps_it(clock: Clock) -> None:
    watched = Watched()
    watched.keyboard.take(ROBOT)
    watched.keyboard.take(ANN)
    first = watched.keyboard.leased(BOB).due
    await clock.turn(900)
    watched.keyboard.use(ANN)
    await clock.turn(200)  # the timer went off, and a key had come meanwhile
    assert watched.told[-1] is None
    later = watched.keyboard.leased(BOB)
    assert first and later.due and later.due > first
    assert later == Leased(holder=ANN, yours=False, waiting=ROBOT, due=later.due)
    assert 700 < later.due - ostler_clock.now() <= 801
    watched.keyboard.close()


async def test_who_vanishes_gives_it_back(clock: Clock) -> None:
    watched = Watched()
    keyboard = watched.keyboard
    for author in (ANN, ANN, BOB):
        keyboard.came(author)
    keyboard.take(ANN)
    keyboard.went(ANN)
    keyboard.went(BOB)
    await clock.turn(101)
    assert keyboard.leased(ANN).yours  # one of Ann's windows is still there
    keyboard.went(ANN)
    await clock.turn(101)
    assert watched.told[-1] == LeaseChange(before=ANN, holder=None, reason="released")
    keyboard.close()


async def test_who_comes_back_has_it_still(clock: Clock) -> None:
    watched = Watched()
    keyboard = watched.keyboard
    keyboard.came(ANN)
    keyboard.take(ANN)
    keyboard.went(ANN)
    await clock.turn(99)
    keyboard.came(ANN)
    await clock.turn(200)
    assert keyboard.leased(ANN).yours
    keyboard.went(ANN)
    keyboard.take(BOB)  # who took it meanwhile does not lose it with her
    await clock.turn(101)
    assert (keyboard.lease.holder, len(watched.told)) == (BOB, 2)
    keyboard.close()


async def test_automation_without_a_viewer_keeps_it(clock: Clock) -> None:
    watched = Watched()
    watched.keyboard.take(ROBOT)
    watched.keyboard.came(BOB)
    watched.keyboard.went(BOB)
    await clock.turn(101)
    assert watched.keyboard.lease.holder == ROBOT
    watched.keyboard.close()
