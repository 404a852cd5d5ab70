"""The pool at work, on one machine with SQLite: how soon a turn starts, turns a second, and what waiting turns take.

- begin → start: a turn finds a free slot; from the call until it is committed as started.
- freed → start: all slots are taken; from the end of one turn until the next in line is committed as started.
- turns a second, with four slots; beside it the scripted agent run bare, four at once, in the same run.
- memory of TURNS turns that wait, each in a session of its own.
- the first prompt of a new session, from the call until the agent has it, with and without a process that was kept
  started for it (`warm`), in turns; in a dialog, and in the agent's own screen. `ONLY=warm` measures this alone.
"""

import asyncio
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

from ostler import clock
from ostler.agents import AGENTS
from ostler.model import Notice, Text, TransportName, TurnOptions
from ostler.settings import load_settings
from ostler.work import Ostler
from ostler.work.probe import find
from ostler.work.transports.spares import SpareKind
from ostler.work.turns.begin import begin

ROUNDS = int(os.environ.get("ROUNDS", "40"))
TURNS = int(os.environ.get("TURNS", "1000"))
FIRST_PROMPTS = int(os.environ.get("FIRST_PROMPTS", "10"))
SLOTS = 4
PROMPT = "[[say:done]]"


def environment(base: Path) -> dict[str, str]:
    config = base / "home" / ".config" / "ostler"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f"[pool]\ntotal = {SLOTS}\n")
    return {
        "HOME": str(base / "home"),
        "PATH": os.environ["PATH"],
        "OSTLER_HOME": str(base / "state"),
        "OSTLER_SCRIPT_HOME": str(base / "script"),
        "OSTLER_SCRIPT_SPEED": "0",
    }


async def begun(o: Ostler, folder: Path, prompt: str) -> tuple[str, float]:
    """A turn in a session of its own, and when it was asked for."""
    live = await o.session("script", folder=str(folder))
    at = clock.now()
    return (await begin(live, prompt, TurnOptions(), wait=True)).row.id, at


async def ended(o: Ostler, turns: list[str]) -> None:
    while any(row.id in turns for row in o.store.running_turns()):
        await asyncio.sleep(0.005)


def times(o: Ostler) -> dict[str, tuple[float, float]]:
    """When each turn began and ended."""
    found = o.store._read("SELECT id, began_at, ended_at FROM turns WHERE ended_at IS NOT NULL")
    return {id: (began, end) for id, began, end in found if began is not None}


async def start_of_one(o: Ostler, folder: Path) -> list[float]:
    asked = {}
    for _ in range(ROUNDS):
        id, at = await begun(o, folder, PROMPT)
        asked[id] = at
        await ended(o, [id])
    known = times(o)
    return [(known[id][0] - at) * 1000 for id, at in asked.items()]


async def start_in_line(o: Ostler, folder: Path) -> tuple[list[float], float]:
    """From the end of a turn until the one that takes its slot begins, in ms; and turns a second."""
    since = time.monotonic()
    ids = [(await begun(o, folder, PROMPT))[0] for _ in range(ROUNDS * 2)]
    await ended(o, ids)
    rate = len(ids) / (time.monotonic() - since)
    mine = sorted(value for id, value in times(o).items() if id in ids)
    ends = sorted(end for _, end in mine)
    # The first turns find free slots; each later one takes the slot of the turn that ended before it.
    return [(began - end) * 1000 for (began, _), end in zip(mine[SLOTS:], ends, strict=False)], rate


async def bare_rate(env: dict[str, str], folder: Path) -> float:
    slots, since = asyncio.Semaphore(SLOTS), time.monotonic()

    async def one() -> None:
        async with slots:
            agent = find(AGENTS["script"], "")  # as ostler starts it
            assert agent is not None
            pipe = asyncio.subprocess.PIPE
            child = await asyncio.create_subprocess_exec(
                *agent, "--access=read", cwd=folder, env=env, stdin=pipe, stdout=pipe
            )
            await child.communicate(PROMPT.encode())

    await asyncio.gather(*(one() for _ in range(ROUNDS * 2)))
    return ROUNDS * 2 / (time.monotonic() - since)


async def memory_of_waiting(o: Ostler, folder: Path) -> tuple[float, float]:
    """KB of this process for each turn that waits, and ms to queue one."""
    blockers = [(await begun(o, folder, "[[never_end]]"))[0] for _ in range(SLOTS)]
    before, since = _rss(), time.monotonic()
    for _ in range(TURNS):
        await begun(o, folder, PROMPT)
    took, after = (time.monotonic() - since) * 1000 / TURNS, _rss()
    assert len(o.store.running_turns()) == TURNS + len(blockers)
    return (after - before) / TURNS, took


async def first_prompts(env: dict[str, str], folder: Path, transport: TransportName) -> None:
    """In ms, of new sessions of one ostler that keeps one process started, and of one that keeps none."""
    taken: dict[str, list[float]] = {"cold": [], "warm": []}
    settings = load_settings(folder=str(folder), environ=env, flags={"pool": {"warm": {"script": 1}}}).settings
    plain = load_settings(folder=str(folder), environ=env).settings
    async with Ostler(settings, env) as warm, Ostler(plain, env) as cold:
        for o in (warm, cold):
            await first_prompt(o, folder, transport)  # what is looked up once
        for _ in range(FIRST_PROMPTS):
            await spare_ready(warm, folder)
            taken["cold"].append(await first_prompt(cold, folder, transport))
            taken["warm"].append(await first_prompt(warm, folder, transport))
    for name, values in taken.items():
        told(f"first prompt, {transport}, {name}", values)


async def first_prompt(o: Ostler, folder: Path, transport: TransportName) -> float:
    """From the call until a screen's prompt is acknowledged, or until a dialog's agent answers, which is at once."""
    live = await o.session("script", folder=str(folder))
    since, at = time.monotonic(), 0.0
    async for event in live.run(PROMPT, transport=transport):
        receipt = isinstance(event, Notice) and event.text.startswith("acknowledged")
        at = at or (time.monotonic() if receipt or isinstance(event, Text) else 0.0)
    assert live.last is not None and live.last.ok, live.last
    await o.close_session(live.id)
    return (at - since) * 1000


async def spare_ready(o: Ostler, folder: Path) -> None:
    """Until a process is there, and has had time to draw its screen."""
    while not o.keepers.spares.find(SpareKind("script", str(folder), "read")):
        await asyncio.sleep(0.02)
    await asyncio.sleep(2)


def _rss() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1024


def told(name: str, values: list[float]) -> None:
    ordered = sorted(values)
    high = ordered[int(len(ordered) * 0.95)]
    print(f"{name:28} p50 {statistics.median(ordered):7.1f} ms   p95 {high:7.1f} ms   n {len(ordered)}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as base:
        root, folder = Path(base), Path(base) / "project"
        folder.mkdir()
        env = environment(root)
        for transport in ("dialog", "pty"):
            await first_prompts(env, folder, transport)
        if os.environ.get("ONLY") == "warm":
            print(f"load {os.getloadavg()[0]:.1f}")
            return
        settings = load_settings(folder=str(folder), environ=env).settings
        async with Ostler(settings, env) as o:
            await ended(o, [(await begun(o, folder, PROMPT))[0]])  # what is looked up once
            told("begin → start", await start_of_one(o, folder))
            waits, rate = await start_in_line(o, folder)
            told("freed → start", waits)
            bare = await bare_rate(env, folder)
            print(f"{'turns a second, 4 slots':28} {rate:.1f}, beside {bare:.1f} bare")
            kilobytes, took = await memory_of_waiting(o, folder)
            print(f"{f'{TURNS} waiting turns':28} {kilobytes:.1f} KB each, {took:.1f} ms to queue one")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    asyncio.run(main())
