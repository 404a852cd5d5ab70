"""Twenty terminals that print without pause while somebody types in another one: how late the echo is, what it costs.

`alone` is the same typing with nobody else. Of the last row the writers themselves take all that the cores have.
Run: python bench/flood.py [keys]
"""

import asyncio
import json
import sys
import time

from servers import Server, ostler, percentile, post
from websockets.asyncio.client import ClientConnection, connect

TERMINALS = 20
RATES = {"alone": 0, "10,000 lines a second in all": 500, "200,000 lines a second in all": 10_000, "no limit": 10**9}
PROGRAM = """
import itertools, os, sys, time
rate = int(sys.argv[1])
begun = time.monotonic()
for n in itertools.count():
    os.write(1, b"".join(b"%09d a line of a flood, of forty-two bytes\\n" % (n * 20 + i) for i in range(20)))
    time.sleep(max(0, begun + (n + 1) * 20 / rate - time.monotonic()))
"""


def main(keys: int) -> None:
    print(f"{TERMINALS} terminals; {keys} keys, 50 ms apart, echoed in another one")
    print(f"{'':30} {'p50 ms':>7} {'p95 ms':>7} {'p99 ms':>7} {'CPU':>5} {'MB more':>8}")
    for title, rate in RATES.items():
        with ostler(["cat"]) as server:
            before = server.memory()
            flood(server, rate)
            cpu, begun = server.cpu(), time.perf_counter()
            late = asyncio.run(typing(server, keys))
            used = (server.cpu() - cpu) / (time.perf_counter() - begun)
            grown = (server.memory() - before) / 1024
        row = " ".join(f"{percentile(late, part):7.1f}" for part in (0.5, 0.95, 0.99))
        print(f"{title:30} {row} {100 * used:4.0f}% {grown:8.0f}")


def flood(server: Server, rate: int) -> None:
    for number in range(TERMINALS if rate else 0):
        if number % 10 == 0:
            session = post(server.port, server.headers, "/api/sessions", agent="script", folder="/")["id"]
        argv = [sys.executable, "-c", PROGRAM, str(rate)]
        post(server.port, server.headers, "/api/terminals", session=session, argv=argv)


async def typing(server: Server, keys: int) -> list[float]:
    """Milliseconds from each key to its echo."""
    async with connect(server.url, additional_headers=server.headers, compression=None, proxy=None) as socket:
        await socket.send('{"kind":"lease","action":"take"}')
        while '"yours":true' not in str(await socket.recv()):
            pass
        return [await stroke(socket, "abcdefghijklmnopqrstuvwxyz"[n % 26]) for n in range(keys)]


async def stroke(socket: ClientConnection, char: str) -> float:
    await asyncio.sleep(0.05)
    begun = time.perf_counter()
    await socket.send(json.dumps({"kind": "key", "key": {"name": char, "text": char}}))
    while True:
        frame = await socket.recv()
        if isinstance(frame, bytes) and char.encode() in frame[8:]:
            return 1000 * (time.perf_counter() - begun)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
