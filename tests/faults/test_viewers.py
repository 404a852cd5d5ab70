"""Viewers that stall, vanish, come back or come all at once: nobody else notices, and nobody sees anything wrong."""

import asyncio
import random
from pathlib import Path

from server.served import nothing_leaks, serving
from server.watching import Watcher
from waiting import until

MB = 1 << 20

# Numbered lines as fast as they go, until a file says stop.
FLOOD = """
import itertools, os, sys
for n in itertools.count():
    sys.stdout.write("".join(f"{n:09d} {i:03d} of a flood\\n" for i in range(200)))
    if os.path.exists("stop"): break
print("the end", n)
"""

# Lines in colour and in several scripts, written in pieces that cut characters and sequences in two. So slowly that
# nobody who comes back within seconds has missed more than is kept for him.
LINE = "\x1b[3{color};1m{n:05d}\x1b[0m \x1b]8;;http://x/{n}\x1b\\é漢字\x1b]8;;\x1b\\ 🚀 e\u0301{end}"
PIECES = f"""
import itertools, os, random, time
dice, line, data = random.Random(5), {LINE!r}, b""
while not os.path.exists("go"): time.sleep(0.01)
for n in itertools.count():
    data += line.format(n=n, color=n % 8, end="\\n").encode()
    if os.path.exists("stop"): break
    while len(data) > 700:
        size = dice.randint(1, 700)
        os.write(1, data[:size])
        data = data[size:]
        time.sleep(0.01)
os.write(1, data)
"""


def pieces(count: int) -> bytes:
    """What a terminal makes of so many lines."""
    return "".join(LINE.format(n=n, color=n % 8, end="\r\n") for n in range(count)).encode()


async def test_a_viewer_that_never_reads_costs_less_than_a_megabyte_and_holds_up_nobody(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.session()
        async with nothing_leaks(served, session):
            terminal = await served.python(session, FLOOD)
            async with served.watch(terminal) as viewer:
                await flows(viewer, 16 * MB)  # what a flood costs anyway: ring, recording, buffers
                before = served.memory()
                stalled = [served.stall(terminal) for _ in range(20)]
                try:
                    await flows(viewer, 6 * MB)  # of which each of them may cost one
                    grown = served.memory() - before
                finally:
                    for one in stalled:
                        one.close()
                (served.folder / "stop").touch()
                await viewer.until(lambda viewer: viewer.gone)
                assert viewer.shows("the end")
            assert grown < len(stalled) * MB, f"{grown / len(stalled) / 1024:.0f} KB each"


async def flows(viewer: Watcher, size: int) -> None:
    """Until that much more of the flood has gone by."""
    aim = viewer.offset + size
    await viewer.until(lambda viewer: viewer.offset >= aim)


async def test_a_viewer_that_reads_but_acknowledges_nothing_is_sent_no_more_than_it_may_have_under_way(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as served:
        session = await served.session()
        async with nothing_leaks(served, session):
            terminal = await served.python(session, FLOOD)
            async with served.watch(terminal, acknowledges=False) as silent, served.watch(terminal) as viewer:
                await silent.until(lambda silent: silent.hello)
                assert silent.hello is not None
                reading = asyncio.create_task(silent.until_closed())
                await flows(viewer, 8 * MB)
                assert len(silent.output) <= silent.hello.high + 65536
                (served.folder / "stop").touch()
                await viewer.until(lambda viewer: viewer.gone)
                reading.cancel()
                await asyncio.wait([reading])


async def test_a_viewer_that_is_cut_off_again_and_again_has_every_byte_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.session()
        async with nothing_leaks(served, session):
            terminal = await served.python(session, PIECES)
            dice = random.Random(11)
            async with served.watch(terminal) as viewer:
                await viewer.until(lambda viewer: viewer.snapshots)
                (served.folder / "go").touch()
                await cut_off(viewer, dice)
                for _ in range(20):
                    async with served.watch(terminal, again=viewer):
                        await cut_off(viewer, dice)
                (served.folder / "stop").touch()
                async with served.watch(terminal, again=viewer):
                    await viewer.until(lambda viewer: viewer.gone)
                assert bytes(viewer.output) == pieces(viewer.output.count(b"\n"))
                assert (viewer.holes, viewer.snapshots, viewer.hellos) == (0, 1, 22)
                assert list(viewer.styled) == (await served.screen(terminal))["styled"]


async def cut_off(viewer: Watcher, dice: random.Random) -> None:
    """After some more bytes, without a word."""
    aim = viewer.offset + dice.randint(1, 3000)
    await viewer.until(lambda viewer: viewer.offset >= aim)
    viewer.socket.transport.abort()


async def test_a_viewer_that_was_away_too_long_gets_the_screen_as_it_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.session()
        async with nothing_leaks(served, session):
            terminal = await served.python(session, FLOOD)
            async with served.watch(terminal) as viewer, served.watch(terminal) as other:
                await viewer.until(lambda viewer: viewer.output)
                viewer.socket.transport.abort()
                await flows(other, 4 * MB)
                async with served.watch(terminal, again=viewer):
                    await viewer.until(lambda viewer: viewer.hellos == 2)
                    assert viewer.hello is not None and not viewer.hello.resumed
                    (served.folder / "stop").touch()
                    await viewer.until(lambda viewer: viewer.gone)
                    await other.until(lambda other: other.gone)
                    assert viewer.shows("the end") and viewer.rows == other.rows


async def test_a_hundred_viewers_who_come_at_once_all_see_the_same(tmp_path: Path) -> None:
    numbers = """
import itertools, os, time
for n in itertools.count():
    print(f"\\x1b[3{n % 8}m{n:06d} 漢字 🚀")
    time.sleep(0.005)
    if os.path.exists("stop"): break
"""
    async with serving(tmp_path) as served:
        session = await served.session()
        async with nothing_leaks(served, session):
            terminal = await served.python(session, numbers)
            came = 0

            async def watches() -> tuple[tuple[str, ...], int]:
                nonlocal came
                async with served.watch(terminal) as viewer:
                    await viewer.until(lambda viewer: len(viewer.output) > 500)
                    came += 1
                    await viewer.until(lambda viewer: viewer.gone)
                    return viewer.styled, viewer.offset

            async with asyncio.TaskGroup() as crowd:
                viewers = [crowd.create_task(watches()) for _ in range(100)]
                await until(lambda: came == 100)
                (served.folder / "stop").touch()
            seen = await served.screen(terminal)
            assert {viewer.result() for viewer in viewers} == {(tuple(seen["styled"]), seen["offset"])}
            assert any("🚀" in row for row in seen["text"])
