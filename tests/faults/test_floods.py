"""Twenty terminals that flood, and a storm of resizes: what others do goes on, and all is right in the end."""

import asyncio
import os
import random
import re
from pathlib import Path

from ostler.terminal.viewer_protocol import ResizeTerminal
from server.served import Served, nothing_leaks, serving
from waiting import PATIENCE

FLOOD = """
import itertools, os, sys
open("go").close()
for n in itertools.count():
    sys.stdout.write("".join(f"{n * 200 + i:012d}\\n" for i in range(200)))
    if n > 10 and os.path.exists("stop"): break
print("end", n * 200 + 199)
"""

STORM = """
import itertools, os, time
for n in itertools.count():
    print(f"{n:08d} " + "x" * 60)
    time.sleep(0.001)
    if os.path.exists("stop"): break
size = os.get_terminal_size()
print(f"the size is {size.columns} x {size.lines}")
"""


async def test_a_flood_on_twenty_terminals_loses_nothing_and_lets_another_one_type(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        quiet = await served.session()
        async with nothing_leaks(served, quiet):
            os.mkfifo(served.folder / "go")
            sessions = [await served.session(), await served.session()]
            floods = [await served.python(session, FLOOD) for session in sessions for _ in range(10)]
            echo = await served.open(quiet, ["cat"])
            async with served.watch(floods[0]) as viewer:
                go = os.open(served.folder / "go", os.O_RDWR)  # all of them begin now, or when they come so far
                watched = asyncio.create_task(viewer.until(lambda viewer: viewer.gone, 3 * PATIENCE))
                await types_and_sees(served, echo)
                assert {(await served.row(flood))["state"] for flood in floods} == {"live"}
                (served.folder / "stop").touch()
                await watched
                await check_watched(served, floods[0], viewer.rows)
            for flood in floods:
                await check_counted(served, flood)
            os.close(go)


async def types_and_sees(served: Served, terminal: str) -> None:
    """Each key is echoed before the next is typed."""
    async with served.watch(terminal) as viewer:
        await viewer.take()
        for number in range(1, 5):
            await viewer.press("x", text="x")
            await viewer.until(lambda viewer, wanted="x" * number: viewer.rows[0] == wanted)


async def check_counted(served: Served, terminal: str) -> None:
    """No number is missing at the end of the text, and the last is the one that the program named."""
    ended = await served.http.get(f"/api/terminals/{terminal}/wait", params={"limit": PATIENCE}, timeout=PATIENCE)
    assert ended.status_code == 200, ended.text
    text = (await served.http.get(f"/api/terminals/{terminal}/text", params={"limit": 20_000})).text
    lines = text.split()
    numbers = [int(line) for line in lines if re.fullmatch(r"\d{12}", line)]
    assert len(numbers) > 1000
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert lines[-2:] == ["end", str(numbers[-1])]


async def check_watched(served: Served, terminal: str, rows: tuple[str, ...]) -> None:
    assert list(rows) == (await served.screen(terminal))["text"]
    assert any(row.startswith("end ") for row in rows)


async def test_a_storm_of_resizes_leaves_everybody_with_the_same_size_and_screen(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.session()
        async with nothing_leaks(served, session):
            terminal = await served.python(session, STORM)
            async with served.watch(terminal) as holder, served.watch(terminal) as other:
                await holder.take()
                seeing = asyncio.create_task(other.until(lambda other: other.gone))
                dice = random.Random(3)
                for _ in range(499):
                    await holder.say(ResizeTerminal(cols=dice.randint(20, 200), rows=dice.randint(5, 60)))
                await holder.say(ResizeTerminal(cols=111, rows=33))
                await holder.until(lambda holder: holder.size == (111, 33))
                (served.folder / "stop").touch()
                await holder.until(lambda holder: holder.gone)
                await seeing
                assert holder.errors == []
                assert holder.size == other.size == (111, 33)
                assert holder.shows("the size is 111 x 33")
                seen = await served.screen(terminal)
                assert holder.rows == other.rows == tuple(seen["text"])
                assert (seen["cols"], seen["rows"]) == (111, 33)
            row = await served.row(terminal)
            assert (row["cols"], row["rows"]) == (111, 33)
