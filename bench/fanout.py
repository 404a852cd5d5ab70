"""One terminal, many viewers over WebSocket: frames a second, how late they are, what it costs. Beside terminado.

A program writes blocks of 4 KB, each with the time at which it was written; viewers in a process of their own
look for these times and acknowledge what they have read.
Run: python bench/fanout.py [viewers] [seconds]
"""

import asyncio
import base64
import os
import re
import struct
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from urllib.parse import urlsplit

from servers import Server, ostler, percentile, terminado

RATES = (5, 10, 20, 40)  # blocks a second
COLUMNS = {
    "server": 10,
    "written": 8,
    "delivered": 10,
    "p50 ms": 7,
    "p99 ms": 7,
    "CPU": 5,
    "a CPU second": 13,
    "KB a viewer": 12,
    "snapshots": 10,
}
PROGRAM = """
import os, sys, time
time.sleep(0.5)
rate = int(sys.argv[1])
begun = time.monotonic()
n = 0
while True:
    os.write(1, b"T%020d" % time.monotonic_ns() + b"x" * 4073 + b"\\n")
    n += 1
    time.sleep(max(0, begun + n / rate - time.monotonic()))
"""
WRITTEN = re.compile(rb"T(\d{20})")
ACK_EVERY = 16_000


def main(viewers: int, seconds: float) -> None:
    print(f"{viewers} viewers of one terminal, blocks of 4 KB")
    print(" ".join(f"{title:>{width}}" for title, width in COLUMNS.items()))
    for rate in RATES:
        argv = [sys.executable, "-c", PROGRAM, str(rate)]
        for serve in (ostler, terminado):
            show(rate, serve(argv), viewers, seconds)


def show(rate: int, serving: AbstractContextManager[Server], viewers: int, seconds: float) -> None:
    with serving as server:
        before = server.memory()
        crowd = asyncio.run(watch(server, viewers, seconds))
        kept = (server.memory() - before) / viewers
    late = [1000 * each for each in crowd.late]
    cells = (
        server.name,
        f"{rate}/s",
        f"{len(late) / crowd.took:,.0f}/s",
        f"{percentile(late, 0.5):.1f}",
        f"{percentile(late, 0.99):.1f}",
        f"{100 * crowd.cpu / crowd.took:.0f}%",
        f"{len(late) / max(crowd.cpu, 0.01):,.0f}",
        f"{kept:.0f}",
        str(crowd.shots),
    )
    print(" ".join(f"{cell:>{width}}" for cell, width in zip(cells, COLUMNS.values(), strict=True)))


class Crowd:
    """What all viewers together have seen since the measuring began."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self.shots = 0
        self.came = 0
        self.took = 0.0
        self.cpu = 0.0

    def begin(self) -> None:
        self.late.clear()
        self.shots = 0


async def watch(server: Server, viewers: int, seconds: float) -> Crowd:
    crowd = Crowd()
    loop = asyncio.get_running_loop()
    for _ in range(viewers):
        await loop.create_connection(lambda: Viewer(server, crowd), "127.0.0.1", server.port)
    while crowd.came < viewers:
        await asyncio.sleep(0.05)
    await asyncio.sleep(1)
    crowd.begin()
    begun, cpu = time.perf_counter(), server.cpu()
    await asyncio.sleep(seconds)
    crowd.took, crowd.cpu = time.perf_counter() - begun, server.cpu() - cpu
    return crowd


class Viewer(asyncio.Protocol):
    """A WebSocket client that does as little as one can: the server is what is measured."""

    def __init__(self, server: Server, crowd: Crowd) -> None:
        self._server, self._crowd = server, crowd
        self._buffer = bytearray()
        self._take: Callable[[], bool] = self._handshake
        self._tail = b""
        self._acked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        at = urlsplit(self._server.url)
        key = base64.b64encode(os.urandom(16)).decode()
        given = "".join(f"{name}: {value}\r\n" for name, value in self._server.headers.items())
        transport.write(
            f"GET {at.path} HTTP/1.1\r\nHost: {at.netloc}\r\n{given}Connection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self._take():
            pass

    def _handshake(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        assert self._buffer.startswith(b"HTTP/1.1 101"), bytes(self._buffer)
        del self._buffer[: end + 4]
        self._take = self._frame
        return True

    def _frame(self) -> bool:
        """One frame of a server: never masked, never in parts."""
        if len(self._buffer) < 2:
            return False
        size = self._buffer[1]
        head = {126: 4, 127: 10}.get(size, 2)
        if len(self._buffer) < head:
            return False
        if head > 2:
            size = int.from_bytes(self._buffer[2:head])
        if len(self._buffer) < head + size:
            return False
        kind, payload = self._buffer[0] & 0x0F, bytes(self._buffer[head : head + size])
        del self._buffer[: head + size]
        self._told(kind, payload)
        return True

    def _told(self, kind: int, payload: bytes) -> None:
        if kind == 2:
            self._look(payload[8:])
            self._seen(struct.unpack_from("!Q", payload)[0] + len(payload) - 8)
        elif payload.startswith(b'["stdout"'):
            self._look(payload)
        elif payload.startswith(b'{"kind":"snapshot"'):
            self._crowd.shots += 1
            self._crowd.came += self._acked == 0
            found = re.search(rb'"offset":(\d+)', payload)
            self._ack(int(found[1]) if found else 0)
        elif payload.startswith(b'["setup"'):
            self._crowd.came += 1
        elif kind == 9:
            self._say(10, payload)

    def _look(self, data: bytes) -> None:
        now = time.monotonic_ns()
        data = self._tail + data
        end = 0
        for found in WRITTEN.finditer(data):
            self._crowd.late.append((now - int(found[1])) / 1e9)
            end = found.end()
        self._tail = data[max(end, len(data) - 20) :]

    def _seen(self, offset: int) -> None:
        if offset - self._acked >= ACK_EVERY:
            self._ack(offset)

    def _ack(self, offset: int) -> None:
        self._acked = max(offset, 1)
        self._say(1, b'{"kind":"ack","offset":%d}' % offset)

    def _say(self, kind: int, payload: bytes) -> None:
        """Masked with nothing, which is a mask too."""
        self._transport.write(bytes((0x80 | kind, 0x80 | len(payload), 0, 0, 0, 0)) + payload)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 500, float(given[1]) if len(given) > 1 else 5.0)
