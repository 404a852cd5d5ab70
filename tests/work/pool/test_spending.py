"""Spending limits: of a day, and of a profile or agent on it."""

import datetime

from ostler.settings import Spending
from ostler.work.pool.spending import day_of, exceeded, midnight


def test_the_day_and_each_profile_have_limits() -> None:
    spending = Spending(day=5.0, profiles={"reviewer": 1.0})
    assert exceeded(spending, {"claude": 3.0, "reviewer": 0.9}, "reviewer") is None
    assert exceeded(spending, {"claude": 4.2, "reviewer": 0.8}, "codex") == (
        "the turns of today cost $5.00, and the limit is $5.00"
    )
    assert exceeded(spending, {"reviewer": 1.5}, "reviewer") == (
        "the turns of reviewer cost $1.50 today, and the limit is $1.00"
    )
    assert exceeded(spending, {"reviewer": 1.5}, "claude") is None
    assert exceeded(Spending(), {"claude": 1e6}, "claude") is None


def test_a_day_begins_at_midnight() -> None:
    noon = datetime.datetime(2026, 11, 17, 12, 30).timestamp()
    assert datetime.datetime.fromtimestamp(midnight(noon)) == datetime.datetime(2026, 11, 17)
    assert day_of(noon) == "2026-11-17"
