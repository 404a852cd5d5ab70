"""The newest event of a kind: found as it is now, without reading the same journal twice."""

from types import SimpleNamespace
from typing import Any

from ostler.store import Store
from ostler.store.last_events import LastEvents


async def test_what_came_since_counts_and_only_that_is_looked_through(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session("k3"))
    await store.begin_turn(make.row("t", "k3"))
    asked: list[tuple[Any, ...]] = []

    def read(query: str, *values: Any) -> list[tuple[Any, ...]]:
        asked.append(values)
        return store._read(query, *values)

    last = LastEvents(read)
    assert last.of("k3", "text", None) is None
    await store.append("k3", make.texts(1, 3, "t"))
    found = last.of("k3", "text", None)
    assert found is not None and found.seq == 3
    assert last.of("k3", "text", None) is found
    await store.append("k3", make.texts(4, 1, "t"))
    newer = last.of("k3", "text", None)
    assert newer is not None and newer.seq == 4
    assert [seen for _, seen, *_ in asked] == [0, 0, 3, 3]


async def test_one_that_is_too_old_by_now_does_not_count(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session("k3"))
    await store.begin_turn(make.row("t", "k3"))
    await store.append("k3", make.texts(1, 1, "t"))
    last = LastEvents(store._read)
    assert last.of("k3", "text", 2) is not None
    await store.end_turn("t", last=[make.ended(2, "t")], envelope=make.envelope("t"))
    assert last.of("k3", "text", 2) is not None
    assert last.of("k3", "text", 1) is None
    await store.begin_turn(make.row("u", "k3"))
    await store.append("k3", [make.ended(3, "u")])
    assert last.of("k3", "text", 2) is None
    assert last.of("k3", "text", 3) is not None


async def test_a_journal_that_begins_anew_is_read_anew(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session("k3"))
    await store.begin_turn(make.row("t", "k3"))
    await store.append("k3", make.texts(1, 3, "t"))
    last = LastEvents(store._read)
    assert last.of("k3", "text", None) is not None
    await store.end_turn("t", last=[make.ended(4, "t")], envelope=make.envelope("t"))
    await store.remove_session("k3")
    assert last.of("k3", "text", None) is None
    await store.add_session(make.session("k3"))
    await store.begin_turn(make.row("t", "k3"))
    await store.append("k3", make.texts(1, 1, "t"))
    found = last.of("k3", "text", None)
    assert found is not None and found.seq == 1
