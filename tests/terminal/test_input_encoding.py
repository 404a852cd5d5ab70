"""What viewers type, as bytes: and what cannot be typed at all."""

from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.terminal.input_encoding import encoded, typed
from ostler.terminal.keys import Key
from ostler.terminal.screen.protocol import Modes
from ostler.terminal.viewer_protocol import Control, Paste, PressKey, SendBytes, Type

PLAIN = Modes()


@pytest.mark.parametrize(
    ("message", "modes", "data"),
    [
        (PressKey(key=Key(name="ArrowUp")), PLAIN, b"\x1b[A"),
        (PressKey(key=Key(name="ArrowUp")), Modes(application_cursor=True), b"\x1bOA"),
        (Type(text="ls\n"), PLAIN, b"ls\r"),
        (Paste(text="a\nb"), PLAIN, b"a\rb"),
        (Paste(text="a\nb"), Modes(bracketed_paste=True), b"\x1b[200~a\rb\x1b[201~"),
        (Control(name="interrupt"), PLAIN, b"\x03"),
        (Control(name="eof"), PLAIN, b"\x04"),
        (Control(name="suspend"), PLAIN, b"\x1a"),
        (SendBytes(data=b"\x1b[<0;1;1M\xff"), PLAIN, b"\x1b[<0;1;1M\xff"),
        (SendBytes(data=b""), PLAIN, b""),
    ],
)
def test_messages_as_bytes(message: Any, modes: Modes, data: bytes) -> None:
    assert encoded(message, modes) == data


@pytest.mark.parametrize(
    ("text", "data"),
    [
        *(("", b""), ("a\r\nb\nc\rd", b"a\rb\rc\rd"), ("\n\n", b"\r\r"), ("\t", b"\t")),
        *(("grün 日本 \U0001f600", "grün 日本 \U0001f600".encode()), ("\u2028\u200b", "\u2028\u200b".encode())),
    ],
)
def test_every_line_end_is_enter(text: str, data: bytes) -> None:
    assert typed(text) == data


@pytest.mark.parametrize(
    ("char", "name"),
    [
        *(("\x00", "U+0000"), ("\x03", "U+0003"), ("\x08", "U+0008"), ("\x0b", "U+000B"), ("\x1b", "U+001B")),
        *(("\x7f", "U+007F"), ("\x80", "U+0080"), ("\x9b", "U+009B"), ("\x9f", "U+009F"), ("\ud800", "U+D800")),
    ],
)
def test_controls_are_no_text(char: str, name: str) -> None:
    with pytest.raises(OstlerError) as refused:
        typed(f"rm {char}x")
    assert (refused.value.kind, refused.value.message) == ("bad_request", f"text with the control character {name}")
