"""What a spawn through the warden costs, beside asyncio's own, and how fast all ends with its parent.

Run: python bench/spawn.py [spawns] [children]
"""

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from ostler.model import Wall
from ostler.process import Size, Warden, tree

ENV = {"PATH": os.environ["PATH"]}
MARK = f"bench-{os.getpid()}"
PARENT = """
import asyncio, os, sys
from ostler.process import Warden
async def main(mark, count):
    warden = await Warden.start()
    stubborn = ["sh", "-c", "trap '' TERM; setsid sleep 600 & exit"]
    for n in range(int(count)):
        argv = stubborn if n % 20 == 0 else ["sleep", "600"]
        await warden.spawn(argv, cwd="/", env={"PATH": os.environ["PATH"]}, mark=mark, stdin=None)
    print(warden.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main(*sys.argv[1:]))
"""


async def main(spawns: int, children: int) -> None:
    begun = time.perf_counter()
    warden = await Warden.start()
    await through_warden(warden)
    print(f"start of the warden and first turn  {1000 * (time.perf_counter() - begun):6.1f} ms")
    print(f"{'spawn of `true`':34}  {'p50 ms':>7} {'p95 ms':>7}")
    await measure("asyncio.create_subprocess_exec", spawns, directly)
    await measure("through the warden, pipes", spawns, lambda: through_warden(warden))
    await measure("through the warden, terminal", spawns, lambda: through_warden(warden, Size(80, 24)))
    with tempfile.TemporaryDirectory() as base:
        await behind_walls(warden, spawns, base)
    await measure("  the same, to exit, sweep, release", spawns, lambda: whole(warden))
    live = [await warden.spawn(["sleep", "600"], cwd="/", env=ENV, mark=MARK, stdin=None) for _ in range(children)]
    await measure(f"with {children} that live", spawns, lambda: through_warden(warden))
    print(f"memory of the warden, {children} children   {rss(warden.pid or 0) / 1024:6.1f} MB")
    begun = time.perf_counter()
    await warden.close()
    print(f"close with {children} children             {1000 * (time.perf_counter() - begun):6.1f} ms")
    for process in live:
        process.release()
    kill_the_parent(children)


async def measure(title: str, count: int, spawn: Callable[[], Awaitable[float]]) -> None:
    times = sorted([1000 * await spawn() for _ in range(count)])
    print(f"{title:34}  {statistics.median(times):7.2f} {times[int(count * 0.95)]:7.2f}")


async def directly() -> float:
    begun = time.perf_counter()
    pipe = subprocess.PIPE
    process = await asyncio.create_subprocess_exec("true", stdin=pipe, stdout=pipe, stderr=pipe, env=ENV, cwd="/")
    took = time.perf_counter() - begun
    await process.communicate()
    return took


async def behind_walls(warden: Warden, spawns: int, base: str) -> None:
    folders = [f"{base}/{n}" for n in range(200)]
    for folder in folders:
        os.mkdir(folder)
    for rules in (0, 20, 200):
        wall = Wall(writable=tuple(folders[:rules]))
        await measure(f"behind a wall of {rules} rules", spawns, partial(through_warden, warden, wall=wall))


async def through_warden(warden: Warden, tty: Size | None = None, wall: Wall | None = None) -> float:
    begun = time.perf_counter()
    process = await warden.spawn(["true"], cwd="/", env=ENV, mark=MARK, tty=tty, wall=wall)
    took = time.perf_counter() - begun
    await process.wait()
    process.release()
    return took


async def whole(warden: Warden) -> float:
    begun = time.perf_counter()
    process = await warden.spawn(["true"], cwd="/", env=ENV, mark=MARK)
    await process.wait()
    await process.sweep()
    process.release()
    return time.perf_counter() - begun


def rss(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def kill_the_parent(children: int) -> None:
    """SIGKILL to an ostler; one in twenty of its children is a daemon that ignores TERM."""
    argv = [sys.executable, "-c", PARENT, MARK, str(children)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        warden = int(parent.stdout.readline())
        start = tree.identity(warden) or 0
        parent.send_signal(signal.SIGKILL)
        begun = time.perf_counter()
        while not tree.gone(warden, start):
            time.sleep(0.005)
    took = 1000 * (time.perf_counter() - begun)
    left = len(tree.marked(MARK))
    print(f"kill -9 of the parent of {children}: all gone after {took:.1f} ms (700 of them grace), {left} left")


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    asyncio.run(main(*(numbers + [200, 300][len(numbers) :])))
