"""What agents take: measured of their processes, learned, and kept for the next ostler."""

import asyncio
import os
from pathlib import Path

from ostler.store import Store
from ostler.work.pool.memory import UNKNOWN_MB, LearnedMemory, available_mb, learned, resident_by_session, resident_mb
from waiting import until
from work.scripted import Stable, collect


def test_a_peak_counts_at_once_and_is_forgotten_slowly() -> None:
    assert learned(None, 80.0) == 80.0
    assert learned(80.0, 200.0) == 200.0
    assert learned(200.0, 100.0) == 180.0


def test_the_machine_says_what_is_free_and_what_a_process_takes() -> None:
    assert (available_mb() or 0) > 10
    assert resident_mb(os.getpid()) > 5
    assert resident_mb(2**22 + 1) == 0.0


async def test_what_was_learned_is_there_for_the_next(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        memory = LearnedMemory(store)
        assert (memory.of("claude"), memory.known("claude")) == (UNKNOWN_MB, None)
        memory.peaks["k3"] = 321.0
        await memory.learn("claude", "k3")
        assert memory.of("claude") == LearnedMemory(store).of("claude") == 321.0
        assert memory.peaks == {}
        await memory.learn("claude", "k3")  # it was not measured
        assert LearnedMemory(store).known("claude") == 321.0


async def test_the_processes_of_a_turn_are_found_by_their_mark(stable: Stable) -> None:
    gate = stable.folder / "gate"
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        task = asyncio.create_task(collect(session, f"[[say:begun]] [[wait_for:{gate}]]"))
        await until(lambda: any(getattr(event, "text", "") == "begun" for event in o.events(session.id)))
        pid = o.warden.pid()
        assert pid is not None
        found = resident_by_session([pid], [session.id, "other"])
        assert found[session.id] > 2 and found["other"] == 0.0
        o.pool.memory.sample([pid], [session.id])
        gate.touch()
        await task
        await until(lambda: o.store.note("pool:memory:script"))
        assert o.pool.memory.known("script") == round(o.store.note("pool:memory:script"), 1)
