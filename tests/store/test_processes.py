"""Several processes on one store, and processes that die."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ostler.model import Text
from ostler.store import Store
from waiting import PATIENCE

Script = Callable[..., "subprocess.Popen[str]"]


async def test_one_process_reads_while_another_writes(store: Store, make: SimpleNamespace, script: Script) -> None:
    await store.add_session(make.session())
    other = script(
        """
async def main():
    with Store.open(folder) as store:
        first = await store.begin_turn(row("t1", owner="other"))
        for seq in range(first, 501):
            await store.append("k3", texts(seq, 1))
            if seq == 249:
                sys.stdin.readline()
        await store.end_turn("t1", last=[ended(501)], envelope=envelope("t1"))
asyncio.run(main())
""",
        store.folder,
    )
    seen: list[object] = []
    version, halves, deadline = store.data_version(), 0, time.monotonic() + PATIENCE
    while store.running_turns() or not seen:
        assert time.monotonic() < deadline, other.communicate()
        if (now := store.data_version()) != version:
            version = now
            seen += store.events("k3", after=len(seen))
            if len(seen) == 249:  # while the turn ran: now the rest
                halves += 1
                other.stdin.write("go on\n")
                other.stdin.flush()
        await asyncio.sleep(0.001)
    seen += store.events("k3", after=len(seen))
    assert (other.wait(PATIENCE), seen) == (0, [*make.texts(1, 500), make.ended(501)])
    assert halves == 1
    assert store.turn("t1").envelope == make.envelope("t1")


RACE = """
async def main():
    with Store.open(folder) as store:
        me = sys.argv[2]
        print("ready", flush=True)
        sys.stdin.readline()
        won = [id for id in sys.argv[3:] if await store.claim_turn(id, me) is not None]
        print(*won, flush=True)
asyncio.run(main())
"""


async def test_of_two_processes_exactly_one_claims_a_turn(store: Store, make: SimpleNamespace, script: Script) -> None:
    turns = [f"t{n}" for n in range(40)]
    for n, id in enumerate(turns):
        await store.add_session(make.session(f"s{n}"))
        await store.queue_turn(make.row(id, f"s{n}"))
    racers = [script(RACE, store.folder, name, *turns) for name in ("a", "b")]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n", racer.communicate()
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [set(racer.communicate(timeout=PATIENCE)[0].split()) for racer in racers]
    assert won[0] | won[1] == set(turns)
    assert not won[0] & won[1]
    owners = {turn.id: turn.owner for turn in store.running_turns()}
    assert owners == dict.fromkeys(won[0], "a") | dict.fromkeys(won[1], "b")
    assert {session.turns for session in store.sessions()} == {1}


@pytest.mark.long
def test_many_processes_create_one_store_at_once(tmp_path: Path, script: Script) -> None:
    code = """
async def main():
    with Store.open(folder) as store:
        print(await bump(store, "n"))
asyncio.run(main())
"""
    counts = []
    for process in [script(code, tmp_path / "new") for _ in range(6)]:
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, "")
        counts.append(int(out))
    assert sorted(counts) == [1, 2, 3, 4, 5, 6]


WRITER = """
async def main():
    store = Store.open(folder)
    seq = store.last_seq("k3")
    async def writer(seq):
        await store.append("k3", texts(seq, 1))
        os.write(1, f"{seq}\\n".encode())
    while True:
        await asyncio.gather(*(writer(seq + n) for n in range(1, 8)))
        seq += 7
asyncio.run(main())
"""


@pytest.mark.long
async def test_kill_9_of_the_writer_loses_no_acknowledged_event(
    store: Store, make: SimpleNamespace, script: Script
) -> None:
    await store.add_session(make.session())
    for round in range(10):
        process = script(WRITER, store.folder)
        acknowledged = {int(process.stdout.readline()) for _ in range(20 + 13 * round)}
        os.kill(process.pid, signal.SIGKILL)
        acknowledged |= {int(line) for line in process.communicate(timeout=PATIENCE)[0].split("\n") if line}
        seqs = [event.seq for event in store.events("k3")]
        assert acknowledged <= set(seqs)
        assert seqs == list(range(1, len(seqs) + 1))
        assert store.events("k3", after=len(seqs) - 1) == make.texts(len(seqs), 1)
        await store.append("k3", [Text(seq=len(seqs) + 1, text="the store is usable")])


async def test_a_dead_owner_leaves_its_turn_to_be_ended(store: Store, make: SimpleNamespace, script: Script) -> None:
    await store.add_session(make.session())
    process = script(
        """
async def main():
    store = Store.open(folder)
    await store.begin_turn(row("t1", owner="dead"))
    print("begun", flush=True)
    sys.stdin.readline()
asyncio.run(main())
""",
        store.folder,
    )
    assert process.stdout.readline() == "begun\n", process.communicate()
    process.kill()
    process.wait(30)
    assert [(turn.id, turn.owner, turn.state) for turn in store.running_turns()] == [("t1", "dead", "starting")]
    gone = make.envelope("t1", status="error", outcome="crashed")
    assert await store.end_turn("t1", last=[make.ended(1)], envelope=gone)
    assert store.session("k3").state == "idle"
