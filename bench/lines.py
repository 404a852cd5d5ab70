"""How fast bytes become lines, and what a line of 100 MB costs in memory. Run: python bench/lines.py"""

import asyncio
import os
import resource
import threading
import time

from ostler.process import LineFramer, chunks

CHUNK = 65536
SHORT = b'{"type":"text_delta","text":"word"}\n'
LONG = b'{"type":"tool_result","output":"' + b"x" * 2000 + b'"}\n'


def main() -> None:
    before = peak()
    lines = huge()
    print(f"a line of 100 MB: peak memory {before:.0f} -> {peak():.0f} MB, lines {lines}")
    print(f"{'':28}  {'MB/s':>7} {'lines/s':>10}")
    for title, line in (("short lines", SHORT), ("lines of 2 KB", LONG)):
        data = line * ((32 << 20) // len(line))
        row(f"framer, {title}", data, framed(data))
        row(f"pipe and framer, {title}", data, asyncio.run(piped(data)))


def huge() -> list[tuple[int, bool]]:
    framer, chunk = LineFramer(), b"x" * CHUNK
    lines = [line for _ in range(100 * 16) for line in framer.feed(chunk)]
    lines += framer.feed(b"\nnext\n")
    return [(len(line.data), line.cut) for line in lines]


def framed(data: bytes) -> tuple[int, float]:
    framer, count = LineFramer(), 0
    begun = time.perf_counter()
    for start in range(0, len(data), CHUNK):
        count += len(framer.feed(data[start : start + CHUNK]))
    return count, time.perf_counter() - begun


async def piped(data: bytes) -> tuple[int, float]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    writer = threading.Thread(target=pour, args=(writing, data))
    framer, count = LineFramer(), 0
    begun = time.perf_counter()
    writer.start()
    async for chunk in chunks(reading):
        count += len(framer.feed(chunk))
    took = time.perf_counter() - begun
    writer.join()
    os.close(reading)
    return count, took


def pour(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.close(fd)


def row(title: str, data: bytes, measured: tuple[int, float]) -> None:
    count, took = measured
    print(f"{title:28}  {len(data) / took / 1e6:7.0f} {count / took:10.0f}")


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
