"""Schedules of the settings and of files start runs while a server is up; the clock is turned."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ostler import clock as the_clock
from ostler.errors import OstlerError
from ostler.pipelines.schedule import ScheduleNote, next_time, note_of
from ostler.server.run_processes import RunProcesses
from ostler.server.schedules import Schedules
from ostler.supervise import Loop
from ostler.testing.clock import Clock
from ostler.testing.launched import ScriptedAgent
from ostler.work import Ostler
from waiting import until
from work.scripted import Stable

HOURLY = "0 * * * *"
PIPELINE = '[nodes.only]\ncommand = ["true"]\n'


@pytest.fixture
def stable(tmp_path: "object", scripted_agent: ScriptedAgent) -> Stable:
    made = Stable(tmp_path, scripted_agent)  # type: ignore[arg-type]
    (made.folder / "p.toml").write_text(PIPELINE)
    write(made)
    return made


def write(stable: Stable, cron: str = HOURLY, pipeline: str = "p.toml") -> None:
    config = stable.home / ".config" / "ostler"
    config.mkdir(parents=True, exist_ok=True)
    fields = f'cron = "{cron}"\npipeline = "{pipeline}"\nfolder = "{stable.folder}"\n'
    (config / "config.toml").write_text(f"[schedules.often]\n{fields}")


@asynccontextmanager
async def scheduling(stable: Stable) -> AsyncIterator[tuple[Ostler, RunProcesses]]:
    async with stable.ostler() as o:
        runs = RunProcesses(o)
        loop = Loop("starting runs of schedules", Schedules(o, runs).step)
        loop.start()
        try:
            yield o, runs
        finally:
            await loop.stop()
            await runs.close()


def note(o: Ostler, name: str = "often") -> ScheduleNote:
    return note_of(o.store, name) or ScheduleNote(looked_at=0.0)


async def test_a_run_is_started_when_it_is_due_and_once(stable: Stable, clock: Clock) -> None:
    async with scheduling(stable) as (o, runs):
        await until(lambda: note(o).looked_at)
        assert runs.runs.list() == []
        due = next_time(HOURLY, the_clock.now())
        await clock.turn(due - the_clock.now() + 1)
        await until(lambda: note(o).run)
        (run,) = runs.runs.list()
        assert (note(o).run, note(o).started_at, note(o).problem) == (run.id, due, "")
        assert [node.name for node in run.pipeline.nodes] == ["only"]
        looked = note(o).looked_at
        await clock.turn(31)
        await until(lambda: note(o).looked_at > looked)
        assert len(runs.runs.list()) == 1


async def test_what_was_missed_is_told_and_not_caught_up(stable: Stable, clock: Clock) -> None:
    async with scheduling(stable) as (o, _):
        await until(lambda: note(o).looked_at)
    last = next_time(HOURLY, the_clock.now())
    await clock.turn(last - the_clock.now() + 3 * 3600 + 600)
    async with scheduling(stable) as (o, runs):
        await until(lambda: note(o).missed)
        assert (note(o).missed, note(o).missed_at, runs.runs.list()) == (4, last + 3 * 3600, [])


async def test_a_pipeline_that_is_not_there_is_told(stable: Stable, clock: Clock) -> None:
    write(stable, pipeline="gone.toml")
    async with scheduling(stable) as (o, runs):
        await until(lambda: note(o).looked_at)
        await clock.turn(next_time(HOURLY, the_clock.now()) - the_clock.now() + 1)
        await until(lambda: note(o).problem)
        assert "there is no pipeline 'gone.toml'" in note(o).problem and runs.runs.list() == []


async def test_a_line_that_is_none_is_refused_at_once(stable: Stable) -> None:
    write(stable, cron="every day")
    async with stable.ostler() as o:
        with pytest.raises(OstlerError, match="'every day' is not a valid cron line"):
            Schedules(o, RunProcesses(o))


def test_schedules_are_listed(stable: Stable) -> None:
    told, _ = stable.cli("pipeline", "schedules", "--json").communicate(timeout=60)
    (row,) = json.loads(told)
    assert (row["name"], row["cron"], row["pipeline"]) == ("often", HOURLY, "p.toml") and "looked_at" not in row
    told, _ = stable.cli("pipeline", "schedules").communicate(timeout=60)
    assert told.startswith(f"often: p.toml at '{HOURLY}', next ")


# -- the schedule of a file itself


def own_file(stable: Stable, more: str = "") -> str:
    """A pipeline file with a schedule, in a folder whose settings have none."""
    (stable.home / ".config/ostler/config.toml").unlink()
    file = stable.folder / "own.toml"
    file.write_text(f'schedule = "{HOURLY}"\n{PIPELINE}{more}')
    return str(file)


def switched(stable: Stable, *args: str) -> tuple[int, str]:
    process = stable.cli("pipeline", "schedule", *args, "-C", str(stable.folder))
    out, err = process.communicate(timeout=60)
    return process.returncode, out + err


async def an_hour_passes(clock: Clock) -> None:
    await clock.turn(next_time(HOURLY, the_clock.now()) - the_clock.now() + 1)


async def test_a_file_that_nobody_switched_on_starts_nothing(stable: Stable, clock: Clock) -> None:
    """Beside it stands one of the settings, which shows that the time has come."""
    file = stable.folder / "own.toml"
    file.write_text(f'schedule = "{HOURLY}"\n{PIPELINE}')
    async with scheduling(stable) as (o, runs):
        await until(lambda: note(o).looked_at)
        await an_hour_passes(clock)
        await until(lambda: note(o).run)
        assert [run.id for run in runs.runs.list()] == [note(o).run]
        assert note_of(o.store, str(file)) is None


async def test_a_file_that_is_switched_on_is_started_while_it_stays_as_it_is(stable: Stable, clock: Clock) -> None:
    file = own_file(stable)
    code, said = switched(stable, file)
    assert code == 0 and said.startswith(f"{file} runs in {stable.folder} while"), said
    async with scheduling(stable) as (o, runs):
        switched_at = note(o, file).looked_at
        await until(lambda: note(o, file).looked_at > switched_at)
        await an_hour_passes(clock)
        await until(lambda: note(o, file).run)
        (run,) = runs.runs.list()
        await until(lambda: runs.runs.find(run.id).ended_at)
        with open(file, "a") as changed:
            changed.write('[nodes.planted]\ncommand = ["touch", "planted"]\n')
        await an_hour_passes(clock)
        await until(lambda: note(o, file).problem)
        assert "has changed since its schedule was switched on" in note(o, file).problem
        assert [each.id for each in runs.runs.list()] == [run.id]
    listed, _ = stable.cli("pipeline", "schedules").communicate(timeout=60)
    assert listed.startswith(f"{file}: at '{HOURLY}' in {stable.folder}, next ") and "not started: " in listed
    assert switched(stable, file)[0] == 0  # it is trusted as it is now
    assert "not started" not in stable.cli("pipeline", "schedules").communicate(timeout=60)[0]
    assert switched(stable, file, "--off") == (0, f"{file} is no longer scheduled\n")
    assert switched(stable, file, "--off")[0] != 0
    assert stable.cli("pipeline", "schedules").communicate(timeout=60)[0].startswith("no schedules")


def test_only_a_file_that_could_be_run_is_switched_on(stable: Stable) -> None:
    file = own_file(stable, "[inputs]\nbase = {}\n")
    code, said = switched(stable, file)
    assert code == 2 and "own needs the input base" in said
    assert switched(stable, file, "-i", "base=main")[0] == 0
    code, said = switched(stable, str(stable.folder / "p.toml"))
    assert code == 2 and "has no schedule" in said
    (stable.folder / "p.py").write_text("pipeline = 1")
    code, said = switched(stable, str(stable.folder / "p.py"))
    assert code == 2 and "cannot have a schedule of its own" in said
    told = stable.cli("pipeline", "check", file).communicate(timeout=60)[0]
    assert told.endswith(f"schedule: '{HOURLY}', once you have run: ostler pipeline schedule {file}\n")
