"""What viewers type, as the bytes that the program expects in the modes it has asked for."""

import re

from ostler.errors import OstlerError
from ostler.terminal import keys
from ostler.terminal.screen.protocol import Modes, key_modes
from ostler.terminal.viewer_protocol import Control, Paste, PressKey, SendBytes, Type


def encoded(message: PressKey | Type | Paste | Control | SendBytes, modes: Modes) -> bytes:
    """The bytes; none for a key that the modes do not report. `bad_request` for what cannot be typed."""
    match message:
        case PressKey(key=key):
            return keys.encode(key, key_modes(modes))
        case Type(text=text):
            return typed(text)
        case Paste(text=text):
            return keys.paste(text, modes.bracketed_paste)
        case Control(name=name):
            return keys.control(name)
        case SendBytes(data=data):
            return data


def typed(text: str) -> bytes:
    """Characters as if typed: every line end is Enter."""
    if found := keys.UNTYPABLE.search(text):
        hint = "Send it as a key, a control or raw bytes"
        raise OstlerError("bad_request", f"text with the control character U+{ord(found[0]):04X}", hint)
    return re.sub("\r\n|\n", "\r", text).encode()
