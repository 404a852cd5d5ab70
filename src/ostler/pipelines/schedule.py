"""When a schedule is due, and what is kept of it. Times are those of the clock on the wall."""

from datetime import datetime

import msgspec
from msgspec import Struct

from ostler.errors import OstlerError, quoted
from ostler.settings import ScheduleEntry, Settings, scheduled_files
from ostler.store import Store

_MOST = 1000  # missed runs that are counted; there may be many more
LATE = 60.0  # seconds: what was due longer ago than that was missed


class Due(Struct, frozen=True, kw_only=True):
    """What a schedule asks for at a moment."""

    at: float | None = None  # a run that is due now
    missed: int = 0  # runs that were due before, when nobody looked
    missed_at: float | None = None  # the last of them


class Schedule(Struct, frozen=True, kw_only=True):
    """A schedule of the settings, or one that stands in a pipeline file of this content."""

    entry: ScheduleEntry
    sha256: str = ""


def all_schedules(settings: Settings, list_file: str) -> dict[str, Schedule]:
    """By name; those that stand in files by their paths. `list_file` says which of these the user has switched on."""
    files = {
        path: Schedule(
            entry=ScheduleEntry(cron=file.cron, pipeline=path, folder=file.folder, inputs=file.inputs),
            sha256=file.sha256,
        )
        for path, file in scheduled_files(list_file).items()
        if is_cron(file.cron)
    }
    return {**{name: Schedule(entry=entry) for name, entry in settings.schedules.items()}, **files}


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


async def keep_note(store: Store, name: str, note: ScheduleNote) -> None:
    await store.set_note(f"schedule:{name}", msgspec.to_builtins(note))


CRON_HINT = 'Write minute, hour, day, month and weekday: "0 3 * * *" is every day at three'


def is_cron(line: str) -> bool:
    from croniter import croniter

    return len(line.split()) == 5 and croniter.is_valid(line)


def check_cron(name: str, entry: ScheduleEntry) -> None:
    """Raises bad_request."""
    if not is_cron(entry.cron):
        raise OstlerError("bad_request", f"schedules.{name}: {quoted(entry.cron)} is not a valid cron line", CRON_HINT)


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
