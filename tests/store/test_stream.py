"""What is shown of a text that arrives in pieces, and when."""

import pytest

from ostler.store.scan import Scan
from ostler.store.stream import Stream

KEY = "correct-horse-battery"
SCAN = Scan([KEY, "battery-of-things", "x" * 40], str)


def marked(length: int, begins: bool) -> str:
    return f"<{length}>" if begins else f"+{length}"


def stream() -> Stream[str]:
    return Stream(SCAN, marked)


def test_text_is_shown_at_once() -> None:
    shown = stream()
    assert [shown.feed(piece) for piece in ("plain", " words", "", "\n", "here")] == [
        "plain",
        " words",
        "",
        "\n",
        "here",
    ]
    assert shown.close() == ""


def test_a_beginning_is_held_back_until_it_is_decided() -> None:
    shown = stream()
    assert [shown.feed(piece) for piece in ("it is c", "orr", "ect-h", "orse-z")] == [
        "it is ",
        "",
        "",
        "correct-horse-z",
    ]
    assert [shown.feed(piece) for piece in (" cor", KEY[3:-1], "y", "!")] == [" ", "", "<21>", "!"]
    assert shown.feed("correct-hor") == ""
    assert shown.close() == "correct-hor"


def test_secrets_that_overlap_are_one_and_those_that_follow_are_two() -> None:
    shown = stream()
    assert shown.feed(KEY) == "<21>"
    assert shown.feed("-of-things!") == "+10!"
    assert shown.feed(f"{KEY}{KEY} ") == "<21><21> "


def test_a_secret_that_repeats_itself_is_hidden_as_it_comes() -> None:
    shown = stream()
    assert [shown.feed("x" * 30) for _ in range(4)] == ["", "<60>", "+30", "+30"]
    assert shown.feed(".") == "."


def test_what_introduces_a_secret_is_shown() -> None:
    shown = stream()
    assert shown.feed("Bearer ") == "Bearer "
    assert shown.feed("abc.DEF") == ""
    assert shown.feed("-123_456~789") == "<19>"
    assert shown.feed("0 ") == "+1 "


@pytest.mark.parametrize("piece", ["ta", "disk-", "A", "\\n"])
def test_after_a_closer_look_text_is_shown_at_once_again(piece: str) -> None:
    shown = stream()
    assert shown.feed(f"{KEY} sk-x{piece}. ") == f"<21> sk-x{piece}. "
    assert shown.feed(piece + ". ") == piece + ". "
