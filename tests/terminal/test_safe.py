"""Nothing an agent says may act on the terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.terminal.safe import one_line, safe


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\rb", "a\\x0db"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("\x9b2J", "\\x9b2J"),
        ("\x7f\x00\x08", "\\x7f\\x00\\x08"),
        ("evil\u202egnp.exe", "evil\\u202egnp.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("naïve ✓ 漢字 👍🏽", "naïve ✓ 漢字 👍🏽"),
    ],
)
def test_control_characters_are_written_out(said: str, shown: str) -> None:
    assert safe(said) == shown


@given(st.text())
def test_no_control_character_survives(text: str) -> None:
    kept = {unicodedata.category(c) for c in safe(text) if c not in "\n\t"}
    assert not kept & {"Cc", "Cs", "Zl", "Zp"}
    assert "\x1b" not in one_line(text) and "\n" not in one_line(text)


def test_one_line() -> None:
    assert one_line("  a\n b\t c  ") == "a b c"
    assert one_line("x" * 300) == "x" * 199 + "…"
    assert one_line("abcdef", 4) == "abc…"
