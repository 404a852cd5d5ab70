"""When a schedule is due."""

from datetime import datetime

import pytest

from ostler.errors import OstlerError
from ostler.pipelines.schedule import Due, check_cron, due, next_time
from ostler.settings import ScheduleEntry

DAILY = "0 3 * * *"


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_nothing_is_due_before_its_time() -> None:
    assert due(DAILY, at("2026-05-01 04:00"), at("2026-05-02 02:59")) == Due()
    assert next_time(DAILY, at("2026-05-01 04:00")) == at("2026-05-02 03:00")


def test_a_run_is_due_once() -> None:
    three = at("2026-05-02 03:00")
    assert due(DAILY, three - 30, three) == Due(at=three)
    assert due(DAILY, three, three + 30) == Due()


def test_what_was_missed_is_told_and_not_run() -> None:
    looked, now = at("2026-05-01 04:00"), at("2026-05-04 12:00")
    assert due(DAILY, looked, now) == Due(missed=3, missed_at=at("2026-05-04 03:00"))
    now = at("2026-05-04 03:00") + 5
    assert due(DAILY, looked, now) == Due(at=at("2026-05-04 03:00"), missed=2, missed_at=at("2026-05-03 03:00"))


def test_the_missed_are_not_counted_without_end() -> None:
    assert due("* * * * *", 0.0, at("2026-05-04 12:00")).missed == 1000


@pytest.mark.parametrize("cron", ["", "0 3 * *", "61 3 * * *", "daily", "@daily", "0 0 3 * * *"])
def test_a_line_that_is_none_is_refused(cron: str) -> None:
    with pytest.raises(OstlerError, match=r"schedules.nightly: .* is not a valid cron line"):
        check_cron("nightly", ScheduleEntry(cron=cron, pipeline="p", folder="/"))
    check_cron("nightly", ScheduleEntry(cron=DAILY, pipeline="p", folder="/"))
