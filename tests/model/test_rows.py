"""Rows of the store, as values."""

import msgspec
from msgspec import structs

from ostler.model import Session


def test_a_session_is_called_by_its_name_and_else_by_its_id() -> None:
    row = Session(id="k3", agent="claude", folder="/w", created_at=0, used_at=0)
    assert [row.label, structs.replace(row, name="barn").label] == ["k3", "barn"]
    assert "label" not in msgspec.to_builtins(row)
