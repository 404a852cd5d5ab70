import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.terminal.text import LIMIT, PlainText, plain_text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain\ttext\r\n", "plain\ttext\n"),
        (b"\x1b[31mred\x1b[0m \x1b[38:2::1:2:3mx\x1b[4 q", "red x"),
        (b"\x1b[?1049h\x1b[2J\x1b[1;1Hhi\x1b[?25l", "hi"),
        (b"\x1b]0;a title\x07after", "after"),
        (b"\x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\!", "link!"),
        (b"\x1bP$qm\x1b\\a\x1b_Gi=1;AAAA\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", "abcd"),
        (b"\x1bPwith\x07bell\x1b\\a", "a"),
        (b"\x1b7\x1b8\x1bM\x1b(B\x1b#8\x1bca", "a"),
        ("\x9b31mred\x9d0;title\x9cx".encode(), "redx"),
        (b"\x1b]0;aborted\x18a\x1b[3\x1a1", "a1"),
        (b"\x1b]0;given up\x1b[1mbold", "bold"),
        (b"\x1b[31", ""),
        (b"\x1b", ""),
        (b"a\x00b\x07c\x0bd\x0ce\x7ff\x0eg", "abcdefg"),
        (b"ab\x08c", "abc"),
        (b"10%\r20%\r\n30%\r\r\ndone\r", "10%\n20%\n30%\ndone\n"),
        (b"a\r\x1b[K\nb", "a\nb"),
        ("漢🚀é".encode(), "漢🚀é"),
        (b"a\xffb\xf0\x9f", "a\ufffdb\ufffd"),
    ],
)
def test_text_without_controls(data, text):
    assert plain_text(data) == text


def test_an_unterminated_string_does_not_hide_all_that_follows():
    assert plain_text(b"\x1b]0;" + b"x" * LIMIT + b"yz") == "xxyz"  # "0;" are two of the string's characters
    assert plain_text(b"\x1b[" + b"1" * 300 + b"m") == "1" * 44 + "m"


def test_a_long_string_is_not_held():
    text = PlainText()
    assert [text.feed(b"\x1bP")] + [text.feed(b"x" * 4096) for _ in range(20)] == [""] * 21
    assert len(text._held) <= 1
    assert text.feed(b"\x1b") + text.feed(b"\\ok") == "ok"


PIECES = st.sampled_from(
    [b"\x1b", b"[", b"]", b"P", b"\\", b"\x07", b"\x18", b"3", b";", b"m", b"\r", b"\n", b"\xc2\x9b"]
)


@given(st.lists(PIECES | st.binary(max_size=3), max_size=60).map(b"".join), st.lists(st.integers(0, 150), max_size=20))
def test_any_chunking_gives_the_same_text(data, cuts):
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    text = PlainText()
    told = "".join(text.feed(data[a:b]) for a, b in itertools.pairwise(edges)) + text.feed(b"", final=True)
    assert told == plain_text(data)
    assert not {c for c in told if ord(c) < 32 or 0x7F <= ord(c) < 0xA0} - {"\n", "\t"}
