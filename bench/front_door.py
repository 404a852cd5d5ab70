"""Through a front door beside direct: a key until its echo, a request, an event. Two servers that have joined, one run.

The session, its terminal (`cat`) and its journal are on one of the two; the other one passes on. Both ways are measured
in turns. Needs Postgres, of which it starts one of its own.
Run: python bench/front_door.py [keys]
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from echo import key_of_ostler, opened, strokes, take
from servers import Server, free_port, listens, percentile, post, running

from needs import POSTGRES
from ostler.server.auth import Authenticator
from postgres import running_postgres

ROUNDS = 4
AIM = 3.0


async def main(keys: int) -> None:
    if not POSTGRES:
        print("Postgres is not installed: not measured")
        return
    with running_postgres() as postgres, tempfile.TemporaryDirectory() as base:
        join = postgres.new_database()
        with machine(base, "owl", join) as far, machine(base, "hawk", join) as door:
            session = post(far.port, far.headers, "/api/sessions", agent="script", folder=base)["id"]
            row = post(far.port, far.headers, "/api/terminals", session=session, argv=["cat"])
            ways = [each._replace(path=f"/api/terminals/{row['id']}/ws") for each in (far, door)]
            times = {**await echoes(ways, keys), **requests(ways, session, keys), **await events(ways, session)}
    print(f"{'':34} {'p50 ms':>7} {'p95 ms':>7}")
    for name, took in times.items():
        print(f"{name:34} {percentile(took, 0.5):7.2f} {percentile(took, 0.95):7.2f}")
    more = percentile(times["key, front door"], 0.5) - percentile(times["key, direct"], 0.5)
    print(f"aim: a key through the front door + ≤ {AIM:.0f} ms, {'met' if more <= AIM else 'not met'} ({more:+.2f})")


@contextlib.contextmanager
def machine(base: str, name: str, join: str, labels: str = "") -> Iterator[Server]:
    """`ostler up --join`, in a home of its own."""
    port, home, state = free_port(), Path(base, name), Path(base, name, "state")
    state.mkdir(mode=0o700, parents=True)
    env = {"HOME": str(home), "OSTLER_HOME": str(state), "OSTLER_ONLY": "script", "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "ostler", "up", "--port", str(port), "--as", name]
    command += ["--labels", labels] if labels else []
    with running(command, {**env, "OSTLER_JOIN": join, "OSTLER_SCRIPT_SPEED": "0"}, base) as process:
        listens(port, process)
        headers = {"Authorization": f"Bearer {Authenticator(state).sign('bearer', 'admin', 'bench', 3600)}"}
        yield Server("direct" if name == "owl" else "front door", process.pid, port, "", headers)


async def echoes(ways: list[Server], keys: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for way in ways:
            async with opened(way) as socket:
                await take(socket)
                times.setdefault(f"key, {way.name}", []).extend(
                    await strokes(socket, key_of_ostler, keys // ROUNDS, 0.02)
                )
    return times


def requests(ways: list[Server], session: str, count: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    plain = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(count):
        for way in ways:
            asked = urllib.request.Request(f"http://127.0.0.1:{way.port}/api/sessions/{session}", headers=way.headers)
            begun = time.perf_counter()
            plain.open(asked).read()
            times.setdefault(f"GET of a session, {way.name}", []).append((time.perf_counter() - begun) * 1000)
    return times


async def events(ways: list[Server], session: str) -> dict[str, list[float]]:
    """How much later each event comes through the front door than directly."""
    streams = [asyncio.create_task(followed(way, session, 5)) for way in ways]
    for _ in range(5):
        path = f"/api/sessions/{session}/turns"
        await asyncio.to_thread(
            post, ways[0].port, ways[0].headers, path, prompt="[[stream:some words more]]", wait=True
        )
    direct, door = await asyncio.gather(*streams)
    return {"event, front door after direct": [(door[seq] - at) * 1000 for seq, at in direct.items() if seq in door]}


async def followed(way: Server, session: str, turns: int) -> dict[bytes, float]:
    """When each event of the journal came, until so many turns have ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", way.port)
    lines = [f"GET /api/sessions/{session}/events HTTP/1.1", f"Host: 127.0.0.1:{way.port}", "Accept: text/event-stream"]
    lines += [f"{name}: {value}" for name, value in way.headers.items()]
    writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
    came: dict[bytes, float] = {}
    while turns:
        line = await reader.readline()
        if line.startswith(b"id: "):
            came[line] = time.perf_counter()
        turns -= line == b"event: ended\n"
    writer.close()
    return came


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
