"""An attacker behind a wall, judged from outside; and the same without one, which shows that the tries bite."""

import asyncio
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from needs import needs
from security import attack
from security.attacked import MAY_FAIL, NOT_HELD, TRIES, World, told, world_in
from work.acp_yard import AcpYard, turn
from work.scripted import Stable

pytestmark = needs("landlock")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path) as made:
        yield made


@pytest.mark.parametrize("access", ["read", "write"])
async def test_nothing_gets_out_of_a_wall(stable: Stable, world: World, access: str) -> None:
    stable.script.env["OSTLER_WALLS"] = "required"
    async with stable.ostler() as o:
        envelope = await o.exec(world.argv, folder=str(stable.folder), access=access)  # type: ignore[arg-type]
    assert envelope.exit is not None and envelope.exit.code == 0, envelope
    assert (world.taken(), world.planted()) == (set(), [])
    said = told(envelope.text)
    assert (said.tried, said.planted) == (TRIES, 0) and said.through <= NOT_HELD
    assert bool(list(stable.folder.iterdir())) is (access == "write")


@pytest.mark.parametrize("access", ["read", "write"])
async def test_nothing_gets_out_of_the_wall_of_an_acp_agent(tmp_path: Path, world: World, access: str) -> None:
    """One that ostler knows nothing of runs it by itself, unasked."""
    base = tmp_path / "yard"
    base.mkdir()
    yard = AcpYard(base, loose=False)
    async with yard.ostler(walls="required", wall_paths=[str(base / "script")]) as o:
        (base / "script").mkdir()
        live = await yard.session(o, access=access)
        await turn(o, live, f"[[run:{shlex.join(world.argv)}]][[say:over]]")
        assert live.last is not None and live.last.ok, live.last
    assert (world.taken(), world.planted()) == (set(), [])
    assert bool(list(yard.folder.iterdir())) is (access == "write")


async def test_without_a_wall_the_same_gets_through(stable: Stable, world: World) -> None:
    process = await asyncio.create_subprocess_exec(*world.argv, cwd=stable.folder, stdout=asyncio.subprocess.PIPE)
    said = told((await process.communicate())[0].decode())
    assert attack.FILES.keys() - world.taken() <= MAY_FAIL
    assert world.planted() == attack.POWER
    assert {"connects_to_a_socket", "connects_to_an_abstract_socket", "signals_another"} <= said.through
    assert said.tried == TRIES
