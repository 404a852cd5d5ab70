"""What ostler adds to a turn, beside the bare CLI in the same run.

Three figures: the scripted agent run bare, the same turn inside a running ostler, and by `ostler run`.
With OSTLER_TEST_CLIS (see `make test-real`) the same for the real claude, against the scripted model.
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ostler.settings import load_settings
from ostler.testing import ScriptedModel
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


async def inside(o: Ostler, folder: Path, agent: str = "script") -> None:
    session = await o.session(agent, folder=str(folder))
    async for _ in session.run(PROMPT):
        pass
    assert session.last is not None and session.last.ok, session.last


async def timed(work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


async def scripted() -> None:
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
    show(f"scripted agent, median of {ROUNDS}", rows)


def show(title: str, rows: dict[str, list[float]]) -> None:
    base = statistics.median(rows["bare"])
    print(f"{title:32} {'ms':>8} {'over bare':>10} {'ratio':>7}")
    for label, values in rows.items():
        ms = statistics.median(values)
        print(f"{label:32} {ms:8.1f} {ms - base:10.1f} {ms / base:7.2f}")


async def claude() -> None:
    """The real claude against the scripted model: the same argv bare and by ostler."""
    rounds = max(5, ROUNDS // 3)
    with tempfile.TemporaryDirectory() as name, ScriptedModel() as model:
        base = Path(name)
        env = {**environment(base), **model.environment, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        env["PATH"] = f"{os.environ['OSTLER_TEST_CLIS']}/node_modules/.bin:{env['PATH']}"
        command = [sys.executable, "-m", "ostler", "run", "claude", "hello", "--json"]
        flags = ["-p", "--output-format=stream-json", "--verbose", "--include-partial-messages"]
        rows: dict[str, list[float]] = {"bare": [], "inside a running ostler": [], "ostler run": []}
        settings = load_settings(folder=name, environ=env).settings
        async with Ostler(settings, env) as o:
            for n in range(rounds + 1):
                bare_ms = await timed(lambda: asyncio.to_thread(_run, ["claude", *flags], env, base))
                inside_ms = await timed(lambda: inside(o, base, "claude"))
                run_ms = await timed(lambda: asyncio.to_thread(_run, command, env, base))
                if n:  # the first round fills caches
                    for label, ms in zip(rows, (bare_ms, inside_ms, run_ms), strict=True):
                        rows[label].append(ms)
    show(f"claude, median of {rounds}", rows)


def _run(command: list[str], env: dict[str, str], folder: Path) -> None:
    program = shutil.which(command[0], path=env["PATH"]) or command[0]
    subprocess.run([program, *command[1:]], input=b"hello", cwd=folder, env=env, check=True, capture_output=True)


async def main() -> None:
    await scripted()
    if os.environ.get("OSTLER_TEST_CLIS"):
        await claude()


if __name__ == "__main__":
    asyncio.run(main())
