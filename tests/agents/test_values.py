"""What records hold, taken leniently: the right type as it is, anything else as nothing."""

import math
from typing import Any

import pytest

from ostler.agents.values import UUID, items, number, table, tables, text

OTHERS: list[Any] = [None, True, False, 0, 7, 1.5, "", "a", [], ["a"], {}, {"a": 1}, b"a", ("a",), object()]


@pytest.mark.parametrize("value", OTHERS)
def test_each_takes_its_own_type_alone(value: Any) -> None:
    kinds = type(value)
    assert text(value) == (value if kinds is str else "")
    assert items(value) == (value if kinds is list else [])
    assert table(value) == (value if kinds is dict else {})
    assert number(value) == (int(value) if kinds in (int, float) else None)


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        *((0, 0), (-3, -3), (2.9, 2), (-2.9, -2), (10**15 - 1, 10**15 - 1)),
        *((10**15, None), (-(10**15), None), (1e300, None), (10**400, None)),
        *((math.nan, None), (math.inf, None), (-math.inf, None)),
        *((True, None), (False, None), ("7", None)),  # true is no number of tokens, and no exit code
    ],
)
def test_numbers_are_whole_finite_and_of_a_sane_size(value: Any, whole: int | None) -> None:
    assert number(value) == whole


def test_tables_are_those_of_a_list() -> None:
    assert tables([{"a": 1}, None, "x", [], {}, 5]) == [{"a": 1}, {}]
    assert tables({"a": 1}) == [] and tables(None) == [] and tables("ab") == []


@pytest.mark.parametrize(
    ("id", "is_one"),
    [
        ("01a1e199-7d51-7143-8680-c1629be8b49d", True),
        ("01A1E199-7D51-7143-8680-C1629BE8B49D", True),
        ("01a1e199-7d51-7143-8680-c1629be8b49", False),
        ("01a1e199-7d51-7143-8680-c1629be8b49d0", False),
        ("01a1e1997d5171438680c1629be8b49d", False),
        ("01a1e199-7d51-7143-8680-c1629be8b49d\n", False),
        ("--fork-session", False),
        ("", False),
    ],
)
def test_ids(id: str, is_one: bool) -> None:
    assert (UUID.fullmatch(id) is not None) is is_one
