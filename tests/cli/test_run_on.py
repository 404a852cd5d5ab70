"""`ostler run --on`: real servers that have joined each other, and the command line of one of them."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from cli.in_pty import InPty
from machines.conftest import database, postgres  # noqa: F401
from prefork import run_ostler
from server.served import Served, serving
from waiting import until

pytestmark = pytest.mark.asyncio


class Pair(NamedTuple):
    door: Served
    far: Served

    async def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        """`ostler run …` at the door's command line."""
        return await asyncio.to_thread(run_ostler, ["run", *args], cwd=self.door.folder, env=self.door.env)

    async def knows_agents(self) -> bool:
        """Each machine looks at its agents in its own time."""
        told = (await self.door.http.get("/api/machines")).json()["items"]
        return len(told) == 2 and all(each["agents"] for each in told)


@pytest.fixture
async def pair(tmp_path: Path, database: str) -> AsyncIterator[Pair]:  # noqa: F811
    async with AsyncExitStack() as stack:
        far = await stack.enter_async_context(
            serving(tmp_path / "owl", "--join", database, "--as", "owl", "--labels", "gpu")
        )
        door = await stack.enter_async_context(serving(tmp_path / "hawk", "--join", database, "--as", "hawk"))
        pair = Pair(door, far)
        await until(pair.knows_agents)
        yield pair


async def test_a_turn_runs_elsewhere_and_is_shown_here(pair: Pair, tmp_path: Path) -> None:
    oats = tmp_path / "oats.txt"
    oats.write_text("hay")
    folder = str(pair.far.folder)
    done = await pair.run("--on", "gpu", "-C", folder, "--json", "--attach", str(oats), "script", "[[say:neigh]]")
    assert done.returncode == 0, done.stderr
    envelope = msgspec.json.decode(done.stdout)
    assert (envelope["outcome"], envelope["text"]) == ("done", "neigh")
    (session,) = (await pair.far.http.get("/api/sessions")).json()["items"]
    assert (session["id"], session["folder"], session["machine"]) == (envelope["session"], folder, "")
    shown = await pair.run("--on", "owl", "-C", folder, "script", "[[say:neigh]]")
    assert shown.returncode == 0 and "neigh" in shown.stdout
    assert shown.stderr.startswith("session ") and shown.stderr.strip().endswith(" on owl")


async def test_what_is_asked_elsewhere_is_answered_here(pair: Pair) -> None:
    ask = (
        '[[ask:{"tool": "shell", "input": {"command": "touch made"},'
        ' "options": ["allow_once", "reject_once"], "then": [{"run": "touch made"}]}]] [[say:so it is]]'
    )
    args = ["run", "--on", "owl", "-C", str(pair.far.folder), "--dialog", "--access", "write", "script", ask]

    def answered() -> int:
        pty = InPty(args, cwd=pair.door.folder, env=pair.door.env, cols=200)
        try:
            pty.until(b"[a]llow  [d]eny  [v]iew ?")
            pty.type(b"a\r")
            return pty.end()
        finally:
            pty.close()

    assert await asyncio.to_thread(answered) == 0
    assert (pair.far.folder / "made").exists()


async def test_what_cannot_be_is_said(pair: Pair) -> None:
    nowhere = await pair.run("--on", "tpu", "-C", "/", "script", "x")
    assert nowhere.returncode == 2
    assert "no machine fits (hawk: it has no label tpu; owl: it has no label tpu)" in nowhere.stderr
    both = await pair.run("--on", "owl", "--continue", "script", "x")
    assert both.returncode == 2 and "--on and --continue cannot be used together" in both.stderr
    await pair.door.stop()
    alone = await pair.run("--on", "owl", "script", "x")
    assert alone.returncode == 2 and "--on needs a server on this machine" in alone.stderr
    await pair.door.start()
