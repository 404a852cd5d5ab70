"""The clock that tests turn: timers fire, real time goes on, and nothing of it stays."""

import asyncio
import time

from ostler import clock as ostler_clock
from ostler.testing import Clock


async def test_what_is_due_happens_when_the_clock_is_turned(clock: Clock) -> None:
    waiting = asyncio.create_task(asyncio.sleep(3600))
    await asyncio.sleep(0)
    await clock.turn(3599)
    assert not waiting.done()
    await clock.turn(2)
    await asyncio.wait_for(waiting, 30)


async def test_both_times_are_turned(clock: Clock) -> None:
    wall, steady = ostler_clock.now(), ostler_clock.monotonic()
    await clock.turn(86_400)
    assert ostler_clock.now() - wall >= 86_400
    assert ostler_clock.monotonic() - steady >= 86_400


async def test_a_timeout_that_began_before_is_cut_short(clock: Clock) -> None:
    async def wait() -> str:
        try:
            async with asyncio.timeout(600):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "?"

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    await clock.turn(601)
    assert await waiting == "timed out"


async def test_real_processes_work_beside_it(clock: Clock) -> None:
    await clock.turn(1000)
    process = await asyncio.create_subprocess_exec("echo", "oats", stdout=asyncio.subprocess.PIPE)
    assert (await process.communicate())[0] == b"oats\n"


async def test_closed_it_leaves_the_time_as_it_was() -> None:
    turned = Clock()
    await turned.turn(500)
    turned.close()
    loop = asyncio.get_running_loop()
    for ours, real in (
        (ostler_clock.now, time.time),
        (ostler_clock.monotonic, time.monotonic),
        (loop.time, time.monotonic),
    ):
        before, told, after = real(), ours(), real()
        assert before <= told <= after
