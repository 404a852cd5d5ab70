"""The journal while the store does not take what is written."""

import sqlite3
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.model import Raw, Session, Turn, TurnRow
from ostler.store import Redactor, Store
from ostler.work.turns.journal import Journal


async def room_for(store: Store, pages: int) -> None:
    """The database may have so many pages more, as on a disk that is nearly full."""

    def limit(db: sqlite3.Connection) -> None:
        (now,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {now + pages}")

    await store._writer.write(limit, full=False)


async def test_a_write_that_fails_gives_its_numbers_back(tmp_path: Path) -> None:
    with Store.open(tmp_path / "state") as store:
        await store.add_session(Session(id="s", agent="script", folder="/", access="read", created_at=0, used_at=0))
        turn = Turn(id="t", session="s", agent="script", prompt="x", folder="/")
        first = await store.begin_turn(TurnRow(id="t", session="s", state="starting", turn=turn, created_at=0))
        assert first is not None
        journal = Journal(store, "s", "t", first, Redactor(set()))
        await journal.add([Raw(line="one")], first=True)
        await room_for(store, 2)
        for _ in range(3):
            with pytest.raises(OstlerError) as raised:
                await journal.add([Raw(line="x" * 2000)] * 20)
            assert raised.value.kind == "store"
        await room_for(store, 10_000)
        await journal.add([Raw(line="after")])
        lines = [event.line for event in store.events("s") if isinstance(event, Raw)]
        assert lines == ["one", "after"]
        assert [event.seq for event in store.events("s")] == list(range(first, first + 2))
