"""Asks as rows: opened and answered by events, closed by the end of their turn, found by an index."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ostler.model import Answered, Asked, AskRow
from ostler.store import Store, schema
from ostler.store.asks import COUNT_OPEN, ENDED, SELECT_OPEN, SELECT_ROWS_OF_SESSION


def asked(seq: int, id: str = "a1", turn: str = "t1") -> Asked:
    return Asked(seq=seq, at=float(seq), turn=turn, id=id, tool="shell", title=f"ask {id}")


def answered(seq: int, id: str = "a1", turn: str = "t1") -> Answered:
    return Answered(seq=seq, at=float(seq), turn=turn, id=id, option="allow_once", by="Anna")


@pytest.fixture
async def began(store: Store, make: SimpleNamespace) -> Store:
    await store.add_session(make.session())
    await store.begin_turn(make.row("t1"))
    return store


async def test_what_is_open_who_answered_and_since_when(began: Store) -> None:
    store = began
    await store.append_first("t1", "k3", [asked(1), asked(2, "a2")])
    assert store.open_asks("k3") == store.open_asks("k3", "t1") == [asked(1), asked(2, "a2")]
    assert store.open_asks("k3", "t2") == store.open_asks("other") == []
    await store.append("k3", [answered(3), answered(4, "unknown")])
    assert store.open_asks("k3") == [asked(2, "a2")]
    await store.append("k3", [answered(5)])  # the first answer counts
    assert store.asks_of_session("k3", 0, 9) == [
        AskRow(session="k3", asked=asked(1), answered_at=3.0, option="allow_once", by="Anna"),
        AskRow(session="k3", asked=asked(2, "a2")),
    ]
    await store.append("k3", [asked(6)])  # asked again under the same name
    assert store.open_asks("k3") == [asked(2, "a2"), asked(6)]
    assert store.watch().open_asks("k3") == (2, asked(6))


@pytest.mark.parametrize(
    ("query", "values", "index"),
    [(SELECT_OPEN, 2, "asks_open"), (COUNT_OPEN, 1, "asks_open"), (SELECT_ROWS_OF_SESSION, 3, "asks_of_session")],
)
async def test_they_are_found_by_an_index(store: Store, query: str, values: int, index: str) -> None:
    with sqlite3.connect(store.folder / "ostler.db") as db:
        steps = [step for *_, step in db.execute(f"EXPLAIN QUERY PLAN {query}", [""] * values)]
    assert index in steps[0] and not any("SCAN" in step or "TEMP B-TREE" in step for step in steps), steps


async def test_the_end_of_a_turn_closes_its_asks_and_no_others(began: Store, make: SimpleNamespace) -> None:
    store = began
    await store.add_session(make.session("k4"))
    await store.begin_turn(make.row("t2", "k4"))
    await store.append_first("t1", "k3", [asked(1)])
    await store.append_first("t2", "k4", [asked(1, turn="t2")])
    await store.end_turn("t1", last=[make.ended(2)], envelope=make.envelope("t1"))
    assert store.open_asks("k3") == [] and store.open_asks("k4") == [asked(1, turn="t2")]
    (row,) = store.asks_of_session("k3", 0, 9)
    assert (row.option, row.by) == ("cancelled", ENDED) and row.answered_at
    await store.end_turn("t2", last=[], envelope=make.envelope("t2"))
    await store.remove_session("k4")
    assert store.asks_of_session("k4", 0, 9) == []


async def test_events_that_are_not_added_open_nothing(began: Store) -> None:
    await began.append("k3", [asked(1)])
    with pytest.raises(Exception, match="UNIQUE"):
        await began.append("k3", [asked(2, "a2"), asked(1, "a3")])
    assert began.open_asks("k3") == [asked(1)]


def counted(db: sqlite3.Connection, work: Callable[[], object]) -> int:
    """Steps that SQLite takes for it."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    db.set_progress_handler(step, 1)
    try:
        work()
    finally:
        db.set_progress_handler(None, 0)
    return steps


async def test_an_old_ask_is_found_without_reading_the_journal(began: Store, make: SimpleNamespace) -> None:
    """The work does not grow with what was said since."""
    store, watch = began, began.watch()
    await store.append_first("t1", "k3", [asked(1)])

    def work() -> tuple[int, int]:
        return (
            counted(store._reader, lambda: store.open_asks("k3", "t1")),
            counted(watch._db, lambda: watch.open_asks("k3")),
        )

    work()  # whoever reads for the first time reads the schema too
    before = work()
    for first in range(2, 20_002, 1000):
        await store.append("k3", make.texts(first, 1000))
    assert store.open_asks("k3") == [asked(1)] and watch.open_asks("k3") == (1, asked(1))
    assert work() == before


async def test_a_store_of_before_knows_what_its_running_turns_ask(
    tmp_path: Path, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "VERSIONS", schema.VERSIONS[:2])
    monkeypatch.setattr("ostler.store.asks.follow", lambda *_: None)
    monkeypatch.setattr("ostler.store.asks.close", lambda *_: None)
    with Store.open(tmp_path / "s") as store:
        for n, events in enumerate(([asked(1), answered(2), asked(3, "a2")], [asked(1, turn="t2")]), 1):
            await store.add_session(make.session(f"k{n}"))
            await make.begin_old_turn(store, make.row(f"t{n}", f"k{n}"))
            await store.append_first(f"t{n}", f"k{n}", events)
        await store.end_turn("t2", last=[make.ended(2, "t2")], envelope=make.envelope("t2", "k2"))
    monkeypatch.undo()
    with Store.open(tmp_path / "s") as store:
        assert store.open_asks("k1") == [asked(3, "a2")] and store.open_asks("k2") == []
        assert [(row.asked.id, row.by) for row in store.asks_of_session("k1", 0, 9)] == [("a1", "Anna"), ("a2", "")]
        assert store.asks_of_session("k2", 0, 9) == []  # what has ended asks nothing any more
        await store.append("k1", [answered(4, "a2")])
        assert store.open_asks("k1") == []
