"""A turn that is asked for many times under one key begins once."""

import asyncio
from types import SimpleNamespace

import pytest

from ostler.errors import OstlerError
from ostler.store import Store
from ostler.store.once import Once

KEY = Once(key="k", digest="d")


async def test_the_second_time_the_first_turn_is_named(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    assert store.turn_once("k3", KEY) is None
    assert await store.begin_turn_once(make.row("t1"), KEY) == 1
    assert await store.begin_turn_once(make.row("t2"), KEY) == "t1", "also while it is busy"
    assert await store.queue_turn_once(make.row("t3"), KEY) == "t1"
    assert store.turn_once("k3", KEY) == "t1"
    assert [row.id for row in store.turns("k3")] == ["t1"]


async def test_another_request_under_the_same_key_is_refused(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.queue_turn_once(make.row("t1"), KEY)
    other = Once(key="k", digest="other")
    for act in (store.begin_turn_once, store.queue_turn_once):
        with pytest.raises(OstlerError) as caught:
            await act(make.row("t2"), other)
        assert caught.value.kind == "exists" and "t1" in caught.value.message
    with pytest.raises(OstlerError):
        store.turn_once("k3", other)


async def test_a_key_whose_turn_could_not_begin_is_free(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.begin_turn(make.row("t1"))
    with pytest.raises(OstlerError) as caught:
        await store.begin_turn_once(make.row("t2"), KEY)
    assert caught.value.kind == "busy"
    assert store.turn_once("k3", KEY) is None


async def test_two_processes_and_many_requests_make_one_turn(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    with Store.open(store.folder) as other:
        acts = [s.queue_turn_once(make.row(f"t{n}"), KEY) for n in range(10) for s in (store, other)]
        answers = await asyncio.gather(*acts)
    assert answers.count(None) == 1 and len(set(answers)) == 2
    assert len(store.turns("k3")) == 1


async def test_keys_go_with_their_session(store: Store, make: SimpleNamespace) -> None:
    for id in ("k3", "k33"):
        await store.add_session(make.session(id))
        await store.queue_turn_once(make.row(f"{id}-1", id), KEY)
        await store.end_turn(f"{id}-1", last=[], envelope=make.envelope(f"{id}-1", id))
    await store.remove_session("k3")
    assert store.turn_once("k3", KEY) is None
    assert store.turn_once("k33", KEY) == "k33-1"
