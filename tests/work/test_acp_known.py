"""An agent of the settings that ostler knows, under a real Ostler."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.process import tree
from waiting import until
from work.acp_yard import AcpYard, pid_of, turn


@pytest.fixture
def yard(tmp_path: Path) -> AcpYard:
    program = tmp_path / "codex-acp"
    program.symlink_to(Path(__file__).parent / "codex_acp_stand_in.py")
    return AcpYard(tmp_path, (sys.executable, str(program)), loose=False)


async def test_an_interrupt_ends_the_command_that_the_agent_leaves_alive(yard: AcpYard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        assert (await turn(o, live, "hello"))[0].ok
        pid = pid_of(o, live)
        command = f"sleep 77{os.getpid()}"
        running = asyncio.create_task(turn(o, live, f"run {command}"))
        await until(lambda: command in beneath(pid))
        await o.cancel(live.id)
        assert (await running)[0].outcome == "cancelled"
        assert beneath(pid) == ["sleep 1001"]
        assert (await turn(o, live, "hello"))[0].ok and pid_of(o, live) == pid


@pytest.mark.parametrize("access", ["read", "write"])
async def test_an_access_that_is_not_promised_is_denied(yard: AcpYard, access: str) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access=access)
        with pytest.raises(OstlerError) as refused:
            await turn(o, live, "hello")
        assert (refused.value.kind, "allow" in refused.value.message) == ("denied", True)


def beneath(pid: int) -> list[str]:
    return [tree.command(each) for each in tree.below([pid]) if tree.identity(each) is not None]
