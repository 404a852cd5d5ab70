"""From a key to its echo in a viewer, over WebSocket: ostler beside terminado, in turns, in one run.

The program is `cat`: the kernel echoes, so what is measured is the way there and back. `typing` leaves 50 ms
between two keys, as quick hands do; `at once` sends the next key as soon as the last was seen.
Run: python bench/echo.py [keys]
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

from servers import Server, ostler, percentile, terminado
from websockets.asyncio.client import ClientConnection, connect

ROUNDS = 4
AIM = 10.0


async def main(keys: int) -> None:
    times: dict[tuple[str, str], list[float]] = {}
    with ostler(["cat"]) as ours, terminado(["cat"]) as theirs:
        async with opened(ours) as mine, opened(theirs) as other:
            sides: list[tuple[Server, ClientConnection, Callable[[ClientConnection, str], Awaitable[None]]]] = [
                (ours, mine, key_of_ostler),
                (theirs, other, key_of_terminado),
            ]
            await take(mine)
            for way, pause in (("typing", 0.05), ("at once", 0.0)):
                for _ in range(ROUNDS):
                    for server, socket, key in sides:
                        took = await strokes(socket, key, keys // ROUNDS, pause)
                        times.setdefault((way, server.name), []).extend(took)
    print(f"{'key → echo':28} {'p50 ms':>7} {'p95 ms':>7} {'p99 ms':>7}")
    for (way, name), took in times.items():
        row = " ".join(f"{percentile(took, part):7.2f}" for part in (0.5, 0.95, 0.99))
        print(f"{name + ', ' + way:28} {row}")
    p50 = percentile(times["typing", "ostler"], 0.5)
    print(f"aim: p50 ≤ {AIM:.0f} ms, {'met' if p50 <= AIM else 'not met'}")


def opened(server: Server) -> connect:
    return connect(server.url, additional_headers=server.headers, compression=None, max_size=None, proxy=None)


async def take(socket: ClientConnection) -> None:
    await socket.send('{"kind":"lease","action":"take"}')
    while '"yours":true' not in str(await socket.recv()):
        pass


async def strokes(
    socket: ClientConnection, key: Callable[[ClientConnection, str], Awaitable[None]], count: int, pause: float
) -> list[float]:
    """Milliseconds from each key until it is seen. A new line now and then, as the line buffer is short."""
    took = []
    for number in range(count):
        char = "abcdefghijklmnopqrstuvwxyz"[number % 26]
        begun = time.perf_counter()
        await key(socket, char)
        while char not in shown(await socket.recv()):
            pass
        took.append(1000 * (time.perf_counter() - begun))
        await asyncio.sleep(pause)
    return took


def shown(frame: str | bytes) -> str:
    """The output in a frame; nothing for what is said beside it."""
    if isinstance(frame, bytes):
        return frame[8:].decode(errors="replace")
    message = json.loads(frame)
    return str(message[1]) if isinstance(message, list) and message[0] == "stdout" else ""


async def key_of_ostler(socket: ClientConnection, char: str) -> None:
    await socket.send(json.dumps({"kind": "key", "key": {"name": char, "text": char}}))


async def key_of_terminado(socket: ClientConnection, char: str) -> None:
    await socket.send(json.dumps(["stdin", char]))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 400))
