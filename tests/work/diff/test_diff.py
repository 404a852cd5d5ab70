"""The deadline of a look at a folder."""

from typing import Any

import pytest

from ostler.work.diff.diff import Bounds, Deadline, Diff, Skipped


async def test_a_deadline_passes(clock: Any) -> None:
    deadline = Deadline(10)
    assert 0 < deadline.left() <= 10
    await clock.turn(6)
    assert 0 < deadline.left() <= 4
    await clock.turn(4)
    with pytest.raises(Skipped, match=r"^no diff: looking at the folder took longer than 10 s$"):
        deadline.left()


@pytest.mark.parametrize(("seconds", "told"), [(0, "0 s"), (-1, "-1 s"), (0.0, "0 s")])
def test_no_time_at_all_has_passed_at_once(seconds: float, told: str) -> None:
    with pytest.raises(Skipped, match=f"longer than {told}$"):
        Deadline(seconds).left()


def test_it_can_be_told_that_it_passed_without_asking_the_clock() -> None:
    assert str(Deadline(2.5).passed()) == "no diff: looking at the folder took longer than 2.5 s"


def test_a_diff_of_nothing() -> None:
    assert Diff() == Diff(text="", files=(), notice="")
    assert all(getattr(Bounds(), name) > 0 for name in Bounds.__struct_fields__)
