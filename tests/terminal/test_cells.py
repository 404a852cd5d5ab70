"""Wide characters take two cells, marks on others none."""

import pytest

from ostler.terminal.cells import cells, shorten


@pytest.mark.parametrize(
    ("text", "wide"), [("", 0), ("abc", 3), ("żó", 2), ("日本", 4), ("e\u0301", 1), ("🚀", 2), ("a\u200db", 2)]
)
def test_cells(text: str, wide: int) -> None:
    assert cells(text) == wide


@pytest.mark.parametrize(
    ("text", "room", "cut"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("ab", 1, "…"),
    ],
)
def test_what_has_no_room_ends_in_dots(text: str, room: int, cut: str) -> None:
    assert shorten(text, room) == cut
    assert cells(cut) <= room
