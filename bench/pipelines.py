"""What a pipeline adds to a node, beside a bare loop over the same commands in the same run.

A chain of NODES commands (`true`) is run by `ostler pipeline run`, and so is a chain of one: their difference is
what the others took. Beside it stands a loop that runs the same turns in a running ostler, and one that only spawns.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ostler.settings import load_settings
from ostler.work import Ostler

NODES = int(os.environ.get("NODES", "41"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))


def chain(count: int) -> str:
    nodes = (f'[nodes.n{n}]\ncommand = ["true"]\n' + (f'needs = ["n{n - 1}"]\n' if n else "") for n in range(count))
    return "\n".join(nodes)


def run(file: Path, env: dict[str, str]) -> float:
    since = time.monotonic()
    argv = [sys.executable, "-m", "ostler", "pipeline", "run", str(file), "--json"]
    subprocess.run(argv, cwd=file.parent, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return (time.monotonic() - since) * 1000


def loop() -> float:
    since = time.monotonic()
    for _ in range(NODES - 1):
        subprocess.run(["true"], check=True, stdin=subprocess.DEVNULL)
    return (time.monotonic() - since) * 1000 / (NODES - 1)


async def turns(folder: Path, env: dict[str, str]) -> float:
    """The same commands as turns, one after the other, without a pipeline."""
    settings = load_settings(folder=str(folder), environ=env).settings
    async with Ostler(settings, env) as o:
        await o.exec(["true"], folder=str(folder))  # what is started once
        since = time.monotonic()
        for _ in range(NODES - 1):
            await o.exec(["true"], folder=str(folder))
        return (time.monotonic() - since) * 1000 / (NODES - 1)


def main() -> None:
    with tempfile.TemporaryDirectory() as base:
        root = Path(base)
        (root / "home").mkdir()
        (root / "one.toml").write_text(chain(1))
        (root / "many.toml").write_text(chain(NODES))
        env = {"HOME": str(root / "home"), "PATH": os.environ["PATH"], "OSTLER_HOME": str(root / "state")}
        ones, nodes, plain, bare = [], [], [], []
        for _ in range(ROUNDS):
            one = run(root / "one.toml", env)
            ones.append(one)
            nodes.append((run(root / "many.toml", env) - one) / (NODES - 1))
            plain.append(asyncio.run(turns(root, env)))
            bare.append(loop())
    print(f"a run of one node   {statistics.median(ones):7.1f} ms, from the start of the interpreter")
    each, turn, spawned = (statistics.median(values) for values in (nodes, plain, bare))
    print(f"each further node   {each:7.1f} ms, beside {turn:.1f} ms as a turn in a loop, {spawned:.1f} ms bare")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
