"""What ostler adds to a turn, beside the bare CLI in the same run.

Three figures: the scripted agent run bare, the same turn inside a running ostler, and by `ostler run`.
With OSTLER_TEST_CLIS (see `make test-real`) also the real claude against the scripted model.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ostler.settings import load_settings
from ostler.work import Ostler

ROUNDS = int(os.environ.get("ROUNDS", "15"))
PROMPT = "[[say:done]]"


def environment(base: Path) -> dict[str, str]:
    (base / "home").mkdir()
    return {
        "HOME": str(base / "home"),
        "PATH": os.environ["PATH"],
        "OSTLER_HOME": str(base / "state"),
        "OSTLER_SCRIPT_HOME": str(base / "script"),
        "OSTLER_SCRIPT_SPEED": "0",
    }


def bare(env: dict[str, str], folder: Path) -> None:
    agent = [sys.executable, "-m", "ostler.testing.agent", "--access=read"]
    subprocess.run(agent, input=PROMPT.encode(), cwd=folder, env=env, check=True, capture_output=True)


def by_command(env: dict[str, str], folder: Path) -> None:
    command = [sys.executable, "-m", "ostler", "run", "script", PROMPT, "--json"]
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)


async def inside(o: Ostler, folder: Path) -> None:
    session = await o.session("script", folder=str(folder))
    async for _ in session.run(PROMPT):
        pass
    assert session.last is not None and session.last.ok, session.last


async def timed(work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        env = environment(base)
        folder = base / "project"
        folder.mkdir()
        rows: dict[str, list[float]] = {"bare": [], "inside a running ostler": [], "ostler run": []}
        async with Ostler(load_settings(folder=str(folder), environ=env).settings, env) as o:
            await inside(o, folder)
            by_command(env, folder)
            for _ in range(ROUNDS):
                rows["bare"].append(await timed(lambda: asyncio.to_thread(bare, env, folder)))
                rows["inside a running ostler"].append(await timed(lambda: inside(o, folder)))
                rows["ostler run"].append(await timed(lambda: asyncio.to_thread(by_command, env, folder)))
    base_ms = statistics.median(rows["bare"])
    print(f"{'scripted agent, median of ' + str(ROUNDS):32} {'ms':>8} {'over bare':>10} {'ratio':>7}")
    for label, values in rows.items():
        ms = statistics.median(values)
        print(f"{label:32} {ms:8.1f} {ms - base_ms:10.1f} {ms / base_ms:7.2f}")


if __name__ == "__main__":
    asyncio.run(main())
