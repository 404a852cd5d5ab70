"""What of a turn goes to the outbox, and who waits for it."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from ostler.model import Asked, Ended, Envelope, Session, Turn, TurnRow
from ostler.settings import Forward, Notify, Settings
from ostler.store import Store
from ostler.work.forward.sender import Sender
from ostler.work.turns.forwarding import TurnForwarding, forward_orphaned, is_forwarded

SESSION = Session(id="k3", agent="claude", folder="/yard", created_at=0, used_at=0)
ASKED = Asked(seq=1, at=6.0, turn="k3-1", id="q", tool="shell", title="ls")
BOTH = Settings(forward=Forward(url="https://b", wait=7.0), notify=(Notify(command=("beep",)),))


class Waiting:
    """In the place of the sender: counts who wakes it, and says whether all has gone."""

    def __init__(self, delivered: bool = True) -> None:
        self.woken = 0
        self.waited: list[tuple[str, float]] = []
        self._delivered = delivered

    def wake(self) -> None:
        self.woken += 1

    async def delivered(self, turn: str, seconds: float) -> bool:
        self.waited.append((turn, seconds))
        return self._delivered


def forwarding(settings: Settings, store: Any, sender: Waiting) -> TurnForwarding:
    return TurnForwarding(settings, store, lambda: cast("Sender", sender))


def turn(**more: Any) -> Turn:
    return Turn(id="k3-1", session="k3", agent="claude", folder="/yard", prompt="feed", **more)


def envelope() -> Envelope:
    known: dict[str, Any] = {"session": "k3", "agent": "claude", "served_by": "claude", "started_at": 0.0}
    return Envelope(status="ok", outcome="done", summary="", text="", turn="k3-1", duration_ms=1, **known)


@pytest.mark.parametrize(
    ("settings", "on"),
    [(Settings(), False), (Settings(forward=Forward(url="https://b")), True), (BOTH, True)],
)
def test_whether_anybody_is_told(settings: Settings, on: bool) -> None:
    assert is_forwarded(settings) is on


def test_what_is_told_goes_to_the_outbox_and_wakes_the_sender(tmp_path: Path) -> None:
    async def add() -> None:
        with Store.open(tmp_path / "state") as store:
            await store.add_session(SESSION)
            nobody, sender = Waiting(), Waiting()
            await forwarding(Settings(), store, nobody).add(SESSION, [ASKED])
            await forwarding(BOTH, store, nobody).add(SESSION, [])
            assert (store.outbox_size(), nobody.woken) == (0, 0)
            await forwarding(BOTH, store, sender).add(SESSION, [ASKED])
            assert (store.outbox_size("k3-1"), sender.woken) == (1, 1)

    asyncio.run(add())


def test_a_store_that_cannot_be_written_costs_the_turn_nothing(tmp_path: Path) -> None:
    async def add() -> None:
        store, sender = Store.open(tmp_path / "state"), Waiting()
        store.close()
        await forwarding(BOTH, store, sender).add(SESSION, [ASKED])

    asyncio.run(add())


def test_the_end_is_told_with_its_last_events() -> None:
    last = [Ended(outcome="done")]
    rows = forwarding(BOTH, None, Waiting()).rows_of_end(SESSION, [ASKED, *last], envelope())
    assert [row.what for row in rows] == ["asked", "result", "ended"]
    assert forwarding(Settings(), None, Waiting()).rows_of_end(SESSION, [ASKED, *last], envelope()) == []


@pytest.mark.parametrize(
    ("settings", "wait_for", "waited"),
    [
        (BOTH, "forwarded", [("k3-1", 7.0)]),
        (BOTH, "ended", []),
        (Settings(notify=BOTH.notify), "forwarded", []),  # there is no backend to wait for
    ],
)
def test_only_a_turn_that_asks_for_it_waits_for_the_backend(
    settings: Settings, wait_for: Any, waited: list[tuple[str, float]]
) -> None:
    sender = Waiting(delivered=False)
    asyncio.run(forwarding(settings, None, sender).deliver(turn(wait_for=wait_for)))
    assert (sender.woken, sender.waited) == (1, waited)


def test_nobody_is_woken_for_a_turn_that_is_not_forwarded() -> None:
    sender = Waiting()
    asyncio.run(forwarding(Settings(), None, sender).deliver(turn(wait_for="forwarded")))
    assert (sender.woken, sender.waited) == (0, [])


def test_an_orphaned_turn_is_told_of_once_it_has_ended(tmp_path: Path) -> None:
    async def tell() -> None:
        with Store.open(tmp_path / "state") as store:
            await store.add_session(SESSION)
            row = TurnRow(id="k3-1", session="k3", state="starting", turn=turn(), created_at=0.0, owner="gone")
            await store.begin_turn(row)
            assert not await forward_orphaned(store, BOTH, row)  # it has no envelope yet
            await store.end_turn(
                row.id,
                last=[Ended(seq=1, at=1.0, turn="k3-1", outcome="done")],
                envelope=envelope(),
                session_changes={},
            )
            assert not await forward_orphaned(store, Settings(), row)
            assert await forward_orphaned(store, BOTH, row)
            assert store.outbox_size("k3-1") == 2

    asyncio.run(tell())
