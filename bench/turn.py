"""What ostler adds to a turn, beside the bare CLI in the same run.

Three figures: the scripted agent run bare, the same turn inside a running ostler, and by `ostler run`, in alternation.
Each by the clock, which is what a user waits, and by the CPU of all processes that were started, which varies less on
a busy machine; each also as what it is over the bare agent. BESIDE may name the interpreter of another ostler, whose
`ostler run` is measured in the same rounds.
With OSTLER_TEST_CLIS (see `make test-real`) the same for the real claude, against the scripted model.
"""

import asyncio
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from disk import disk_line

from ostler.agents import AGENTS
from ostler.settings import load_settings
from ostler.testing import ScriptedModel
from ostler.work import Ostler
from ostler.work.probe import find

ROUNDS = int(os.environ.get("ROUNDS", "15"))
BESIDE = os.environ.get("BESIDE", "")
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
    agent = find(AGENTS["script"], "")  # as ostler starts it
    assert agent is not None
    subprocess.run(
        [*agent, "--access=read"], input=PROMPT.encode(), cwd=folder, env=env, check=True, capture_output=True
    )


def by_command(env: dict[str, str], folder: Path, python: str = sys.executable) -> None:
    command = [str(Path(python).with_name("ostler")), "run", "script", PROMPT, "--json"]  # as a user types it
    env = {**env, "OSTLER_HOME": env["OSTLER_HOME"] + python.replace("/", "-")}  # an older one cannot read it
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)


async def inside(o: Ostler, folder: Path, agent: str = "script") -> None:
    session = await o.session(agent, folder=str(folder))
    async for _ in session.run(PROMPT):
        pass
    assert session.last is not None and session.last.ok, session.last


Took = tuple[float, float]  # ms: by the clock, and of CPU in processes that have ended


async def timed(work: Callable[[], Awaitable[None]]) -> Took:
    began, before = time.perf_counter(), spent()
    await work()
    return (time.perf_counter() - began) * 1000, (spent() - before) * 1000


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def scripted() -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        env = environment(base)
        folder = base / "project"
        folder.mkdir()
        rows: dict[str, list[Took]] = {"bare": [], "inside a running ostler": [], "ostler run": []}
        if BESIDE:
            rows["ostler run, the other one"] = []
        async with Ostler(load_settings(folder=str(folder), environ=env).settings, env) as o:
            await inside(o, folder)
            by_command(env, folder)
            for _ in range(ROUNDS):
                if BESIDE:
                    other = await timed(lambda: asyncio.to_thread(by_command, env, folder, BESIDE))
                    rows["ostler run, the other one"].append(other)
                rows["bare"].append(await timed(lambda: asyncio.to_thread(bare, env, folder)))
                rows["inside a running ostler"].append(await timed(lambda: inside(o, folder)))
                rows["ostler run"].append(await timed(lambda: asyncio.to_thread(by_command, env, folder)))
        show(f"scripted agent, median of {ROUNDS}", rows)
        print(disk_line(base))


def show(title: str, rows: dict[str, list[Took]]) -> None:
    heads = ("over bare", "best", "over bare")
    print(f"{title:32}", *(f"{head:>9}" for head in ("clock, ms", *heads, "CPU, ms", *heads)))
    for label, values in rows.items():
        figures: list[float | None] = []
        for taken, bare in zip(zip(*values, strict=True), zip(*rows["bare"], strict=True), strict=True):
            for part in (statistics.median, min):
                figures += [part(taken), part(taken) - part(bare)] if any(taken) else [None, None]
        print(f"{label:32}", *(f"{'–':>9}" if figure is None else f"{figure:9.1f}" for figure in figures))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


async def claude() -> None:
    """The real claude against the scripted model: the same argv bare and by ostler."""
    rounds = max(5, ROUNDS // 3)
    with tempfile.TemporaryDirectory() as name, ScriptedModel() as model:
        base = Path(name)
        env = {**environment(base), **model.environment, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        env["PATH"] = f"{os.environ['OSTLER_TEST_CLIS']}/node_modules/.bin:{env['PATH']}"
        command = [sys.executable, "-m", "ostler", "run", "claude", "hello", "--json"]
        flags = ["-p", "--output-format=stream-json", "--verbose", "--include-partial-messages"]
        rows: dict[str, list[Took]] = {"bare": [], "inside a running ostler": [], "ostler run": []}
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
