"""Durations as people write them, and which keys a file may have."""

from typing import Any

import pytest

from ostler.settings.keys import FILE_KEYS, NOT_IN_FILES, TYPES, Settings, positive, seconds


@pytest.mark.parametrize(
    ("written", "meant"),
    [("90", 90), ("90s", 90), ("5m", 300), ("1h", 3600), ("1h30m", 5400), ("0.5s", 0.5), ("2d", 172800), (3, 3)],
)
def test_durations(written: str | float, meant: float) -> None:
    assert seconds(written) == meant


@pytest.mark.parametrize("written", ["", "0", "-1", "5 m", "m", "1x", "nan", "inf", "1e3", 0, -2, True, "٣", "9" * 400])
def test_no_durations(written: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        seconds(written)


@pytest.mark.parametrize(
    "written", ["1m ", " 1m", "1M", "1h-30m", "1.5.5s", ".5s", "5.s", "1h 30m", "0s", "0h0m", "1e2s", "+5", "５"]
)
def test_what_only_looks_like_a_duration(written: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        seconds(written)


def test_units_add_up_in_any_order() -> None:
    assert seconds("30m1h") == seconds("1h30m") == 5400
    assert seconds("1s1s") == 2
    assert seconds("1.5h") == 5400 and seconds(0.25) == 0.25


@pytest.mark.parametrize("number", [0, -1, -0.0, float("nan"), float("inf"), float("-inf")])
def test_what_is_not_more_than_nothing(number: float) -> None:
    with pytest.raises(ValueError, match=r"^it must be more than 0$"):
        positive(number)


def test_keys_of_files_are_all_but_those_of_the_environment() -> None:
    assert {*FILE_KEYS} | NOT_IN_FILES == {*TYPES} == {*Settings.__struct_fields__}
    assert {*FILE_KEYS} & NOT_IN_FILES == set()
