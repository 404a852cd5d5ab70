"""What comes from the terminal of the scripted TUI, as keys and pastes. Pure: bytes in, presses out."""

import re
from typing import NamedTuple


class Press(NamedTuple):
    """`kind` is text, paste, enter, newline, escape, interrupt, end, backspace, up, down, status or reply."""

    kind: str
    text: str = ""


PASTE_BEGINS, PASTE_ENDS = b"\x1b[200~", b"\x1b[201~"
_OSC, _CSI, _SS3 = rb"\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)", rb"\[(?P<csi>[0-?]*[ -/]*[@-~])", rb"O(?P<ss3>.)"
_SEQUENCE = re.compile(rb"\x1b(?:" + _OSC + b"|" + _CSI + b"|" + _SS3 + b")", re.S)
_KEYS = {b"A": "up", b"B": "down"}
_CONTROLS = {0x03: "interrupt", 0x04: "end", 0x08: "backspace", 0x7F: "backspace", 0x1B: "escape", 0x0A: "newline"}


class Keys:
    """Reads presses out of chunks. A paste may come in many; a sequence or a character in two."""

    def __init__(self) -> None:
        self._rest = b""
        self._paste: bytes | None = None

    def feed(self, data: bytes) -> list[Press]:
        """What was pressed. Enter in the same chunk as text is a new line: so a paste looks without brackets."""
        presses: list[Press] = []
        data, self._rest = self._rest + data, b""
        while data:
            data = self._take_paste(data, presses) if self._paste is not None else self._take(data, presses)
        typed = any(press.kind == "text" for press in presses)
        return [Press("newline") if typed and press.kind == "enter" else press for press in presses]

    def _take_paste(self, data: bytes, presses: list[Press]) -> bytes:
        whole = (self._paste or b"") + data
        text, ends, rest = whole.partition(PASTE_ENDS)
        if not ends:
            self._paste = whole
            return b""
        self._paste = None
        presses.append(Press("paste", text.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")))
        return rest

    def _take(self, data: bytes, presses: list[Press]) -> bytes:
        if data.startswith(PASTE_BEGINS):
            self._paste = b""
            return data[len(PASTE_BEGINS) :]
        if data[0] == 0x1B and (found := _SEQUENCE.match(data)):
            presses += _sequence(found)
            return data[found.end() :]
        if data[:2] in (b"\x1b[", b"\x1b]"):  # the rest of it comes with the next chunk
            self._rest = data
            return b""
        if data[0] == 0x0D:
            presses.append(Press("enter"))
            return data[1:]
        if kind := _CONTROLS.get(data[0]):
            presses.append(Press(kind))
            return data[1:]
        return self._take_text(data, presses)

    def _take_text(self, data: bytes, presses: list[Press]) -> bytes:
        size = next((at for at, byte in enumerate(data) if byte < 0x20 or byte == 0x7F), len(data))
        text, rest = data[:size], data[size:]
        if not rest and (cut := _unfinished(text)):
            text, self._rest = text[:-cut], text[-cut:]
        if text:
            presses.append(Press("text", text.decode("utf-8", "replace")))
        return rest[1:] if rest and not text and rest[0] not in _CONTROLS and rest[0] not in (0x0D, 0x1B) else rest


def _sequence(found: re.Match[bytes]) -> list[Press]:
    if (osc := found["osc"]) is not None:
        return [Press("status")] if osc.startswith(b"7501;?") else []
    final = (found["csi"] or found["ss3"])[-1:]
    if final == b"c":
        return [Press("reply")]
    return [Press(_KEYS[final])] if final in _KEYS else []


def _unfinished(text: bytes) -> int:
    """How many bytes at the end begin a character of UTF-8 that is not whole."""
    for size in range(1, min(4, len(text) + 1)):
        lead = text[-size]
        if lead >= 0xC0:
            wanted = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return size if size < wanted else 0
        if lead < 0x80:
            return 0
    return 0
