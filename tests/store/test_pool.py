"""What the store keeps for the pool: who runs and waits, parked accounts, what was spent; and the gate."""

from types import SimpleNamespace

import msgspec

from ostler.model.pool import Claim, PoolTurn, SharedSlots
from ostler.store import Store
from ostler.store.pool import PoolRows

CLAIM = Claim(agent="claude", account="work", folder="/w", priority=2, memory_mb=10.0)


def closed(rows: PoolRows, id: str) -> bool:
    return False


async def test_the_gate_decides_within_the_transaction(store: Store, make: SimpleNamespace) -> None:
    seen: list[tuple[list[str], dict[str, float], str]] = []

    def gate(rows: PoolRows, id: str) -> bool:
        assert rows.shared is None
        seen.append(([turn.id for turn in rows.turns], rows.parked, id))
        return len(rows.turns) < 2

    for name in ("k1", "k2"):
        await store.add_session(make.session(name))
    await store.park("work", 9.0, "m")
    assert await store.begin_turn(make.row("t1", "k1", claim=CLAIM, owner="me"), gate) == 1
    assert await store.begin_turn(make.row("t2", "k2", claim=CLAIM), gate) is None
    assert seen == [(["t1"], {"work": 9.0}, "t1"), (["t1", "t2"], {"work": 9.0}, "t2")]
    assert (store.turn("t2").state, store.session("k2").state) == ("queued", "queued")
    first, second = store.pool_turns()
    assert first == PoolTurn(id="t1", session="k1", n=1, claim=CLAIM, since=2.0, owner="me", runs=True)
    assert (second.runs, second.claim, store.turn("t2").claim) == (False, CLAIM, CLAIM)
    assert await store.claim_turn("t2", "me", gate) is None
    await store.end_turn("t1", last=[make.ended(1)], envelope=make.envelope("t1", "k1"))
    assert await store.claim_turn("t2", "me", gate) == 1


async def test_those_who_wait_know_when_their_folder_and_session_were_served(
    store: Store, make: SimpleNamespace
) -> None:
    other = msgspec.structs.replace(CLAIM, folder="/v")
    for name in ("k1", "k2", "k3"):
        await store.add_session(make.session(name))
    await store.begin_turn(make.row("t1", "k1", claim=CLAIM))
    began = store.pool_turns()[0].since
    await store.end_turn("t1", last=[make.ended(1)], envelope=make.envelope("t1", "k1"))
    seen: list[PoolTurn] = []

    def looks(rows: PoolRows, id: str) -> bool:
        seen.extend(rows.turns)
        return False

    await store.begin_turn(make.row("t2", "k1", claim=CLAIM), looks)  # also one that just comes
    await store.begin_turn(make.row("t3", "k2", claim=CLAIM), closed)
    await store.begin_turn(make.row("t4", "k3", claim=other), closed)
    told = {turn.id: (turn.folder_served, turn.session_served) for turn in (*seen, *store.pool_turns())}
    assert told == {"t2": (began, began), "t3": (began, 0.0), "t4": (0.0, 0.0)}


async def test_a_turn_without_a_claim_passes_every_gate(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    assert await store.begin_turn(make.row("t1"), closed) == 1
    assert store.pool_turns()[0].claim == Claim(nested=True)


async def test_slots_of_all_machines_are_changed_while_no_turn_starts(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    slots = SharedSlots(held={"agent:claude": 2}, until=9.0)
    turns, kept = await store.change_shared_slots(lambda turns, before: slots)
    assert (turns, kept, store.shared_slots()) == ((), slots, slots)
    assert await store.begin_turn(make.row("t1", claim=CLAIM), lambda rows, id: rows.shared == slots) == 1
    ((turn,), gone) = await store.change_shared_slots(lambda turns, before: None)
    assert (turn.id, gone, store.shared_slots()) == ("t1", None, None)


async def test_accounts_are_parked_until_their_time(store: Store) -> None:
    await store.park("work", 50.0, "a")
    await store.park("work", 60.0, "b")
    assert (store.parked(59.0), store.parked(60.0)) == ({"work": 60.0}, {})
    assert await store.unpark("work") and not await store.unpark("work")


async def test_what_was_spent_by_profile_and_agent(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    for n, (profile, cost) in enumerate([(None, 0.5), ("reviewer", 0.25), ("reviewer", 0.5), (None, None)], 1):
        row = make.row(f"t{n}")
        row = msgspec.structs.replace(row, turn=msgspec.structs.replace(row.turn, profile=profile))
        await store.begin_turn(row)
        await store.end_turn(f"t{n}", last=[], envelope=make.envelope(f"t{n}", cost_usd=cost))
    ended = store.turn("t1").ended_at
    assert store.spent_since(ended) == {"script": 0.5, "reviewer": 0.75}
    assert store.spent_since(ended + 1e6) == {}
