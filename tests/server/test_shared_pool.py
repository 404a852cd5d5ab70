"""Limits and spending over all machines: real servers on a real Postgres, turns of the scripted agent."""

import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from machines.conftest import database, postgres  # noqa: F401
from ostler.machines import membership, states
from ostler.model import TurnRow
from ostler.server import shared_pool
from postgres import Postgres
from server.machine_yards import MachineYard, joined_yard
from waiting import until

pytestmark = pytest.mark.asyncio

TWO = "[pool.shared]\nagents = { script = 2 }\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (membership, states):
        monkeypatch.setattr(module, "BEAT", 0.1)
    monkeypatch.setattr(shared_pool, "_SPENT_EACH", 0.2)


@asynccontextmanager
async def yards(base: Path, url: str, config: str, *names: str) -> AsyncIterator[list[MachineYard]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(joined_yard(base, name, url, config=config)) for name in names]


async def begin(yard: MachineYard, prompt: str) -> str:
    """A turn in a session of its own; its id."""
    body = {"agent": "script", "folder": str(yard.folder)}
    session = (await yard.client.post("/api/sessions", json=body)).json()["id"]
    started = await yard.client.post(f"/api/sessions/{session}/turns", json={"prompt": prompt})
    assert started.status_code == 202, started.text
    return str(started.json()["id"])


def turn(yard: MachineYard, id: str) -> TurnRow:
    row = yard.ostler.store.turn(id)
    assert row is not None
    return row


def running(*all_yards: MachineYard) -> int:
    return sum(each.runs for yard in all_yards for each in yard.ostler.store.pool_turns())


async def reasons(yard: MachineYard) -> list[str]:
    queue: dict[str, Any] = (await yard.client.get("/api/queue")).json()
    return [each["reason"] for each in queue["waiting"]]


def most_at_once(rows: list[TurnRow]) -> int:
    """How many of these turns ran at the same moment."""
    changes = []
    for row in rows:
        assert row.envelope is not None and row.ended_at is not None
        changes += [(row.envelope.started_at, 1), (row.ended_at, -1)]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


async def test_a_limit_holds_over_all_machines_and_everybody_has_a_turn(tmp_path: Path, database: str) -> None:  # noqa: F811
    async with yards(tmp_path, database, TWO, "crow", "owl", "wren") as farm:
        turns = [(yard, await begin(yard, "[[say:neigh]]")) for _ in range(4) for yard in farm]
        await until(lambda: all(turn(yard, id).state == "ended" for yard, id in turns))
        rows = [turn(yard, id) for yard, id in turns]
        assert all(row.envelope is not None and row.envelope.ok for row in rows)
        assert most_at_once(rows) <= 2


async def test_a_turn_waits_for_one_of_another_machine(tmp_path: Path, database: str) -> None:  # noqa: F811
    go = tmp_path / "go"
    async with yards(tmp_path, database, TWO.replace("2", "1"), "crow", "owl") as (crow, owl):
        first = await begin(crow, f"[[wait_for:{go}]] [[say:hay]]")
        await until(lambda: turn(crow, first).state == "running")
        second = await begin(owl, "[[say:oats]]")
        await until(lambda: reasons(owl))
        assert await reasons(owl) == ["script: this machine holds 0 of 1 shared slots"]
        assert turn(owl, second).state == "queued" and running(crow, owl) == 1
        slots = {each["name"]: each for each in (await crow.client.get("/api/queue")).json()["slots"]}
        assert (slots["script"]["taken"], slots["script"]["held"], slots["script"]["of_all"]) == (1, 1, 1)
        go.touch()
        await until(lambda: turn(owl, second).state == "ended")
        assert most_at_once([turn(crow, first), turn(owl, second)]) == 1


async def test_the_slots_of_a_silent_machine_are_freed_and_it_starts_nothing(
    tmp_path: Path,
    database: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with yards(tmp_path, database, TWO.replace("2", "1"), "crow", "owl") as (crow, owl):
        never = await begin(crow, "[[never_end:true]]")
        await until(lambda: turn(crow, never).state == "running")
        waiting = await begin(owl, "[[say:oats]]")
        monkeypatch.setattr(states, "LEASE", 0.5)
        await crow.membership._beating.stop()  # it hangs, or its line is cut
        await until(lambda: turn(owl, waiting).state == "ended")
        await crow.ostler.cancel_turn(never)
        more = await begin(crow, "[[say:hay]]")  # there is room again, but not for one whose lease has ended
        await until(lambda: crow.shared.trouble)
        assert "lease of this machine has ended" in str(crow.shared.trouble)
        assert turn(crow, more).state == "queued"
        crow.membership._beating.start()
        await until(lambda: turn(crow, more).state == "ended")


async def test_while_postgres_is_away_what_runs_goes_on_and_nothing_new_starts(
    tmp_path: Path,
    postgres: Postgres,  # noqa: F811
    database: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go = tmp_path / "go"
    async with yards(tmp_path, database, TWO, "crow") as (crow,):
        first = await begin(crow, f"[[wait_for:{go}]] [[say:hay]]")
        await until(lambda: turn(crow, first).state == "running")
        monkeypatch.setattr(states, "LEASE", 0.5)
        postgres.stop(signal.SIGQUIT)
        try:
            await until(lambda: crow.membership.trouble)
            second = await begin(crow, "[[say:oats]]")
            unknown = ["the limits over all machines are not known at the moment"]

            async def waits() -> bool:
                return await reasons(crow) == unknown

            await until(waits)
            go.touch()
            await until(lambda: turn(crow, first).state == "ended")
            assert turn(crow, second).state == "queued" and await waits()
        finally:
            postgres.start()
        await until(lambda: turn(crow, second).state == "ended")


async def test_spending_of_all_machines_ends_the_day(tmp_path: Path, database: str) -> None:  # noqa: F811
    async with yards(tmp_path, database, "[spending.shared]\nday = 1.0\n", "crow", "owl") as (crow, owl):
        first = await begin(owl, "[[say:free]]")
        paid = await begin(crow, '[[usage:{"cost_usd": 1.5}]] [[say:hay]]')
        await until(lambda: turn(crow, paid).state == "ended" == turn(owl, first).state)
        path = f"/api/sessions/{turn(owl, first).session}/turns"

        async def refused() -> str | None:  # once crow has told of it, and owl has asked
            asked = await owl.client.post(path, json={"prompt": "[[say:free]]", "wait": True})
            return asked.json()["detail"] if asked.status_code == 402 else None

        detail = await until(refused)
        assert detail == "the turns of today cost $1.50 on all machines, and the limit is $1.00"


async def test_a_machine_that_leaves_gives_its_slots_back(tmp_path: Path, database: str) -> None:  # noqa: F811
    async with yards(tmp_path, database, TWO, "owl") as (owl,):
        async with yards(tmp_path, database, TWO, "crow") as (crow,):
            for _ in range(2):
                await begin(crow, "[[never_end:true]]")
            await until(lambda: running(crow) == 2)
            waiting = await begin(owl, "[[say:oats]]")
            await until(lambda: reasons(owl))
        await until(lambda: turn(owl, waiting).state == "ended")
