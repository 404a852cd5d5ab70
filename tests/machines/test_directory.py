"""The directory, in a real Postgres."""

import asyncio
import signal
from collections.abc import AsyncIterator

import psycopg
import pytest
from msgspec import structs

from ostler.errors import OstlerError
from ostler.machines.directory import Directory, Fenced, free_machine_name
from ostler.machines.model import MachineFacts, MachineFolder, MachineLoad, SessionEntry
from postgres import Postgres

LOAD = MachineLoad(running=2)
FACTS = MachineFacts(labels=("gpu",), folders=(MachineFolder(path="/a\x00b", remote="host/a"),))


def entry(id: str, machine: str = "h", **more: object) -> SessionEntry:
    fields = {"agent": "script", "folder": "/x", "state": "idle", "created_at": 1.0, "used_at": 2.0, **more}
    return SessionEntry(machine=machine, id=id, **fields)  # type: ignore[arg-type]


@pytest.fixture
async def directory(database: str) -> AsyncIterator[Directory]:
    made = Directory(database)
    await made.prepare()
    yield made
    await made.close()


async def test_a_machine_joins_lives_and_leaves(directory: Directory) -> None:
    name, epoch, lease = await directory.join("h", "hawk", "http://h", b"key", FACTS)
    assert name == "hawk"
    now, held, (row,) = await directory.beat("h", epoch, LOAD, FACTS)
    assert held == lease == row.lease and not row.fenced
    assert (row.id, row.url, row.public_key, row.beat, row.left) == ("h", "http://h", b"key", 1, False)
    assert row.facts.labels == ("gpu",) and row.facts.folders[0].path == "/ab"
    assert now >= row.joined_at
    assert row.facts.load == LOAD
    assert (await directory.beat("h", epoch, MachineLoad(), look=False)).machines == []
    alone = await directory.machine("h")
    assert alone is not None and (alone.beat, alone.facts) == (2, structs.replace(row.facts, load=MachineLoad()))
    assert await directory.machine("x") is None
    assert await directory.drain("h", True) and not await directory.drain("x", True)
    assert (await directory.machines())[0].draining
    await directory.leave("h", epoch)
    assert (await directory.machines())[0].left
    assert await directory.forget("h") and not await directory.forget("h")


async def test_a_name_is_had_once_and_free_again_when_its_machine_has_left(directory: Directory) -> None:
    _, epoch, _ = await directory.join("a", "hawk", "", b"", FACTS)
    assert (await directory.join("b", "hawk", "", b"", FACTS))[0] == "hawk-2"
    assert (await directory.join("b", "hawk", "", b"", FACTS))[0] == "hawk-2"  # its own is not in its way
    await directory.leave("a", epoch)
    assert (await directory.join("c", "hawk", "", b"", FACTS))[0] == "hawk"
    assert free_machine_name("a", ["a", "a-2", "b"]) == "a-3"


async def test_who_joined_before_with_the_same_id_is_fenced(directory: Directory) -> None:
    _, old, _ = await directory.join("h", "hawk", "", b"", FACTS)
    _, new, _ = await directory.join("h", "hawk", "", b"", FACTS)
    assert new > old
    with pytest.raises(Fenced):
        await directory.beat("h", old, LOAD, FACTS)
    with pytest.raises(Fenced):
        await directory.put_sessions("h", old, [entry("k3pq")], (), True)
    await directory.leave("h", old)  # says nothing about the one that speaks for it now
    await directory.beat("h", new, LOAD, FACTS)


async def test_a_silent_machine_is_fenced_once_and_learns_of_it(directory: Directory) -> None:
    _, epoch, lease = await directory.join("h", "hawk", "", b"", FACTS)
    silent = (await directory.beat("h", epoch, LOAD, FACTS)).machines[0]
    await directory.beat("h", epoch, LOAD, FACTS)
    assert not await directory.fence(silent)  # it was heard of meanwhile
    (silent,) = await directory.machines()
    assert await directory.fence(silent) and not await directory.fence(silent)
    (fenced,) = await directory.machines()
    assert fenced.fenced and not await directory.fence(fenced)
    back = await directory.beat("h", epoch, LOAD, FACTS)
    assert back.lease == lease + 1 and not back.machines[0].fenced


async def test_the_index_of_sessions(directory: Directory) -> None:
    epochs = {id: (await directory.join(id, id, "", b"", FACTS))[1] for id in ("h", "o")}
    first, other = entry("k3pq", name="oats", used_at=3.0), entry("k3pq", "o", name="100%")
    await directory.put_sessions("h", epochs["h"], [first, entry("k3zz")], (), True)
    await directory.put_sessions("o", epochs["o"], [other], (), True)
    assert await directory.find_sessions("k3pq") == [first, other]
    assert await directory.find_sessions("oats") == [first]
    assert await directory.find_sessions("k3z") == [entry("k3zz")]
    assert await directory.find_sessions("k3_q") == await directory.find_sessions("1%") == []
    await directory.put_sessions("h", epochs["h"], [entry("new")], ["k3zz"], False)
    assert [each.id for each in await directory.sessions_of("h", 10)] == ["k3pq", "new"]
    assert [each.id for each in await directory.sessions_of("h", 1)] == ["k3pq"]
    await directory.put_sessions("h", epochs["h"], [], (), True)
    assert await directory.sessions_of("h", 10) == []


async def test_many_make_the_tables_at_once(database: str) -> None:
    made = [Directory(database) for _ in range(8)]
    await asyncio.gather(*(each.prepare() for each in made))
    names = await asyncio.gather(*(each.join(f"m{n}", "hawk", "", b"", FACTS) for n, each in enumerate(made)))
    assert len({joined.name for joined in names}) == 8
    for each in made:
        await each.close()


async def test_nothing_but_the_directory_is_in_it(directory: Directory, database: str) -> None:
    """What is kept of a session, word by word: no prompt, no title, no journal."""
    _, epoch, _ = await directory.join("h", "hawk", "", b"", FACTS)
    await directory.put_sessions("h", epoch, [entry("k3pq", name="oats")], (), True)
    query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'ostler' ORDER BY 1"
    with psycopg.connect(database) as db:
        assert [row[0] for row in db.execute(query)] == ["machines", "sessions", "slots", "spent"]
    assert SessionEntry.__struct_fields__ == (
        *("machine", "id", "agent", "folder", "state", "created_at", "used_at", "name", "turns"),
    )


async def test_a_restart_of_postgres_is_survived(directory: Directory, postgres: Postgres) -> None:
    _, epoch, _ = await directory.join("h", "hawk", "", b"", FACTS)
    postgres.stop(signal.SIGQUIT)
    with pytest.raises(OstlerError) as raised:
        await directory.machines()
    assert raised.value.kind == "store" and "Postgres" in str(raised.value)
    postgres.start()
    await directory.beat("h", epoch, LOAD, FACTS)


@pytest.mark.parametrize("url", ["mysql://x", "/tmp/x", "postgres://u:of-oats@h:of-hay/x"])
async def test_a_wrong_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(OstlerError) as raised:
        await Directory(url).machines()
    assert raised.value.kind == "bad_request" and "postgres://user@host/database" in str(raised.value)
    assert "oats" not in str(raised.value) and "hay" not in str(raised.value)
