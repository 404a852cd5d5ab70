"""A machine is killed in the middle of a pipeline of twelve nodes: how soon another one goes on, and what ran twice.

Two servers that have joined take turns. The instants are seeded: after so many nodes have ended, and a moment more.
Fails where what was finished ran again, or anything ran more than twice. Needs Postgres, of which it starts one.
Run: python bench/takeover.py [kills]
"""

import asyncio
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import psycopg

from machines.test_takeover import Pair, ServedMachine, holder
from needs import POSTGRES
from postgres import running_postgres
from waiting import until

NODES = [f"n{number}" for number in range(1, 13)]


class Kill(NamedTuple):
    """Seconds until the other machine had the run, and until it had ended it. `twice`: nodes that ran twice."""

    finished: int
    claimed: float
    ended: float
    twice: list[str]


async def main(kills: int) -> None:
    if not POSTGRES:
        print("Postgres is not installed: not measured")
        return
    with running_postgres() as postgres, tempfile.TemporaryDirectory() as base:
        join = postgres.new_database()
        pair = Pair(*(ServedMachine(Path(base), name, join) for name in ("hawk", "owl")), Path(base))
        try:
            for each in (pair.hawk, pair.owl):
                await each.start()
            await until(pair.are_ready)
            done = [await killed(pair, join, seed) for seed in range(kills)]
        finally:
            for each in (pair.hawk, pair.owl):
                each.kill()
                await each.aclose()
    middle = kills // 2
    print(f"{kills} kills, none of {sum(kill.finished for kill in done)} finished nodes ran again")
    print(f"another machine had the run after {sorted(kill.claimed for kill in done)[middle]:.1f} s (median)")
    print(f"and had ended it after {sorted(kill.ended for kill in done)[middle]:.1f} s")
    print(f"{sum(len(kill.twice) for kill in done)} nodes that were under way ran twice, none more often")


async def killed(pair: Pair, join: str, seed: int) -> Kill:
    dice = random.Random(seed)
    lost, other = (pair.hawk, pair.owl) if seed % 2 else (pair.owl, pair.hawk)
    marks = pair.marks / f"marks{seed}"
    marks.mkdir()
    run = await lost.begin(twelve(marks))
    finished, moment = dice.randrange(11), dice.random() * 0.15  # before its end
    await until(lambda: len(results(join, run)) >= finished)
    await asyncio.sleep(moment)
    lost.kill()
    begun, before = time.monotonic(), results(join, run)
    await until(lambda: holder(join, run)[0] == other.name)
    claimed = time.monotonic() - begun
    await until(lambda: holder(join, run)[2] != "running")
    ended = time.monotonic() - begun
    counts = {name: len((marks / name).read_text().split()) for name in NODES}
    after = results(join, run)
    assert holder(join, run)[2] == "done" and {name: after[name] for name in before} == before, run
    assert all(counts[name] == 1 for name in before) and max(counts.values()) <= 2, counts
    await lost.start()
    return Kill(len(before), claimed, ended, [name for name, count in counts.items() if count > 1])


def twelve(marks: Path) -> str:
    """Each node adds a line to its own file."""
    text = "takeover = true\n"
    for number, name in enumerate(NODES, 1):
        needs = [f"n{each}" for each in (number - 3, number - 2) if each >= 1]
        mark = json.dumps(["sh", "-c", f"echo x >> {marks}/{name}; sleep 0.2"])
        work = f"command = {mark}" if number % 2 else f"agent = 'script'\naccess = 'full'\nprompt = '[[run:{mark}]]'"
        text += f"[nodes.{name}]\nneeds = {json.dumps(needs)}\n{work}\n"
    return text


def results(join: str, run: str) -> dict[str, Any]:
    """What the index has of nodes that have ended."""
    with psycopg.connect(join) as db:
        rows = db.execute("SELECT body FROM ostler.run_nodes WHERE run = %s", (run,)).fetchall()
    nodes = [json.loads(body) for (body,) in rows]
    return {node["node"]: node["result"] for node in nodes if node.get("result")}


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 4))
