"""Emulators that are killed, and output that is made to kill them: no byte, no program and no viewer is lost."""

import os
import signal
from pathlib import Path

import pytest

from server.served import Served, nothing_leaks, serving
from server.watching import Watcher
from waiting import until

# Numbered lines until a file says stop; then the program asks the terminal where the cursor is.
ASKS = """
import itertools, os, sys, time, tty
for n in itertools.count():
    print(f"\\x1b[1;3{n % 8}m{n:06d}\\x1b[0m line")
    time.sleep(0.002)
    if os.path.exists("stop"): break
tty.setcbreak(0)
sys.stdout.write("\\x1b[6n")
reply = ""
while not reply.endswith("R"): reply += sys.stdin.read(1)
print("the answer was", repr(reply))
"""

ENDLESS = """
import os, sys, time
os.write(1, b"before\\r\\n")
data = bytes.fromhex(sys.argv[1]) + b"A" * (1 << 20)
while data: data = data[os.write(1, data):]
open("written", "w").close()
while not os.path.exists("go"): time.sleep(0.01)
os.write(1, b"\\x1b\\\\after\\r\\n")
"""

# Half characters, bytes that are none; and one character with a hundred thousand marks.
BROKEN = """
broken = b"".join((
    bytes(range(128, 256)) * 20,
    b"\\xc3 \\xe6\\xbc \\xf0\\x9f\\x9a \\xc0\\xaf \\xed\\xa0\\x80 \\xf8\\x88\\x80\\x80\\x80 \\xfe\\xff\\r\\n",
))
marked = ("e" + "\\u0301" * 100_000).encode() + b"\\r\\nthe last line"
"""
WRITES = f"""
import os, time, tty
tty.setraw(1)
{BROKEN}
for name, data in (("go", broken), ("go on", marked)):
    while not os.path.exists(name): time.sleep(0.01)
    while data: data = data[os.write(1, data):]
"""


async def test_an_emulator_killed_again_and_again_costs_no_byte_and_no_viewer(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.session()
        async with nothing_leaks(served, session):
            terminal = await served.python(session, ASKS)
            async with served.watch(terminal) as viewer:
                await viewer.until(lambda viewer: viewer.snapshots)
                for _ in range(5):
                    await kills_the_emulator(served, viewer)
                async with served.watch(terminal) as late:
                    await late.until(lambda late: late.snapshots and late.output)
                    (served.folder / "stop").touch()
                    await viewer.until(lambda viewer: viewer.gone)
                    await late.until(lambda late: late.gone)
                    assert viewer.holes == late.holes == 0
                    assert viewer.rows == late.rows == tuple((await served.screen(terminal))["text"])
                assert viewer.shows("the answer was '\\x1b[")


async def kills_the_emulator(served: Served, viewer: Watcher) -> None:
    """And waits until the viewer has seen more, and there is another one."""
    [before] = await until(served.screen_processes)
    os.kill(before, signal.SIGKILL)
    seen = viewer.offset
    await viewer.until(lambda viewer: viewer.offset > seen + 1000)
    await until(lambda: [pid for pid in served.screen_processes() if pid != before])


@pytest.mark.parametrize("opening", [b"\x1b]2;", b"\x1bP1;2q", b"\x1b_Gf=32;"], ids=["osc", "dcs", "apc"])
async def test_a_megabyte_without_an_end_is_passed_over(tmp_path: Path, opening: bytes) -> None:
    async with serving(tmp_path) as served:
        session = await served.session()
        async with nothing_leaks(served, session):
            terminal = await served.open(session, ["python3", "-c", ENDLESS, opening.hex()])
            async with served.watch(terminal) as viewer:
                await viewer.until(lambda viewer: viewer.offset > 1 << 20)
                async with served.watch(terminal) as late:
                    await late.until(lambda late: late.snapshots)
                    (served.folder / "go").touch()
                    await late.until(lambda late: late.gone)
                    await viewer.until(lambda viewer: viewer.gone)
                    rows = (await served.screen(terminal))["text"]
                    assert [row for row in rows if row] == ["before", "after"]
                    assert list(viewer.rows) == list(late.rows) == rows
                    assert len(viewer.title) < 1000


async def test_what_is_no_utf8_and_marks_without_end_reach_everybody_as_they_are(tmp_path: Path) -> None:
    written: dict[str, bytes] = {}
    exec(BROKEN, written)
    async with serving(tmp_path) as served:
        session = await served.session()
        async with nothing_leaks(served, session):
            terminal = await served.python(session, WRITES)
            async with served.watch(terminal) as viewer:
                await viewer.until(lambda viewer: viewer.snapshots)
                (served.folder / "go").touch()
                await viewer.until(lambda viewer: viewer.offset >= len(written["broken"]))
                assert bytes(viewer.output) == written["broken"]
                (served.folder / "go on").touch()
                await viewer.until(lambda viewer: viewer.gone)
                assert viewer.shows("the last line") and viewer.offset == sum(
                    map(len, (written["broken"], written["marked"]))
                )
                async with served.watch(terminal) as late:
                    await late.until(lambda late: late.gone)
                    assert late.rows == viewer.rows == tuple((await served.screen(terminal))["text"])
