"""Text for programs: what a terminal was sent, without anything that controls it."""

import codecs
import re

LIMIT = 1 << 20  # characters of an unterminated string; what follows is text again

_CONTROL = re.compile("[\x1b\x90\x98\x9b\x9d-\x9f]")  # what begins a sequence
_SHORT = re.compile("(?:\x1b\\[|\x9b)[0-?]{0,256}[ -/]{0,16}(?P<csi>[@-~])?|\x1b[ -/]{0,16}(?P<other>[0-~])?")
_STRINGS = frozenset(["\x1b]", "\x1bP", "\x1bX", "\x1b^", "\x1b_", "\x90", "\x98", "\x9d", "\x9e", "\x9f"])
_OSC_END = re.compile("[\x07\x18\x1a\x1b\x9c]")
_OTHER_END = re.compile("[\x18\x1a\x1b\x9c]")
_RETURN = re.compile("\r+\n?")
_DROPPED = dict.fromkeys([*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0)])


def plain_text(data: bytes) -> str:
    """The text without escape sequences and control characters but newline and tab.

    A carriage return ends a line, a backspace is dropped; invalid UTF-8 becomes U+FFFD.
    """
    return PlainText().feed(data, final=True)


class PlainText:
    """The same, piece by piece: any chunking of the same bytes gives the same text."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # the beginning of a sequence that has not ended
        self._end: re.Pattern[str] | None = None  # within a string: what ends it
        self._left = 0  # characters that the string may still have
        self._return = False  # a carriage return may still get its newline

    def feed(self, data: bytes, final: bool = False) -> str:
        text = self._held + self._decoder.decode(data, final)
        self._held = ""
        out: list[str] = []
        at = 0
        while at < len(text):
            at = self._skip_string(text, at) if self._end else self._pass(text, at, out)
        return self._lines("".join(out), final)

    def _pass(self, text: str, at: int, out: list[str]) -> int:
        """Takes text up to the next sequence, and that sequence."""
        found = _CONTROL.search(text, at)
        if not found:
            out.append(text[at:])
            return len(text)
        at = found.start()
        out.append(text[found.pos : at])
        opening = text[at : at + (2 if text[at] == "\x1b" else 1)]
        if opening in _STRINGS:
            self._end = _OSC_END if opening in ("\x1b]", "\x9d") else _OTHER_END
            self._left = LIMIT
            return at + len(opening)
        return self._skip_short(text, at)

    def _skip_short(self, text: str, at: int) -> int:
        found = _SHORT.match(text, at)
        assert found  # an ESC or CSI stands there
        if found.end() == len(text) and not (found["csi"] or found["other"]):
            self._held = text[at:]
        return found.end()

    def _skip_string(self, text: str, at: int) -> int:
        assert self._end
        found = self._end.search(text, at, at + self._left)
        if not found:
            stop = min(len(text), at + self._left)
            self._left -= stop - at
            if not self._left:
                self._end = None
            return stop
        stop = found.start()
        if found[0] == "\x1b" and stop + 1 == len(text):  # the terminator, or the next sequence
            self._held = "\x1b"
            self._left -= stop - at
            return len(text)
        self._end = None
        if found[0] == "\x1b":
            return stop + 2 if text[stop + 1] == "\\" else stop
        return stop + 1

    def _lines(self, text: str, final: bool) -> str:
        text = text.translate(_DROPPED)
        if self._return and (text or final):
            text = "\r" + text
            self._return = False
        if text.endswith("\r") and not final:
            text = text.rstrip("\r")
            self._return = True
        return _RETURN.sub("\n", text)
