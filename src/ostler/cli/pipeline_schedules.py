"""`ostler pipeline schedule` and `schedules`: pipelines that `ostler up` starts by itself."""

import os
import time
from typing import TYPE_CHECKING, Any

import click

from ostler.errors import quoted

if TYPE_CHECKING:
    from ostler.pipelines.schedule import Schedule
    from ostler.work import Ostler


@click.command(short_help="Switch the schedule of a pipeline file on or off.")
@click.argument("what", metavar="FILE")
@click.option("-i", "--input", "given", multiple=True, metavar="NAME=VALUE", help="An input. May be repeated.")
@click.option("-C", "--folder", metavar="FOLDER", default=".", help="Where it works (default: here).")
@click.option("--off", is_flag=True, help="Switch the schedule off.")
def schedule(what: str, given: tuple[str, ...], folder: str, off: bool) -> None:
    """Let `ostler up` run FILE at the times of its own line `schedule = "0 3 * * *"`.

    You trust the file as it is now: once it changes, it is not started until you run this again.

    \b
      ostler pipeline schedule nightly.toml
      ostler pipeline schedule nightly.toml -C ~/src/app --input base=main
      ostler pipeline schedule nightly.toml --off
    """
    from ostler.cli.sessions import with_ostler

    if off:
        click.echo(_switched_off(os.path.realpath(what)))
    else:
        click.echo(with_ostler(lambda o: _switched_on(o, what, folder, given_inputs(given))))


def given_inputs(given: tuple[str, ...]) -> dict[str, str]:
    """What `--input NAME=VALUE` says."""
    values = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise click.UsageError(f"--input {each}: write NAME=VALUE")
        values[name] = value
    return values


async def _switched_on(o: "Ostler", what: str, folder: str, inputs: dict[str, str]) -> str:
    from ostler import clock
    from ostler.pipelines.schedule import ScheduleNote, keep_note, next_time
    from ostler.settings import record_schedule, trust_file
    from ostler.work.turns.checks import check_folder

    file, where = os.path.realpath(what), check_folder(os.path.realpath(folder))
    entry = _entry(what, file, where, inputs)
    # Before it counts: nothing was missed while it was off.
    await keep_note(o.store, file, ScheduleNote(looked_at=clock.now()))
    record_schedule(trust_file(os.environ), file, entry)
    return f"{what} runs in {where} while `ostler up` does, next {_when(next_time(entry.cron, clock.now()))}"


def _entry(what: str, file: str, folder: str, inputs: dict[str, str]) -> Any:
    """Raises bad_request for a file that has no schedule, or could not be run."""
    from ostler.errors import OstlerError
    from ostler.pipelines.inputs import complete_inputs
    from ostler.pipelines.load import load_pipeline
    from ostler.settings import ScheduledFile, digest

    if not os.path.isfile(file) or file.endswith(".py"):
        hint = "Name a pipeline file in TOML, or write [schedules.NAME] in your settings"
        raise OstlerError("bad_request", f"{what} cannot have a schedule of its own", hint)
    with open(file, "rb") as opened:
        sha256 = digest(opened.read())
    found = load_pipeline(file, sha256)
    if not found.schedule:
        raise OstlerError("bad_request", f"{what} has no schedule", 'Write schedule = "0 3 * * *" before its tables')
    complete_inputs(found, inputs)
    return ScheduledFile(sha256=sha256, cron=found.schedule, folder=folder, inputs=inputs)


def _switched_off(file: str) -> str:
    from ostler.errors import OstlerError
    from ostler.settings import record_schedule, scheduled_files, trust_file

    if file not in scheduled_files(trust_file(os.environ)):
        raise OstlerError("not_found", f"{file} is not scheduled", "List the schedules: ostler pipeline schedules")
    record_schedule(trust_file(os.environ), file, None)
    return f"{file} is no longer scheduled"


@click.command(short_help="List the schedules that ostler up runs.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def schedules(as_json: bool) -> None:
    """List the schedules of your settings and of pipeline files that you switched on: when each is due next, what it
    started last, and what was missed.
    """
    from ostler.cli.sessions import with_ostler
    from ostler.cli.views import json_text

    rows = with_ostler(_rows)
    if as_json:
        click.echo(json_text(rows), nl=False)
    elif not rows:
        click.echo("no schedules: write [schedules.NAME] in your settings (docs/pipelines.md)")
    else:
        for row in rows:
            click.echo(_line(row))


async def _rows(o: "Ostler") -> list[dict[str, Any]]:
    from ostler.pipelines.schedule import all_schedules, check_cron
    from ostler.settings import trust_file

    for name, entry in o.settings.schedules.items():
        check_cron(name, entry)
    return [_row(o, name, each) for name, each in all_schedules(o.settings, trust_file(os.environ)).items()]


def _row(o: "Ostler", name: str, schedule: "Schedule") -> dict[str, Any]:
    import msgspec

    from ostler import clock
    from ostler.errors import OstlerError
    from ostler.pipelines.load import load_pipeline
    from ostler.pipelines.schedule import next_time, note_of

    entry, note = schedule.entry, note_of(o.store, name)
    row = {"name": name, **msgspec.to_builtins(entry), "next_at": next_time(entry.cron, clock.now())}
    row |= msgspec.to_builtins(note) if note else {}
    if schedule.sha256:
        try:
            load_pipeline(name, schedule.sha256)
        except OstlerError as error:
            row["problem"] = str(error)
    return row


def _line(row: dict[str, Any]) -> str:
    parts = [f"{row['name']}: {row['pipeline']} at {quoted(row['cron'])}, next {_when(row['next_at'])}"]
    if row["name"] == row["pipeline"]:
        parts = [f"{row['name']}: at {quoted(row['cron'])} in {row['folder']}, next {_when(row['next_at'])}"]
    parts += [f"last run {row['run']} at {_when(row['started_at'])}"] if row.get("run") else []
    parts += [f"missed {row['missed']} until {_when(row['missed_at'])}"] if row.get("missed") else []
    parts += [f"not started: {row['problem']}"] if row.get("problem") else []
    return "; ".join(parts)


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
