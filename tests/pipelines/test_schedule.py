"""When a schedule is due."""

from datetime import datetime
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.pipelines.schedule import Due, Schedule, all_schedules, check_cron, due, next_time
from ostler.settings import ScheduledFile, ScheduleEntry, Settings, record_schedule

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


def test_files_stand_beside_the_settings_once_they_are_switched_on(tmp_path: Path) -> None:
    own = ScheduleEntry(cron=DAILY, pipeline="p.toml", folder="/src")
    settings, kept = Settings(schedules={"nightly": own}), str(tmp_path / "trusted.json")
    assert all_schedules(settings, kept) == {"nightly": Schedule(entry=own)}
    record_schedule(kept, "/src/q.toml", ScheduledFile(sha256="ab", cron=DAILY, folder="/src", inputs={"base": "main"}))
    entry = ScheduleEntry(cron=DAILY, pipeline="/src/q.toml", folder="/src", inputs={"base": "main"})
    assert all_schedules(settings, kept) == {
        "nightly": Schedule(entry=own),
        "/src/q.toml": Schedule(entry=entry, sha256="ab"),
    }
    record_schedule(kept, "/src/q.toml", None)
    assert all_schedules(settings, kept) == {"nightly": Schedule(entry=own)}


@pytest.mark.parametrize("text", ['{"schedules": 3}', '{"schedules": {"/p.toml": {"cron": "* * * * *"}}}', "nothing"])
def test_a_list_that_cannot_be_understood_starts_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "trusted.json").write_text(text)
    assert all_schedules(Settings(), str(tmp_path / "trusted.json")) == {}
