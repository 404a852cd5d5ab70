"""Several ostler processes on one store: run beside run, cancel from outside, dead owners found."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from ostler.model import Owner, SignalName, TurnRow
from ostler.process import tree
from ostler.store import Store, changes
from ostler.work.owner import alive, ask_owner, end_orphaned_turns
from ostler.work.owner_requests import CancelTurn
from waiting import until
from work.scripted import Stable, collect


async def test_two_processes_run_beside_each_other(stable: Stable) -> None:
    processes = [stable.cli("run", "script", f"[[say:{n}]]", "--json", "--name", f"s{n}") for n in range(3)]
    outputs = [await asyncio.to_thread(p.communicate) for p in processes]
    envelopes = [json.loads(out) for out, _ in outputs]
    assert [(e["status"], e["text"], e["name"]) for e in envelopes] == [("ok", str(n), f"s{n}") for n in range(3)]
    async with stable.ostler() as o:
        assert {row.state for row in o.sessions()} == {"idle"} and len(o.sessions()) == 3
        assert [owner.id for owner in o.store.owners()] == [o.desk.id]


async def test_of_two_who_find_a_dead_owners_turn_one_has_ended_it(stable: Stable) -> None:
    """Whoever did tells others of it."""
    process = stable.cli("run", "script", "[[write:began]] [[never_end:true]]", "--access", "full")
    await until((stable.folder / "began").exists)
    process.kill()
    process.communicate()
    stores = [Store.open(str(stable.state)) for _ in range(2)]
    try:
        both = await asyncio.gather(*map(end_orphaned_turns, stores))
    finally:
        for store in stores:
            store.close()
    assert [len(orphans.found) for orphans in both] == [1, 1]
    assert sorted(len(orphans.ended) for orphans in both) == [0, 1]


async def test_who_registers_and_begins_a_turn_meanwhile_is_no_dead_owner(
    stable: Stable, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = stable.cli("run", "script", "[[write:began]] [[wait_for:go]] [[say:done]]", "--access", "full", "--json")
    await until((stable.folder / "began").exists)
    with Store.open(str(stable.state)) as store:
        (owner,), turns = store.owners(), store.running_turns
        await store.remove_owner(owner.id)

        def then_registers() -> list[TurnRow]:
            found = turns()
            with closing(sqlite3.connect(store.folder / "ostler.db")) as db, db:
                changes.add_owner(db, owner)
            return found

        monkeypatch.setattr(store, "running_turns", then_registers)
        orphans = await end_orphaned_turns(store)
    (stable.folder / "go").touch()
    out, err = await asyncio.to_thread(process.communicate)
    assert (orphans.found, json.loads(out)["text"]) == ([], "done"), err


async def test_a_turn_of_another_process_can_be_cancelled(stable: Stable) -> None:
    stable.script.plays([{"say": "here"}, {"never_end": True}])
    process = stable.cli("run", "script", "go", "--json", "--name", "far")
    async with stable.ostler() as o:
        await until(
            lambda: o.store.find("far") and any(getattr(e, "text", "") == "here" for e in o.events(o.find("far").id))
        )
        assert await o.cancel("far") is True
        out, err = await asyncio.to_thread(process.communicate)
        assert process.returncode == 130, err
        envelope = json.loads(out)
        assert (envelope["outcome"], envelope["text"]) == ("cancelled", "here")
        assert await o.cancel("far") is False


@pytest.mark.parametrize("name", ["QUIT", "KILL"])
async def test_a_turn_of_another_process_is_cancelled_by_a_signal(stable: Stable, name: SignalName) -> None:
    stable.script.plays([{"say": "here"}, {"never_end": True}])
    process = stable.cli("run", "script", "go", "--json", "--name", "far")
    async with stable.ostler() as o:
        await until(
            lambda: o.store.find("far") and any(getattr(e, "text", "") == "here" for e in o.events(o.find("far").id))
        )
        assert await o.cancel("far", signal=name) is True
        out, err = await asyncio.to_thread(process.communicate)
        envelope = json.loads(out)
        assert (envelope["outcome"], envelope["exit"]) == ("cancelled", {"signal": signal.Signals[f"SIG{name}"]}), err


async def test_a_killed_ostler_leaves_no_session_running_and_no_process(stable: Stable) -> None:
    pid_file = stable.folder / "daemon"
    stable.script.plays([{"double_fork": str(pid_file)}, {"say": "here"}, {"never_end": True}])
    process = stable.cli("run", "script", "go", "--json", "--name", "doomed", "--access", "full")
    async with stable.ostler() as o:
        await until(lambda: o.store.find("doomed") and o.events(o.find("doomed").id))
        await until(lambda: pid_file.exists() and pid_file.read_text().strip())
        turn = o.store.turns(o.find("doomed").id)[0].id
        assert tree.marked(turn)
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.communicate)
        await until(lambda: tree.marked(turn) == [] and tree.identity(int(pid_file.read_text())) is None, 10)
    async with stable.ostler() as o:
        row = o.find("doomed")
        assert row.state == "idle" and row.agent_session
        envelope = o.store.turns(row.id)[0].envelope
        assert (envelope.status, envelope.outcome, envelope.error.kind) == ("error", "crashed", "crashed")
        assert envelope.agent_session == row.agent_session
        kinds = [type(e).__name__ for e in o.events(row.id)]
        assert kinds[-1] == "Ended" and kinds.count("Ended") == 1
        stable.script.plays([{"history": True}])
        again = await o.session(session="doomed")
        await collect(again, "and now?")
        assert again.last.ok and "go" in again.last.text
        assert list((stable.state / "run").iterdir()) == [stable.state / "run" / f"{o.desk.id}.sock"]


@pytest.mark.parametrize("transport", ["pipe", "dialog"])
async def test_what_only_its_mark_leads_to_ends_at_the_next_start(stable: Stable, transport: str) -> None:
    """A daemon whose ostler and warden were killed together. In a dialog its mark is that of the session."""
    process = stable.cli(
        *("run", "script", "[[run:printenv OSTLER_TURN > mark]] [[never_end:true]]", "--transport", transport),
        *("--access", "full"),
    )
    mark = await until(lambda: (stable.folder / "mark").exists() and (stable.folder / "mark").read_text().strip())
    daemon = subprocess.Popen(["sleep", "600"], env={"OSTLER_TURN": mark})
    process.kill()
    process.communicate()
    async with stable.ostler():
        assert await asyncio.to_thread(daemon.wait) == -signal.SIGTERM


async def test_a_second_prompt_finds_the_dead_owner_by_itself(stable: Stable) -> None:
    stable.script.plays({"match": "first", "steps": [{"say": "x"}, {"never_end": True}]}, {"steps": [{"say": "y"}]})
    async with stable.ostler() as o:
        process = stable.cli("run", "script", "first", "--json", "--name", "n")
        await until(lambda: o.store.find("n") and o.events(o.find("n").id))
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.communicate)
        session = await o.session(session="n")
        await collect(session, "second")
        assert session.last.ok and session.last.text == "y"


async def test_the_socket_is_private_and_answers_only_what_it_knows(stable: Stable) -> None:
    async with stable.ostler() as o, stable.ostler() as other:
        own = next(owner for owner in o.store.owners() if owner.id == other.desk.id)
        assert Path(own.socket).stat().st_mode & 0o777 == 0o600
        assert await ask_owner(own, CancelTurn(turn="nothing")) == {"ok": False}
        for line in (b'{"op":"dance"}\n', b"{broken\n"):
            reader, writer = await asyncio.open_unix_connection(own.socket)
            writer.write(line)
            assert json.loads(await reader.readline())["error"]["kind"] == "bad_request"
            writer.close()
        assert await ask_owner(own, CancelTurn(turn="nothing")) == {"ok": False}


async def test_a_long_state_path_is_no_obstacle(stable: Stable) -> None:
    stable.state = stable.state / ("long" * 25) / ("longer" * 20)
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:hi]]")
        assert session.last.ok
        owner = o.store.owners()[0]
        assert len(owner.socket) > 108
        async with stable.ostler() as other:
            assert await ask_owner(owner, CancelTurn(turn="none")) == {"ok": False}
            assert other.store.owner(owner.id) == owner


def test_a_pid_alone_is_no_identity() -> None:
    me = Owner(
        id="x",
        pid=os.getpid(),
        start_time=tree.identity(os.getpid()) or 0,
        boot_id=tree.boot_id(),
        socket="",
        role="test",
        started_at=0,
    )
    from msgspec.structs import replace

    assert alive(me)
    assert not alive(replace(me, start_time=me.start_time + 1))
    assert not alive(replace(me, boot_id="another"))
    assert not alive(replace(me, pid=2**22 + 1))
