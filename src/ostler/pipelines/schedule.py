"""When a schedule is due, and what is kept of it. Times are those of the clock on the wall."""

from datetime import datetime

import msgspec
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.settings import ScheduleEntry
from ostler.store import Store

_MOST = 1000  # missed runs that are counted; there may be many more
LATE = 60.0  # seconds: what was due longer ago than that was missed


class Due(Struct, frozen=True, kw_only=True):
    """What a schedule asks for at a moment."""

    at: float | None = None  # a run that is due now
    missed: int = 0  # runs that were due before, when nobody looked
    missed_at: float | None = None  # the last of them


class ScheduleNote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the store keeps of a schedule."""

    looked_at: float
    run: str = ""  # the last run that it started
    started_at: float | None = None
    missed: int = 0  # the last time that runs were missed: how many, and when the last of them was due
    missed_at: float | None = None
    problem: str = ""  # why the last run could not be started


def note_of(store: Store, name: str) -> ScheduleNote | None:
    """None: no server has looked at it yet."""
    kept = store.note(f"schedule:{name}")
    return msgspec.convert(kept, ScheduleNote) if kept else None


def check_cron(name: str, entry: ScheduleEntry) -> None:
    """Raises bad_request."""
    from croniter import croniter

    if len(entry.cron.split()) != 5 or not croniter.is_valid(entry.cron):
        raise OstlerError(
            "bad_request",
            f"schedules.{name}: {entry.cron!r} is not a valid cron line",
            'Write minute, hour, day, month and weekday: "0 3 * * *" is every day at three',
        )


def next_time(cron: str, after: float) -> float:
    """When it is due for the first time after that moment."""
    from croniter import croniter

    found: datetime = croniter(cron, datetime.fromtimestamp(after).astimezone()).get_next(datetime)
    return found.timestamp()


def due(cron: str, looked_at: float, now: float) -> Due:
    """What has come due since somebody last looked: a run for the newest time if that is not long ago, and no other."""
    times: list[float] = []
    at = next_time(cron, looked_at)
    while at <= now and len(times) < _MOST:
        times.append(at)
        at = next_time(cron, at)
    fresh = times[-1] if times and now - times[-1] < LATE else None
    missed = times[:-1] if fresh is not None else times
    return Due(at=fresh, missed=len(missed), missed_at=missed[-1] if missed else None)
