"""What the page is told: everything once, then what changes, shared by all who watch."""

import asyncio
from typing import Any

import httpx
import pytest

from ostler.model import (
    Session,
    Text,
    Turn,
    TurnRow,
)
from ostler.server import live
from ostler.server import live_index as boards
from ostler.server.live_index import LiveIndex
from ostler.testing import Clock
from prefork import start_ostler_here
from server.conftest import Yard
from server.streamed import Listener, listening
from server.test_sessions import make, run


def row(n: int, **fields: Any) -> Session:
    plain = {"agent": "script", "folder": "/somewhere", "created_at": 1.0, "used_at": float(n)}
    return Session(id=f"s{n:04d}", **{**plain, **fields})


async def ready(listener: Listener) -> None:
    await listener.until(lambda told: told and told[-1].kind == "ready")


async def test_first_everything_then_what_changes(yard: Yard) -> None:
    first = await make(yard, name="barn")
    await run(yard, first["id"])
    cat = await yard.client.post("/api/terminals", json={"session": first["id"], "argv": ["cat"]})
    id = cat.json()["id"]
    async with listening(yard.client, "/api/live") as listener:
        await ready(listener)
        assert [listener.told[0].kind, listener.told[-2].kind] == ["hello", "session"]
        assert {told.kind for told in listener.told[1:-2]} == {"terminal"}
        assert listener.of("hello") == [(await yard.client.get("/api/me")).json()]
        rows = (await yard.client.get("/api/terminals")).json()["items"]
        assert {data["id"] for data in listener.of("terminal")} == {item["id"] for item in rows}
        assert listener.of("session") == [(await yard.client.get("/api/sessions/barn")).json()]
        assert listener.of("session", live_terminals=1, primary_terminal=id)

        second = await make(yard)
        await listener.until(lambda told: listener.of("session", id=second["id"]))
        await yard.ostler.store.change_session(first["id"], name="stable")
        await listener.until(lambda told: listener.of("session", id=first["id"], name="stable"))
        await yard.client.post(f"/api/terminals/{id}/kill", json={})
        await listener.until(lambda told: listener.of("terminal", id=id, state="ended"))
        await listener.until(lambda told: listener.of("session", id=first["id"], live_terminals=0))
        assert listener.of("session")[-1]["primary_terminal"] is None
        assert (await yard.client.delete(f"/api/sessions/{first['id']}")).status_code == 204
        await listener.until(lambda told: listener.of("gone", what="session", id=first["id"]))
        await listener.until(lambda told: listener.of("gone", what="terminal", id=id))


async def test_a_turn_of_a_shell_is_seen_with_what_it_does(yard: Yard) -> None:
    async with listening(yard.client, "/api/live") as listener:
        await ready(listener)
        process = await start_ostler_here(
            ["run", "script", "[[say:Counting the horses]] [[never_end]]"],
            cwd=yard.folder,
            env={**yard.ostler.setup.environ},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await listener.until(lambda told: listener.of("session", state="busy", doing="Counting the horses"))
        session = listener.of("session")[-1]
        assert session["turn"]["state"] in ("starting", "running") and session["turns"] == 1
        await yard.ostler.cancel(session["id"])
        await process.communicate()
        await listener.until(lambda told: (listener.of("session")[-1]["turn"] or {}).get("outcome") == "cancelled")
        assert (listener.of("session")[-1]["state"], listener.of("session")[-1]["doing"]) == ("idle", "")


async def test_many_changes_of_a_row_are_told_as_one(clock: Clock, yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    session = (await make(yard))["id"]
    async with listening(yard.client, "/api/live") as listener:
        await ready(listener)
        monkeypatch.setattr(live, "PACE", 1000.0)
        await yard.ostler.store.change_session(session, title="first")
        await listener.until(lambda told: listener.of("session", title="first"))
        for n in range(400):
            await yard.ostler.store.change_session(session, title=f"title {n}")
        await clock.turn(1001)
        await listener.until(lambda told: listener.of("session", title="title 399"))
        assert [data["title"] for data in listener.of("session")[1:]] == ["first", "title 399"]


async def test_a_hundred_join_at_once_and_share_what_they_are_told(yard: Yard) -> None:
    for n in range(100):
        await yard.ostler.store.add_session(row(n))
    loads = 0
    load = LiveIndex._load

    def counted(board: LiveIndex) -> None:
        nonlocal loads
        loads += 1
        load(board)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LiveIndex, "_load", counted)
        async with yard.as_("view", limits=httpx.Limits(max_connections=None)) as client:
            told = await asyncio.gather(*(_first_and_next(yard, client, n) for n in range(100)))
    assert loads == 1
    assert all(each == told[0] for each in told)
    assert told[0][0] == [f"s{n:04d}" for n in range(100)] and told[0][1] == ("s0007", "new")


async def _first_and_next(yard: Yard, client: Any, n: int) -> tuple[list[str], tuple[str, str]]:
    async with listening(client, "/api/live") as listener:
        await ready(listener)
        first = [data["id"] for data in listener.of("session")]
        _joined(yard).append(n)
        if len(_joined(yard)) == 100:
            await yard.ostler.store.change_session("s0007", name="new")
        changed = await listener.until(lambda told: listener.of("session", name="new"))
        return first, (changed[0]["id"], changed[0]["name"])


def _joined(yard: Yard) -> list[int]:
    found: list[int] = yard.__dict__.setdefault("joined", [])
    return found


async def test_who_stops_reading_is_told_the_newest_and_nothing_waits_for_it(yard: Yard) -> None:
    for n in range(50):
        await yard.ostler.store.add_session(row(n, system="y" * 50_000))
    async with listening(yard.client, "/api/live") as slow, listening(yard.client, "/api/live") as quick:
        await ready(quick)
        for name in ("one", "two", "three"):
            for n in range(50):
                await yard.ostler.store.change_session(f"s{n:04d}", name=f"{name} {n}")
            await quick.until(lambda told, name=name: quick.of("session", name=f"{name} 49"))
        await slow.until(lambda told: slow.of("session", name="three 49"))
        assert {data["name"] for data in slow.of("session")[-50:]} == {f"three {n}" for n in range(50)}
        assert len(slow.of("session", name="two 7")) <= 1


# -- the board by itself ------------------------------------------------------------------------------


async def test_only_what_changed_is_read_again(yard: Yard) -> None:
    store = yard.ostler.store
    for n in range(60):
        await store.add_session(row(n))
    watch = store.watch()
    board = LiveIndex(watch)
    reads: list[list[str]] = []
    sessions = watch.sessions
    watch.sessions = lambda ids: reads.append(sorted(ids)) or sessions(ids)  # type: ignore[method-assign,func-returns-value]
    n, _ = board.everything()
    await store.change_session("s0003", name="x")
    await store.change_session("s0005", name="y")
    board.look()
    board.refresh()
    assert reads == [["s0003", "s0005"]]
    told = board.since(n)
    assert told is not None and told[1].count(b"event: session") == 2
    await store.set_note("other", 1)
    board.look()
    assert not board.stale, "what is no row of ours costs nothing"


async def test_the_newest_are_told_at_first_and_the_others_when_they_change(yard: Yard, monkeypatch: Any) -> None:
    monkeypatch.setattr(boards, "SESSIONS", 5)
    store = yard.ostler.store
    for n in range(10):
        await store.add_session(row(n))
    board = LiveIndex(store.watch())
    n, pieces = board.everything()
    assert [b'"s%04d"' % i in b"".join(pieces) for i in range(10)] == [False] * 5 + [True] * 5
    await store.change_session("s0001", name="awake")
    board.look()
    board.refresh()
    told = board.since(n)
    assert told is not None and b"awake" in told[1]


async def test_when_many_are_busy_each_is_heard_in_turn(yard: Yard, monkeypatch: Any) -> None:
    monkeypatch.setattr(boards, "_LINES", 2)
    store = yard.ostler.store
    for n in range(5):
        await store.add_session(row(n))
        turn = Turn(id=f"t{n}", session=f"s{n:04d}", agent="script", prompt="go", folder="/somewhere")
        await store.begin_turn(TurnRow(id=turn.id, session=turn.session, state="starting", turn=turn, created_at=1.0))
    board = LiveIndex(store.watch())
    heard: list[int] = []
    n, _ = board.everything()
    for seq in (1, 2):
        for each in range(5):
            await store.append(f"s{each:04d}", [Text(seq=seq, at=1.0, turn=f"t{each}", text=f"words {seq}")])
        board.look()
        while board.stale:
            board.refresh()
            told = board.since(n)
            assert told is not None
            n = told[0]
            heard.append(told[1].count(b'"doing":"words %d"' % seq))
    assert heard == [2, 2, 1] * 2


async def test_who_missed_a_removal_that_is_forgotten_begins_anew(yard: Yard, monkeypatch: Any) -> None:
    monkeypatch.setattr(boards, "_TOMBS", 2)
    store = yard.ostler.store
    for n in range(10):
        await store.add_session(row(n))
    board = LiveIndex(store.watch())
    old, _ = board.everything()
    for n in range(5):
        await store.remove_session(f"s{n:04d}")
        board.look()
        board.refresh()
        if n == 3:
            late = board.everything()[0]
    assert board.since(old) is None
    told = board.since(late)
    assert told is not None and told[1].count(b"event: gone") == 1
    assert b"".join(board.everything()[1]).count(b"event: session") == 5


async def test_who_lost_the_log_of_changes_reads_everything_anew(yard: Yard) -> None:
    store = yard.ostler.store
    for n in range(4):
        await store.add_session(row(n))
    board = LiveIndex(store.watch())
    n, _ = board.everything()
    await store.remove_session("s0001")
    await store.change_session("s0002", name="other")
    board._seen = -5  # the log begins later: as if thousands of changes had come at once
    board.look()
    told = board.since(n)
    assert told is not None
    assert (told[1].count(b"event: gone"), told[1].count(b"event: session")) == (1, 1)
