"""Bytes of a program on their way to a person's own terminal: they may draw there, not ask, act or answer.

A query that reached it would be answered a second time, as keys typed into the program: the emulator answers alone.
Clipboard, window, palette, printer and file sequences do not pass either; titles, links to the web and marks of
prompts do. Bytes that are no UTF-8 are shown as U+FFFD: a terminal may take them for 8-bit controls.
"""

import re

LIMIT = 1 << 16  # bytes of a sequence that has no end; what follows is dropped until there is one

_SAFE = rb"(?:[^\x00-\x1f\x7f\xc2]|\xc2[\xa0-\xff])*"
_LINK = rb"8;[^;\x00-\x1f\x7f]*;(?:(?i:https?://|mailto:)" + _SAFE + rb")?"  # no javascript:, no file:
_STRING = rb"[^\x18\x1a\x1b]*(?:[\x18\x1a]|\x1b\\|(?=\x1b))"
_DROPPED = re.compile(
    rb"\x1b\[(?:"
    rb"[0-?]*[cintx]"  # who are you, print, where is the cursor, how large is the window
    rb"|>[0-?]*q"  # which version
    rb"|[0-?]*\$[pw]|[0-?]*\*y"  # which modes, which tabs, checksum
    rb"|\?[0-?]*[muS]"  # which key modifiers, which keyboard protocol, which graphics
    rb"|[0-?]*(?:'\||\"v|[&$]u|#[R|])"  # where is the mouse, what is shown, which characters, colors and attributes
    rb"|[0-?]*\"p"  # send and take 8-bit controls
    rb")"
    rb"|\x1b[ %][ -/]*[0-~]"  # the same; no UTF-8 any more
    rb"|\x1b\](?!(?:(?:0|1|2|133);" + _SAFE + rb"|" + _LINK + rb")(?:\x07|\x1b\\))"
    rb"[^\x07\x18\x1a\x1b]*(?:[\x07\x18\x1a]|\x1b\\|(?=\x1b))"
    rb"|\x1b[PX^_]" + _STRING + rb"|\x1bZ|\x05"  # DCS, SOS, PM, APC; who are you, as of old
    # Half a sequence goes too: it could become a whole one with what stands behind.
    rb"|\x1b(?![]PX^_]|\[[0-?]*[ -/]*[@-~]|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])(?:\[[0-?]*[ -/]*|[ -/]*)"
    rb"|([\x80-\xff]+)"  # looked at as text
)
_C1 = re.compile("[\x80-\x9f]")
_HALF = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")  # of a character
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x18\x1a\x1b]*\x1b?|[PX^_][^\x18\x1a\x1b]*\x1b?|[ -/]*)\Z")
_STRING_END = re.compile(rb"[\x07\x18\x1a]|\x1b\\?")


class OutputFilter:
    """Any chunking of the same bytes gives the same bytes."""

    def __init__(self) -> None:
        self._held = b""  # the beginning of a sequence that has not ended
        self._swallowing = False  # within a string that was too long

    def feed(self, data: bytes) -> bytes:
        data = self._held + data
        self._held = b""
        if self._swallowing:
            data = self._swallow(data)
            if self._swallowing:
                return b""
        at = self._unfinished(data)
        self._held = data[at:]
        if len(self._held) > LIMIT:
            self._held, self._swallowing = b"", True
        # An ESC that is held ends a string before it; alone, it is dropped.
        return _DROPPED.sub(_shown, data[: at + data.startswith(b"\x1b", at)])

    def _unfinished(self, data: bytes) -> int:
        """Where the sequence begins that the next bytes may complete; the end if there is none."""
        last = data.rfind(b"\x1b")
        for at in (data.rfind(b"\x1b", 0, last) if last > 0 else -1, last):  # a string may end in half a terminator
            if at >= 0 and _UNFINISHED.match(data, at):
                return at
        half = _HALF.search(data, max(0, len(data) - 3))
        return half.start() if half else len(data)

    def _swallow(self, data: bytes) -> bytes:
        found = _STRING_END.search(data)
        if not found:
            return b""
        if found[0] == b"\x1b" and found.end() == len(data):
            self._held = b"\x1b"
            return b""
        self._swallowing = False
        return data[found.start() :] if found[0] == b"\x1b" else data[found.end() :]


def _shown(found: re.Match[bytes]) -> bytes:
    """Nothing of a sequence; of text, what is UTF-8 and no control character."""
    if found[1] is None:
        return b""
    return _C1.sub("", found[1].decode("utf-8", "replace")).encode()
