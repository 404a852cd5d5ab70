"""What a pipeline adds to a node, beside a bare loop over the same commands in the same run.

A chain of NODES commands (`true`) is run by `ostler pipeline run`, and so is a chain of one: their difference is
what the others took. Beside it stands a loop that runs the same turns in a running ostler, and one that only spawns.
On a busy machine compare the CPU time, which others do not change much: of ostler and all that it starts.
"""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from ostler.settings import load_settings
from ostler.work import Ostler

NODES = int(os.environ.get("NODES", "41"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))


def chain(count: int) -> str:
    nodes = (f'[nodes.n{n}]\ncommand = ["true"]\n' + (f'needs = ["n{n - 1}"]\n' if n else "") for n in range(count))
    return "\n".join(nodes)


class Took(NamedTuple):
    """Milliseconds."""

    wall: float
    cpu: float

    def each(self, less: "Took", count: int) -> "Took":
        return Took((self.wall - less.wall) / count, (self.cpu - less.cpu) / count)


def now() -> Took:
    """Of this process and of all its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return Took(time.monotonic() * 1000, sum(each.ru_utime + each.ru_stime for each in used) * 1000)


def run(file: Path, env: dict[str, str]) -> Took:
    since = now()
    argv = [sys.executable, "-m", "ostler", "pipeline", "run", str(file), "--json"]
    subprocess.run(argv, cwd=file.parent, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return now().each(since, 1)


def loop() -> Took:
    since = now()
    for _ in range(NODES - 1):
        subprocess.run(["true"], check=True, stdin=subprocess.DEVNULL)
    return now().each(since, NODES - 1)


async def turns(folder: Path, env: dict[str, str]) -> Took:
    """The same commands as turns, one after the other, without a pipeline."""
    settings = load_settings(folder=str(folder), environ=env).settings
    async with Ostler(settings, env) as o:
        await o.exec(["true"], folder=str(folder))  # what is started once
        since = now()
        for _ in range(NODES - 1):
            await o.exec(["true"], folder=str(folder))
        return now().each(since, NODES - 1)


def main() -> None:
    with tempfile.TemporaryDirectory() as base:
        root = Path(base)
        folder = root / "project"  # apart from the state: what changes in the folder of a turn is compared
        for each in (folder, root / "home"):
            each.mkdir()
        (folder / "one.toml").write_text(chain(1))
        (folder / "many.toml").write_text(chain(NODES))
        env = {"HOME": str(root / "home"), "PATH": os.environ["PATH"], "OSTLER_HOME": str(root / "state")}
        ones, nodes, plain, bare = [], [], [], []
        for _ in range(ROUNDS):
            one = run(folder / "one.toml", env)
            ones.append(one)
            nodes.append(run(folder / "many.toml", env).each(one, NODES - 1))
            plain.append(asyncio.run(turns(folder, env)))
            bare.append(loop())
    for what, values in {
        "a run of one node, from the start of the interpreter": ones,
        "each further node": nodes,
        "the same as a turn in a loop": plain,
        "the same bare": bare,
    }.items():
        wall, cpu = (statistics.median(numbers) for numbers in zip(*values, strict=True))
        print(f"{what:54}{wall:8.1f} ms{cpu:8.1f} ms of CPU")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
