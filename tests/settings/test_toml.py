"""TOML that an enemy wrote."""

import tracemalloc

import pytest

from ostler.settings.toml import MOST_PARTS, parsed

DEEP = "a." * MOST_PARTS + "a"
QUOTED = r"""'a' . "b\"" ."""


@pytest.mark.parametrize("text", [f"{DEEP} = 1", f"[{DEEP}]", f"x = {{ {DEEP} = 1 }}", QUOTED * MOST_PARTS + "a = 1"])
def test_a_key_of_too_many_parts_is_refused(text: str) -> None:
    with pytest.raises(RecursionError):
        parsed(text)


def test_one_of_fewer_is_read() -> None:
    assert parsed("a." * (MOST_PARTS - 1) + "a = 1")
    words = "Is it so. " * 200 + "..." * 200 + "1.2.3 " * 200
    assert parsed(f'x = "{words}" # {words}') == {"x": words}


HOSTILE = ("a." * 130_000 + "a = 1", "a" * 260_000, '"a' * 130_000, "'.'" * 80_000, '"\\' * 130_000, '."\\' * 80_000)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:4])
def test_a_document_is_refused_for_no_more_than_some_megabytes(text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises((ValueError, RecursionError)):
            parsed(text)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
