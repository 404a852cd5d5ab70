"""Terminals in the store: what is kept of them, what is refused, and a store that was made before there were any."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from ostler.errors import OstlerError
from ostler.model import Exit, TerminalRow
from ostler.store import Store, schema


def terminal(id: str, session: str = "k3", **fields: Any) -> TerminalRow:
    plain = {"name": id, "source": "pty", "cols": 80, "rows": 24, "created_at": 3.0, "argv": ("bash",)}
    return TerminalRow(**{"id": id, "session": session, **plain, **fields})


async def test_a_store_of_version_1_gets_its_terminals(
    tmp_path: Path, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "VERSIONS", schema.VERSIONS[:1])
    with Store.open(tmp_path / "s") as store:
        await store.add_session(make.session())
        await make.begin_old_turn(store, make.row("t1"))
        await store.append("k3", make.texts(1, 2))
        with pytest.raises(OstlerError):
            store.terminals()
    monkeypatch.undo()
    with Store.open(tmp_path / "s") as store:
        assert store.terminals() == []
        await store.add_terminal(terminal("a"))
        assert store.terminals() == [terminal("a")]
        assert (store.session("k3").state, store.last_seq("k3"), store.turn("t1").state) == ("busy", 2, "starting")


async def test_terminals_are_kept_and_listed_newest_first(tmp_path: Path, make: SimpleNamespace) -> None:
    with Store.open(tmp_path / "s") as store:
        for id in ("k3", "k4"):
            await store.add_session(make.session(id))
        a, b, c = terminal("a"), terminal("b", "k4"), terminal("c", turn="t1", source="turn")
        for row in (a, b, c):
            await store.add_terminal(row)
        await store.change_terminal("a", title="vim", pid=7)
        assert await store.end_terminal("a", exit=Exit(code=3), ended_at=9.0, size=5)
    with Store.open(tmp_path / "s") as store:
        ended = replace(a, title="vim", pid=7, state="ended", exit=Exit(code=3), ended_at=9.0, size=5)
        assert store.terminal("a") == ended
        assert store.terminals() == [c, b, ended]
        assert store.terminals("k3") == [c, ended]
        assert store.terminals("k3", live=True) == [c]
        assert store.terminals(live=True) == [c, b]
        assert store.terminal("no") is None


async def test_a_terminal_ends_once_and_stays_as_it_ended(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.add_terminal(terminal("a"))
    assert await store.end_terminal("a", exit=Exit(code=0))
    assert not await store.end_terminal("a", exit=Exit(signal=9))
    assert (await store.change_terminal("a", title="late")).title == ""
    assert store.terminal("a") == replace(terminal("a"), state="ended", exit=Exit(code=0))
    assert not await store.end_terminal("no")
    with pytest.raises(OstlerError) as caught:
        await store.change_terminal("no", title="x")
    assert caught.value.kind == "not_found"
    await store.remove_terminal("a")
    assert store.terminals() == []


async def test_names_and_numbers_are_limited_within_a_session(store: Store, make: SimpleNamespace) -> None:
    for id in ("k3", "k4"):
        await store.add_session(make.session(id))

    async def refused(row: TerminalRow, limit: int | None = None) -> str:
        with pytest.raises(OstlerError) as caught:
            await store.add_terminal(row, limit)
        return caught.value.kind

    await store.add_terminal(terminal("a", name="shell"), 2)
    assert await refused(terminal("b", name="shell"), 2) == "exists"
    assert await refused(terminal("a", name="other"), 2) == "exists"
    await store.add_terminal(terminal("b", "k4", name="shell"), 2)
    await store.add_terminal(terminal("t", name="turn", source="turn"))  # what turns show does not count …
    await store.add_terminal(terminal("c"), 2)
    assert await refused(terminal("d"), 2) == "too_many"
    await store.end_terminal("a")  # … and what has ended neither; its name is free
    await store.add_terminal(terminal("d", name="shell"), 2)
    assert await refused(terminal("x", "nowhere")) == "not_found"


async def test_of_many_at_once_only_as_many_as_allowed_get_in(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    with Store.open(store.folder) as other:
        adding = [s.add_terminal(terminal(f"{n}{i}"), 3) for n, s in enumerate((store, other)) for i in range(5)]
        results = await asyncio.gather(*adding, return_exceptions=True)
    assert sum(result is None for result in results) == 3
    assert {error.kind for error in results if isinstance(error, OstlerError)} == {"too_many"}


async def test_a_session_with_a_live_terminal_is_not_removed(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.add_terminal(terminal("a"))
    with pytest.raises(OstlerError) as caught:
        await store.remove_session("k3")
    assert caught.value.kind == "busy"
    assert store.session("k3").state == "idle"
    await store.end_terminal("a")
    await store.remove_session("k3")
    assert store.terminals() == []
