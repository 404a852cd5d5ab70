"""What those who watch are told: which rows changed, journals in bounded pieces, many rows at once."""

import sqlite3
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest

from ostler.errors import OstlerError
from ostler.model import EVENT_DECODER, TerminalRow
from ostler.store import Store, runs
from ostler.store.watch import StoreWatch, Touched


@pytest.fixture
def watch(store: Store) -> Iterator[StoreWatch]:
    watch = store.watch()
    yield watch
    watch.close()


def terminal(id: str, session: str = "k3") -> TerminalRow:
    return TerminalRow(id=id, session=session, name=id, source="pty", cols=80, rows=24, created_at=1.0)


async def test_every_change_of_a_row_is_told_once(store: Store, watch: StoreWatch, make: SimpleNamespace) -> None:
    await store.add_session(make.session("one"))
    await store.add_session(make.session("two"))
    first = watch.touched(0)
    assert (first.sessions, first.terminals, first.lost) == ({"one", "two"}, set(), False)
    assert watch.touched(first.last) == Touched(last=first.last)

    await store.change_session("two", name="new")
    await store.add_terminal(terminal("t", "one"))
    second = watch.touched(first.last)
    assert (second.sessions, second.terminals) == ({"two"}, {"t"})

    await store.end_terminal("t")
    await store.remove_session("one")
    third = watch.touched(second.last)
    assert (third.sessions, third.terminals) == ({"one"}, {"t"}), "what is gone is told too, with what went with it"
    assert watch.sessions(third.sessions) == [] and watch.terminals(third.terminals) == []
    assert watch.newest_touch() == third.last


async def test_a_change_of_a_node_is_one_of_its_run(store: Store, watch: StoreWatch) -> None:
    for id, state in (("r1", "running"), ("r2", "done")):
        await store.change_documents(
            partial(runs.save_run, id=id, created_at=1.0, state=state, body=id.encode(), nodes=())
        )
    begun = watch.touched(0)
    assert begun.runs == {"r1", "r2"}
    await store.change_documents(lambda db: runs.change_node(db, "r1", "plan", lambda body: b"begun"))
    await store.change_documents(lambda db: runs.change_node(db, "r1", "plan", lambda body: b"done"))
    assert watch.touched(begun.last).runs == {"r1"}
    assert watch.runs(["r1", "gone"]) == [(b"r1", [b"done"])]
    assert watch.newest_runs(1) == ["r1"]
    assert store.documents(runs.RUNS_OPEN) == [b"r1"]
    with sqlite3.connect(store.folder / "ostler.db") as db:
        (plan,) = db.execute(f"EXPLAIN QUERY PLAN {runs.RUNS_OPEN}").fetchall()
    assert "runs_open" in plan[3], "those that have ended, and they may be many, are not read for it"


async def test_turns_touch_their_session(store: Store, watch: StoreWatch, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    for change in (
        lambda: store.begin_turn(make.row("t1")),
        lambda: store.change_turn("t1", "running"),
        lambda: store.queue_turn(make.row("t2", state="queued")),
        lambda: store.end_turn("t1", last=[], envelope=make.envelope("t1")),
        lambda: store.claim_turn("t2", "me"),
    ):
        before = watch.newest_touch()
        await change()
        assert watch.touched(before).sessions == {"k3"}


async def test_who_is_too_far_behind_is_told_so(store: Store, watch: StoreWatch, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    seen = watch.newest_touch()
    with sqlite3.connect(store.folder / "ostler.db") as db:
        db.executemany("INSERT INTO touched (what, id) VALUES (?, ?)", [("session", "k3")] * 10_500)
    db.close()
    assert watch.touched(seen).lost
    assert not watch.touched(watch.newest_touch() - 10).lost
    with sqlite3.connect(store.folder / "ostler.db") as db:
        assert db.execute("SELECT count(*) FROM touched").fetchone() == (10_000,)
    db.close()


async def test_the_version_tells_that_something_was_committed(
    store: Store, watch: StoreWatch, make: SimpleNamespace
) -> None:
    before = watch.version()
    assert watch.version() == before
    await store.add_session(make.session())
    assert watch.version() != before


async def test_a_journal_is_read_in_bounded_pieces(store: Store, watch: StoreWatch, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.append("k3", make.texts(1, 50))
    assert [seq for seq, _ in watch.journal("k3", 0, 10, 1 << 20)] == list(range(1, 11))
    assert [seq for seq, _ in watch.journal("k3", 45, 10, 1 << 20)] == list(range(46, 51))
    assert [seq for seq, _ in watch.journal("k3", 0, 10, 1)] == [1], "one at least, however long it is"
    told = [EVENT_DECODER.decode(body) for _, body in watch.journal("k3", 0, 100, 1 << 20)]
    assert told == make.texts(1, 50)
    newest: list[bytes] = []
    watch.newest_events("k3", 9, lambda body: newest.append(body) or len(newest) == 2)
    assert newest == [body for _, body in watch.journal("k3", 48, 9, 1 << 20)][::-1]
    watch.newest_events("k3", 3, newest.append)
    assert len(newest) == 5
    assert watch.last_seqs(["k3", "nobody"]) == {"k3": 50}


async def test_many_rows_at_once(store: Store, watch: StoreWatch, make: SimpleNamespace) -> None:
    for n, id in enumerate(("a", "b", "c")):
        await store.add_session(make.session(id, used_at=float(n)))
    await store.begin_turn(make.row("a1", "a"))
    await store.queue_turn(make.row("a2", "a", state="queued"))
    await store.begin_turn(make.row("b1", "b"))
    await store.end_turn("b1", last=[], envelope=make.envelope("b1", "b"))
    await store.begin_turn(make.row("b2", "b"))
    await store.end_turn("b2", last=[], envelope=make.envelope("b2", "b"))
    assert {id: row.id for id, row in watch.current_turns(["a", "b", "c"]).items()} == {"a": "a1", "b": "b2"}
    assert watch.current_turns(["a"])["a"] == store.turn("a1")
    assert watch.queued() == {"a": 1}
    assert watch.newest_sessions(2) == store.sessions()[:2]
    assert {row.id for row in watch.sessions(["a", "c", "x"])} == {"a", "c"}


async def test_terminals_of_many_sessions(store: Store, watch: StoreWatch, make: SimpleNamespace) -> None:
    await store.add_session(make.session("a"))
    for n in range(6):
        await store.add_terminal(terminal(f"t{n}", "a"))
    for n in range(4):
        await store.end_terminal(f"t{n}")
    assert watch.live_terminals(["a", "b"]) == {"a": ["t5", "t4"]}
    assert [row.id for row in watch.newest_terminals(ended=2)] == ["t5", "t4", "t3", "t2"]
    assert watch.terminals(["t1", "gone"]) == [store.terminal("t1")]


async def test_a_closed_reader_says_so(store: Store) -> None:
    watch = store.watch()
    watch.close()
    with pytest.raises(OstlerError) as caught:
        watch.version()
    assert caught.value.kind == "store" and "closed" in caught.value.message
