"""What a wall costs a whole turn: the scripted agent with one and without, in turns, in one run.

Run: python bench/walls.py [rounds]
"""

import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from ostler.process import landlock
from ostler.settings import load_settings
from ostler.work import Ostler

KINDS = {"without": ("off", True), "with a wall": ("required", True), "and secrets hidden": ("required", False)}


async def main(rounds: int) -> None:
    if landlock.abi() < landlock.LEAST_ABI:
        sys.exit("this kernel cannot build walls")
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as base:
        folder = Path(base, "project")
        folder.mkdir()
        async with contextlib.AsyncExitStack() as stack:
            running = {kind: await stack.enter_async_context(one(base, folder, kind)) for kind in KINDS}
            for number in range(rounds + 2):
                for kind, o in running.items():
                    begun = time.perf_counter()
                    session = await o.session("script", folder=str(folder), access="read")
                    envelope = await session.run("hello")
                    assert envelope.ok, envelope
                    if number > 1:  # the first ones import, and start the warden
                        times[kind].append(1000 * (time.perf_counter() - begun))
    bare = statistics.median(times["without"])
    print(f"a turn of the scripted agent, {rounds} of each   p50 ms   over none")
    for kind, taken in times.items():
        print(f"{kind:38} {statistics.median(taken):9.2f} {statistics.median(taken) - bare:+10.2f}")


def one(base: str, folder: Path, kind: str) -> Ostler:
    walls, secrets = KINDS[kind]
    environ = {**os.environ, "OSTLER_HOME": f"{base}/{walls}-{secrets}", "OSTLER_ONLY": "script"}
    environ |= {"OSTLER_SCRIPT_SPEED": "0", "OSTLER_SCRIPT_HOME": f"{base}/script"}
    flags = {"walls": walls, "read_secrets": secrets}
    return Ostler(load_settings(folder=str(folder), environ=environ, flags=flags).settings, environ)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30))
