"""What of a program's bytes reaches a person's own terminal."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.terminal.output_filter import LIMIT, OutputFilter

CAPTURES = sorted((Path(__file__).parent.parent / "captures" / "terminal").glob("*.raw"))

QUERIES = [
    b"\x1b[c",
    b"\x1b[>c",
    b"\x1b[=c",
    b"\x1b[0c",
    b"\x1b[5n",
    b"\x1b[6n",
    b"\x1b[?6n",
    b"\x1b[?996n",
    b"\x1b[>0q",
    b"\x1b[>q",
    b"\x1b[?2026$p",
    b"\x1b[?u",
    b"\x1b[18t",
    b"\x1b[14t",
    b"\x1b[8;50;200t",
    b"\x1b[1x",
    b"\x1b[?1;1;0S",
    b"\x1b[1$w",
    b"\x1b[?4m",
    b"\x1b[0'|",
    b'\x1b["v',
    b"\x1b[&u",
    b"\x1b[1$u",
    b"\x1b[#R",
    b"\x1b[1;1;2;9#|",
    b"\x1bZ",
    b"\x05",
    b"\x1b]11;?\x07",
    b"\x1b]10;?\x1b\\",
    b"\x1b]4;1;?\x07",
    b"\x1b]7501;?\x07",
    b"\x1bP+q544e\x1b\\",
    b"\x1bP$qm\x1b\\",
    b"\x1b_Gi=1,a=q;AAAA\x1b\\",
]
ACTIONS = [
    b"\x1b]52;c;aGVsbG8=\x07",
    b"\x1b]4;1;rgb:00/00/00\x07",
    b"\x1b]1337;File=x:AAAA\x07",
    b"\x1b]777;notify;a;b\x07",
    b"\x1b]9;hello\x07",
    b"\x1b[5i",
    b"\x1b[3t",
    b"\x1b^private\x1b\\",
    b"\x1bXstring\x1b\\",
    b"\xc2\x9b31m",
    b"\x1b%@",
    b"\x1b%/G",
    b"\x1b G",
    b'\x1b[62;0"p',
    b"\x1b]8;;javascript:alert(1)\x1b\\",
    b"\x1b]8;id=1;JavaScript:alert(1)\x07",
    b"\x1b]8;;file:///etc/passwd\x1b\\",
    b"\x1b]8;;data:text/html,x\x1b\\",
    b"\x1b]8;;vscode://x\x07",
    b"\x1b]8;;/etc/passwd\x07",
    b"\x1b]8;; https://example.org\x07",
    b"\x1b]8;https://example.org\x07",
]
RAW = [  # 8-bit controls, as they are outside of UTF-8
    b"\x9b6n",
    b"\x9d52;c;aGk=\x9c",
    b"\x90$qm\x9c",
    b"\x9fGi=1\x9c",
    b"\x85\x84",
    b"\xe2\x9b6n",
    b"\xf0\x9f\x9b6n",
    b"\xc2\x05\x9b6n",
    b"\xed\xa0\x9b6n",
    b"\xc0\x9b\xff\xfe",
    b"\x1b]0;a\x9bb\x07",
]
DRAWING = [
    b"plain \xc3\xa9 \xe4\xb8\xad \xf0\x9f\x9a\x80\r\n\t\x08\x07",
    b"\x1b[1;31mred\x1b[0m\x1b[38;2;1;2;3mx\x1b[38:2::1:2:3m",
    b"\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?1000h\x1b[?1006h\x1b[?2026h",
    b"\x1b[H\x1b[2J\x1b[3;4H\x1b[K\x1b[5A\x1b[2 q\x1b[4:3m\x1b[1;10r\x1b[5X\x1b[2P\x1b[3@\x1b[4L\x1b[1M\x1b[2S\x1b[3T",
    b"\x1b[>5u\x1b[<u\x1b[=1;1u\x1b[>4;2m",
    b"\x1b7\x1b8\x1bM\x1bD\x1bE\x1bc\x1b(B\x1b)0\x1b=\x1b>\x0e\x0f",
    b"\x1b]0;a title\x07\x1b]2;another\x1b\\\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\\x1b]133;A\x07",
    b"\x1b]8;id=7;HTTP://example.org/a;b\x07l\x1b]8;;\x07\x1b]8;;mailto:a@example.org\x07m\x1b]8;;\x1b\\",
    b'\x1b[!p\x1b[6"q\x1b[$}',
]


@pytest.mark.parametrize("data", [*QUERIES, *ACTIONS])
def test_nothing_asks_and_nothing_acts(data: bytes) -> None:
    shown = OutputFilter().feed(b"a" + data + b"b")
    assert shown == (b"a31mb" if data.startswith(b"\xc2") else b"ab")


@pytest.mark.parametrize("data", DRAWING)
def test_what_draws_passes_as_it_is(data: bytes) -> None:
    assert OutputFilter().feed(data + b"x") == data + b"x"


@pytest.mark.parametrize("data", RAW)
def test_raw_controls_do_not_pass(data: bytes) -> None:
    shown = OutputFilter().feed(b"a" + data + b"b").decode()  # it is UTF-8
    assert not re.search("[\x80-\x9f]", shown) and "\ufffd" in shown
    assert shown.startswith("a") or shown.startswith("\x1b]0;a")


def test_text_that_is_no_utf_8_keeps_its_width() -> None:
    """As the emulator shows it, so that a screen which is drawn here is the same."""
    assert OutputFilter().feed(b"na\xefve \xe2\x80x").decode() == "na\ufffdve \ufffdx"


@given(st.binary(min_size=1), st.binary(max_size=4))
def test_only_utf_8_without_raw_controls_passes(data: bytes, more: bytes) -> None:
    outward = OutputFilter()
    shown = (outward.feed(data) + outward.feed(more)).decode()
    assert not re.search("[\x80-\x9f]", shown)


@given(
    st.lists(st.sampled_from([*QUERIES, *ACTIONS, *RAW, *DRAWING, b"\x1b", b"\x1b[", b"]", b"\xc2", b"text"])),
    st.data(),
)
def test_any_chunking_gives_the_same(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts) + b" end"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    outward = OutputFilter()
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert b"".join(outward.feed(piece) for piece in pieces) == OutputFilter().feed(whole)


@pytest.mark.parametrize("data", [b"\x1b]52;c;aGk\xc2\xa9\x07", b"\x1b]52;c;aGk\x1b[1m", b"\x1bPq\xc2\xa9\x1b\\"])
def test_no_cut_lets_a_string_begin(data: bytes) -> None:
    for at in range(len(data)):
        outward = OutputFilter()
        shown = outward.feed(data[:at]) + outward.feed(data[at:] + b"x")
        assert shown == (b"\x1b[1mx" if data.endswith(b"m") else b"x"), at


@given(
    st.lists(
        st.sampled_from([b"\x1b", b"[", b"6", b"n", b"?", b"\x05", b"Z", b"\xc2", b"\x9b", b"]", b"\n"]), max_size=30
    ).map(b"".join)
    | st.binary()
)
def test_garbage_harms_nobody(data: bytes) -> None:
    shown = OutputFilter().feed(data)
    assert OutputFilter().feed(shown) == shown


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b\x1bZ[6n",
        b"\x1b[\x056n",
        b"\x1b[6\nn",
        b"\x1b\n[6n",
        b"\x1b\x05[6n",
        b"\x1b[\xc2\x9b6n",
        b"\x1b[?\x1b[c6n",
    ],
)
def test_nothing_that_is_taken_out_makes_a_new_query(data: bytes) -> None:
    shown = OutputFilter().feed(data + b".")
    assert not re.search(rb"\x1b[\x00-\x17]*\[[\x00-\x17?0-9]*n", shown)
    assert OutputFilter().feed(shown) == shown


def test_a_string_without_an_end_is_not_kept() -> None:
    outward = OutputFilter()
    assert outward.feed(b"before\x1b]52;c;") == b"before"
    for _ in range(40):
        assert outward.feed(b"A" * (LIMIT // 10)) == b""
    assert len(outward._held) <= LIMIT
    assert outward.feed(b"AAA\x1b") == b""
    assert outward.feed(b"\\after") == b"after"
    assert outward.feed(b"\x1b[c!") == b"!"


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_real_programs_keep_what_they_draw(path: Path) -> None:
    data = path.read_bytes()
    shown = OutputFilter().feed(data)
    assert len(shown) > 0.9 * len(data)
    assert not re.search(rb"\x1b\[[0-?]*[cn]|\x1b\[\?u|\x1b\][0-9]+;\?", shown)
