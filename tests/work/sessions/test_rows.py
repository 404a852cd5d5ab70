"""New sessions as the store keeps them, and old ones found in it."""

import re
from pathlib import Path

import pytest
from msgspec import structs

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import Session
from ostler.settings import Settings
from ostler.store import Store
from ostler.work.sessions.rows import find_session, find_turn, is_named, new_session_id, new_session_row


def test_ids_are_short_and_longer_when_those_run_out() -> None:
    assert re.fullmatch(r"[a-z2-9]{4}", new_session_id(lambda id: False))
    assert len(new_session_id(lambda id: len(id) < 6)) == 6
    assert re.fullmatch(r"[0-9a-f]{32}", new_session_id(lambda id: True))


async def test_a_session_is_found_by_id_name_and_beginning(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path))
    try:
        row = new_session_row(store, Settings(ttl_days=2), agent="claude", folder="/w", name="tour")
        assert row.created_at == row.used_at and row.expires_at == row.created_at + 2 * 86400
        assert abs(row.created_at - clock.now()) < 3600
        for id, name in (("abcd", "tour"), ("abce", "abcd-copy"), ("xyz2", None)):
            await store.add_session(structs.replace(row, id=id, name=name))
        assert [find_session(store, key).id for key in ("abcd", "tour", "xy", "abcd-copy")] == [
            *("abcd", "abcd", "xyz2", "abce"),
        ]
        assert (is_named(store, "tour"), is_named(store, "abcd")) == (True, False)
        for key, kind in (("abc", "bad_request"), ("", "not_found"), ("nobody", "not_found")):
            with pytest.raises(OstlerError) as raised:
                find_session(store, key)
            assert raised.value.kind == kind
        with pytest.raises(OstlerError, match="there is no turn 'x'"):
            find_turn(store, "x")
        assert isinstance(row, Session)
    finally:
        store.close()


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "--flag", "x" * 101])
async def test_a_name_that_could_not_be_typed_again_is_refused(tmp_path: Path, name: str) -> None:
    store = Store.open(str(tmp_path))
    try:
        with pytest.raises(OstlerError, match="cannot be the name of a session"):
            new_session_row(store, Settings(), agent="script", folder="/", name=name)
    finally:
        store.close()
