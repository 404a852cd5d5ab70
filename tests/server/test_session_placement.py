"""New sessions go to the machine that fits, through a front door."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from machines.conftest import database, postgres  # noqa: F401
from ostler.machines import membership, states
from ostler.machines.model import MachineAgent, MachineFacts, MachineFolder
from server.machine_yards import MachineYard, joined_yard
from waiting import until

pytestmark = pytest.mark.asyncio


class Farm(NamedTuple):
    """`door` has no agents; `crow` is good for gpu, `owl` has the repository."""

    door: MachineYard
    crow: MachineYard
    owl: MachineYard

    async def make(self, **more: Any) -> httpx.Response:
        return await self.door.client.post("/api/sessions", json={"agent": "script", **more})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (membership, states):
        monkeypatch.setattr(module, "BEAT", 0.05)


@pytest.fixture
async def farm(tmp_path: Path, database: str) -> AsyncIterator[Farm]:  # noqa: F811
    script = MachineAgent(name="script", login="yes")
    oats = MachineFolder(path=str(tmp_path / "owl" / "project"), remote="host/farm/oats")
    told = {
        "crow": MachineFacts(labels=("gpu",), agents=(script,)),
        "owl": MachineFacts(agents=(script,), folders=(oats,)),
        "door": MachineFacts(),
    }
    async with AsyncExitStack() as stack:
        yards = {
            name: await stack.enter_async_context(joined_yard(tmp_path, name, database, facts))
            for name, facts in told.items()
        }
        yield Farm(**yards)


async def test_a_session_goes_by_name_label_and_repository(farm: Farm) -> None:
    crow, owl = str(farm.crow.folder), str(farm.owl.folder)
    for wanted, yard in (
        ({"machine": "crow", "folder": crow}, farm.crow),
        ({"labels": ["gpu"], "folder": crow}, farm.crow),
        ({"repo": "git@host:farm/oats.git"}, farm.owl),
        ({"machine": "any", "folder": owl}, farm.owl),
    ):
        made = await farm.make(**wanted)
        assert made.status_code == 201, made.text
        row = yard.ostler.find(made.json()["id"])
        assert (row.folder, row.agent) == (str(yard.folder), "script")
    here = await farm.make(folder=str(farm.door.folder))  # nothing says otherwise
    assert farm.door.ostler.find(here.json()["id"])


async def test_nothing_fits_and_the_answer_says_why(farm: Farm) -> None:
    refused = await farm.make(labels=["gpu"], repo="host/farm/oats")
    problem = refused.json()
    assert (refused.status_code, problem["kind"]) == (422, "unsupported")
    assert "crow: it has no folder of host/farm/oats; door: it has no label gpu; owl: it has no" in problem["detail"]
    assert (await farm.make(machine="heron", folder="/")).status_code == 422
    assert (await farm.make(machine="crow", folder="/", nonsense=1)).status_code == 400  # crow says so
    assert (await farm.make(machine="crow")).status_code == 400  # it needs a folder
    assert (await farm.make(machine=3, folder="/")).status_code == 400
    async with farm.door.as_("view") as viewer:
        refused = await viewer.post("/api/sessions", json={"agent": "script", "machine": "any", "folder": "/"})
        assert refused.status_code == 403


async def test_a_server_that_is_alone_says_so(farm: Farm) -> None:
    """What is passed on to a machine by name is not placed again."""
    body = {"agent": "script", "folder": "/", "labels": ["gpu"]}
    refused = await farm.door.client.post("/api/sessions?machine=crow", json=body)
    assert refused.status_code == 422 and "has not joined" in refused.json()["detail"]


async def test_the_next_turn_of_a_session_whose_machine_is_gone(farm: Farm) -> None:
    made = (await farm.make(machine="crow", folder=str(farm.crow.folder))).json()
    await until(lambda: farm.crow.membership.directory.find_sessions(made["id"]))
    me = farm.crow.membership.me.row
    await farm.crow.membership._beating.stop()
    await farm.crow.membership.directory.leave(me.id, me.epoch)
    await until(lambda: farm.door.membership.machine("crow").state == "gone")  # type: ignore[union-attr]
    asked = await farm.door.client.post(f"/api/sessions/{made['id']}/turns", json={"prompt": "[[say:neigh]]"})
    problem = asked.json()
    assert (asked.status_code, problem["kind"]) == (404, "not_found")
    assert problem["detail"] == "it is on machine crow, which is gone" and "ostler run --on any" in problem["hint"]
