import pytest

from ostler.testing.tui_input import Keys, Press


@pytest.mark.parametrize(
    ("chunks", "presses"),
    [
        ([b"hi"], [Press("text", "hi")]),
        ([b"hi", b"\r"], [Press("text", "hi"), Press("enter")]),
        ([b"hi\r"], [Press("text", "hi"), Press("newline")]),
        ([b"\x1b[200~a\r\nb\x1b[201~", b"\r"], [Press("paste", "a\nb"), Press("enter")]),
        ([b"\x1b[200~a\x1b[31m\x1b[201~"], [Press("paste", "a\x1b[31m")]),
        ([b"\x1b[200~lo", b"ng\x1b[20", b"1~"], [Press("paste", "long")]),
        ([b"\x1b"], [Press("escape")]),
        ([b"\x03\x04\x7f\n"], [Press("interrupt"), Press("end"), Press("backspace"), Press("newline")]),
        ([b"\x1b[A\x1bOB\x1b[C"], [Press("up"), Press("down")]),
        ([b"\x1b[", b"A"], [Press("up")]),
        ([b"\x1b]7501;?ostler\x1b\\\x1b[?62;22c"], [Press("status"), Press("reply")]),
        ([b"\x1b]11;rgb:0/0/0\x07"], []),
        (["é€😀".encode()[:4], "é€😀".encode()[4:]], [Press("text", "é"), Press("text", "€😀")]),
        ([b"a\x01b"], [Press("text", "a"), Press("text", "b")]),
    ],
)
def test_bytes_become_presses(chunks: list[bytes], presses: list[Press]) -> None:
    keys = Keys()
    assert [press for chunk in chunks for press in keys.feed(chunk)] == presses
