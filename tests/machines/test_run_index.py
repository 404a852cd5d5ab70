"""Who has a run: claimed by one machine at a time, whose older writes are refused. In a real Postgres."""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from ostler.errors import OstlerError
from ostler.machines.directory import Directory, Joined
from ostler.machines.model import MachineFacts, MachineLoad
from ostler.machines.run_index import IndexedRun, RunClaim, RunIndex, RunMoved, RunWants


class Barn(NamedTuple):
    """A directory with two machines, hawk and owl, whose ids are h and o."""

    directory: Directory
    index: RunIndex
    joined: dict[str, Joined]

    async def seen(self, id: str) -> IndexedRun:
        found = await self.index.find(id)
        assert found is not None
        return found

    async def claim(self, id: str, by: str) -> IndexedRun | None:
        return await self.index.claim(await self.seen(id), by, self.joined[by].epoch)

    async def lose(self, machine: str) -> None:
        """Its lease is ended."""
        row = await self.directory.machine(machine)
        assert row is not None and await self.directory.fence(row)


@pytest.fixture
async def barn(database: str) -> AsyncIterator[Barn]:
    directory = Directory(database)
    await directory.prepare()
    index = RunIndex(directory)
    await index.prepare()
    await index.prepare()  # by each machine
    joined = {id: await directory.join(id, name, "", b"", MachineFacts()) for id, name in (("h", "hawk"), ("o", "owl"))}
    yield Barn(directory, index, joined)
    await directory.close()


def run(id: str = "r1", machine: str | None = "h", takeover: bool = True, **more: object) -> IndexedRun:
    fence = 1 if machine else 0
    return IndexedRun(id=id, machine=machine, fence=fence, takeover=takeover, body=b"{}", created_at=1.0, **more)  # type: ignore[arg-type]


async def test_a_run_is_written_by_its_machine_alone(barn: Barn) -> None:
    wants = RunWants(labels=("gpu",), version="1")
    assert await barn.index.add(run(wants=wants)) and not await barn.index.add(run(machine="o"))  # an id is had once
    await barn.index.put_run("r1", RunClaim("h", 1), "running", b'{"a": "x\\u0000y"}')
    await barn.index.put_node("r1", RunClaim("h", 1), "n1", b"{}")
    await barn.index.put_node("r1", RunClaim("h", 1), "n1", b'{"b": 1}')
    assert await barn.index.nodes("r1") == [b'{"b": 1}']
    found = await barn.seen("r1")
    assert (found.machine_name, found.body, found.wants, found.lost) == ("hawk", b'{"a": "xy"}', wants, False)
    for wrong in (RunClaim("o", 1), RunClaim("h", 2), RunClaim("h", 0)):
        with pytest.raises(RunMoved) as refused:
            await barn.index.put_run("r1", wrong, "done", b"{}")
        assert refused.value.machine == "hawk"
        with pytest.raises(RunMoved):
            await barn.index.put_node("r1", wrong, "n1", b"{}")
        with pytest.raises(RunMoved):
            await barn.index.check("r1", wrong)
    await barn.index.check("r1", RunClaim("h", 1))
    assert await barn.index.nodes("r1") == [b'{"b": 1}'] and (await barn.seen("r1")).state == "running"


async def test_the_run_of_a_lost_machine_is_claimed_once_and_its_writes_are_refused(barn: Barn) -> None:
    await barn.index.add(run())
    assert await barn.claim("r1", "o") is None  # its machine lives
    await barn.lose("h")
    lost = await barn.seen("r1")
    assert lost.lost
    claims = await asyncio.gather(*(barn.index.claim(lost, "o", barn.joined["o"].epoch) for _ in range(4)))
    (won,) = [claim for claim in claims if claim is not None]
    assert (won.machine, won.fence, won.came_from, won.lost) == ("o", 2, "hawk", False)
    with pytest.raises(RunMoved) as refused:
        await barn.index.put_node("r1", RunClaim("h", 1), "n1", b"{}")
    assert refused.value.machine == "owl" and "has moved to machine owl" in str(refused.value)
    # It is back: it is not its run any more, and it cannot have it while owl lives.
    await barn.directory.beat("h", barn.joined["h"].epoch, MachineLoad())
    assert await barn.claim("r1", "h") is None
    await barn.directory.leave("o", barn.joined["o"].epoch)
    again = await barn.claim("r1", "h")
    assert again is not None and (again.machine, again.fence, again.came_from) == ("h", 3, "owl")


async def test_who_came_back_before_anybody_claimed_its_run_still_has_it(barn: Barn) -> None:
    await barn.index.add(run())
    await barn.lose("h")
    lost = await barn.seen("r1")
    await barn.directory.beat("h", barn.joined["h"].epoch, MachineLoad())
    assert await barn.index.claim(lost, "o", barn.joined["o"].epoch) is None
    await barn.index.put_run("r1", RunClaim("h", 1), "done", b"{}")


async def test_a_run_that_nobody_may_take_over_or_that_has_ended_is_not_claimed(barn: Barn) -> None:
    await barn.index.add(run("r1", takeover=False))
    await barn.index.add(run("r2"))
    await barn.index.put_run("r2", RunClaim("h", 1), "failed", b"{}")
    await barn.directory.forget("h")  # removed by somebody
    assert await barn.claim("r1", "o") is None and await barn.claim("r2", "o") is None
    assert [each.id for each in await barn.index.open_runs("o")] == []
    assert [each.id for each in await barn.index.runs_of("h", 10)] == ["r1", "r2"]


async def test_who_drains_was_fenced_or_started_anew_claims_nothing(barn: Barn) -> None:
    await barn.index.add(run(machine=None))
    await barn.directory.drain("h", True)
    assert await barn.claim("r1", "h") is None
    await barn.lose("o")
    assert await barn.claim("r1", "o") is None
    anew = await barn.directory.join("o", "owl", "", b"", MachineFacts())
    assert await barn.claim("r1", "o") is None  # this process is not the one that has joined
    claimed = await barn.index.claim(await barn.seen("r1"), "o", anew.epoch)
    assert claimed is not None and (claimed.fence, claimed.came_from) == (1, "")


async def test_runs_that_wait_are_seen_by_all_and_can_be_cancelled(barn: Barn) -> None:
    await barn.index.add(run("r1", machine=None))
    await barn.index.add(run("r2", machine="h", takeover=False))
    await barn.index.add(run("r3", machine="h"))
    assert [each.id for each in await barn.index.open_runs("o")] == ["r1"]  # hawk lives
    assert [each.id for each in await barn.index.open_runs("h")] == ["r1", "r2", "r3"]
    assert [each.id for each in await barn.index.runs_of(None, 10)] == ["r1"]
    await barn.lose("h")
    assert [each.id for each in await barn.index.open_runs("o")] == ["r1", "r3"]
    assert await barn.index.cancel_waiting("r1") and not await barn.index.cancel_waiting("r3")
    assert set(await barn.index.find_all(["r1", "r2", "r3"])) == {"r2", "r3"}


async def test_what_has_ended_long_ago_is_forgotten(barn: Barn) -> None:
    await barn.index.add(run("r1"))
    await barn.index.add(run("r2"))
    await barn.index.put_node("r2", RunClaim("h", 1), "n1", b"{}")
    await barn.index.put_run("r2", RunClaim("h", 1), "done", b"{}")
    await barn.index.sweep("h", 1.0)
    assert set(await barn.index.find_all(["r1", "r2"])) == {"r1", "r2"}
    await barn.index.sweep("h", 0.0)
    assert set(await barn.index.find_all(["r1", "r2"])) == {"r1"} and await barn.index.nodes("r2") == []


async def test_an_address_is_never_in_what_is_told(database: str) -> None:
    directory = Directory("postgresql://postgres:hunter2@127.0.0.1:1/x")
    with pytest.raises(OstlerError) as error:
        await RunIndex(directory).find("r1")
    assert error.value.kind == "store" and "hunter2" not in str(error.value)
