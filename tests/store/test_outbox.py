"""The outbox: in order, claimed by one at a time, bounded, gone with its session; and events that come late."""

from types import SimpleNamespace

import pytest

from ostler.model import Hook
from ostler.store import Store, outbox
from ostler.store.outbox import OutboxRow


def row(n: int, session: str = "k3", target: str = "forward", turn: str = "t1", size: int = 1) -> OutboxRow:
    body = b'"%d%s"' % (n, b"x" * size)
    return OutboxRow(
        target=target, folder="/yard", session=session, turn=turn, what="event", body=body, created_at=float(n)
    )


def numbers(rows: list[OutboxRow]) -> list[float]:
    return [each.created_at for each in rows]


async def test_a_batch_is_of_one_target_and_session_and_nobody_else_gets_it(
    store: Store, make: SimpleNamespace
) -> None:
    await store.add_session(make.session())
    await store.add_session(make.session("k4"))
    assert await store.add_to_outbox([row(1), row(2, "k4"), row(3), row(4, target="notify:x")]) == 0
    first = await store.claim_outbox(100.0, 160.0)
    assert numbers(first) == [1, 3]
    assert [numbers(await store.claim_outbox(100.0, 160.0)) for _ in range(3)] == [[2], [4], []]
    await store.put_off_outbox([each.n for each in first], 110.0)
    assert await store.claim_outbox(109.0, 160.0) == []
    again = await store.claim_outbox(110.0, 170.0)
    assert numbers(again) == [1, 3] and [each.tries for each in again] == [1, 1]
    assert (store.outbox_size(), store.outbox_size("t1"), store.outbox_size("t2"), store.outbox_untried()) == (
        4,
        4,
        0,
        2,
    )
    assert numbers(await store.claim_outbox(160.0, 200.0)) == [2], "whoever had it is gone"
    await store.settle_outbox([each.n for each in again], row(9, target="journal"))
    assert store.outbox_size() == 3
    assert numbers(await store.claim_outbox(200.0, 300.0)) == [9]


async def test_batches_and_the_whole_are_bounded(
    store: Store, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add_session(make.session())
    monkeypatch.setattr(outbox, "MOST", 5)
    assert await store.add_to_outbox([row(n) for n in range(8)]) == 3
    assert numbers(await store.claim_outbox(1.0, 2.0)) == [3, 4, 5, 6, 7]
    monkeypatch.setattr(outbox, "BATCH_BYTES", 100)
    assert await store.add_to_outbox([row(n, target="big", size=60) for n in (1, 2)]) == 2
    assert numbers(await store.claim_outbox(1.0, 2.0)) == [1]


async def test_it_goes_with_its_session(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.add_to_outbox([row(1)])
    await store.remove_session("k3")
    assert (store.outbox_size(), store.outbox_due()) == (0, None)
    await store.settle_outbox([1], row(2, target="journal"))
    assert store.outbox_size() == 0


async def test_a_late_event_is_kept_only_while_nobody_writes_the_journal(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.begin_turn(make.row("t1", owner="me"))
    await store.append("k3", make.texts(1, 2))
    late = Hook(name="Stop", turn="t0", late=True)
    assert not await store.append_late("k3", late)
    await store.end_turn("t1", last=[], envelope=make.envelope("t1"))
    assert await store.append_late("k3", late)
    assert [(event.seq, event.turn) for event in store.events("k3", after=2)] == [(3, "t0")]
    assert not await store.append_late("nobody", late)
