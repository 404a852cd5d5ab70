"""What stays between turns is made when it is needed, and nothing of it is overlooked when it is to end."""

from pathlib import Path
from typing import Any

import pytest

from ostler.settings import Settings
from ostler.store import Store
from ostler.work.transports.keepers import STAYING, Keepers


class Kept:
    """Stands for dialogs, screens or panes, and notes what it is told to close."""

    def __init__(self, *turns: str) -> None:
        self.closed: list[str | None] = []
        self.turns = turns

    async def close(self, session: str | None = None) -> None:
        self.closed.append(session)

    def holds(self, session: str) -> bool:
        return session in self.closed

    def running(self, turn: str) -> str | None:
        return turn if turn in self.turns else None


@pytest.fixture
def keepers(tmp_path: Path) -> Any:
    def unused(*_: object) -> Any:
        raise AssertionError("not needed yet")

    with Store.open(tmp_path / "state") as store:
        settings = Settings(home=str(tmp_path))
        yield Keepers(
            store,
            environ={},
            settings_in=lambda folder: settings,
            warden=unused,
            terminals=unused,
            call_terminals=unused,
            callbacks=unused,
        )


def made(keepers: Keepers) -> list[str]:
    return [name for name in STAYING.values() if name in keepers.__dict__]


async def test_nothing_is_made_to_find_that_there_is_nothing(keepers: Keepers) -> None:
    assert not keepers.holds("s") and keepers.chosen_id("s") is None
    await keepers.close("s")
    await keepers.close_all()
    await keepers.watch_idle_panes()
    assert made(keepers) == []


async def test_each_is_made_once(keepers: Keepers) -> None:
    assert keepers.dialogs is keepers.dialogs and keepers.tuis is keepers.tuis and keepers.panes is keepers.panes
    assert made(keepers) == ["dialogs", "tuis", "panes"]


async def test_others_than_the_turns_own_are_closed(keepers: Keepers) -> None:
    kept = {name: Kept() for name in STAYING.values()}
    keepers.__dict__.update(kept)
    await keepers.close("s", but="pty")
    assert {name: each.closed for name, each in kept.items()} == {"dialogs": ["s"], "tuis": [], "panes": ["s"]}
    assert keepers.holds("s") and not keepers.holds("t")
    await keepers.close_all()
    assert [each.closed[-1] for each in kept.values()] == [None, None, None]


async def test_a_pane_of_another_process_is_closed_too(keepers: Keepers) -> None:
    (keepers._store.folder / "tmux" / "panes" / "s").mkdir(parents=True)
    await keepers.close("t")
    assert made(keepers) == []
    await keepers.close("s")
    assert made(keepers) == ["panes"]


async def test_who_runs_a_turn(keepers: Keepers) -> None:
    dialogs, tuis, panes = Kept(), Kept("a"), Kept("b")
    keepers.__dict__.update(dialogs=dialogs, tuis=tuis, panes=panes)
    assert [keepers.of_turn(turn) for turn in ("a", "b", "c")] == [tuis, panes, dialogs]
