"""Bytes of a program on their way to a person's own terminal: they may draw there, not ask, act or answer.

A query that reached it would be answered a second time, as keys typed into the program: the emulator answers alone.
Clipboard, window, palette, printer and file sequences do not pass either; titles, links and marks of prompts do.
"""

import re

LIMIT = 1 << 16  # bytes of a sequence that has no end; what follows is dropped until there is one

_SAFE = rb"(?:[^\x00-\x1f\x7f\xc2]|\xc2[\xa0-\xff])*"
_STRING = rb"[^\x18\x1a\x1b]*(?:[\x18\x1a]|\x1b\\|(?=\x1b))"
_DROPPED = re.compile(
    rb"\x1b\[(?:"
    rb"[0-?]*[cintx]"  # who are you, print, where is the cursor, how large is the window
    rb"|>[0-?]*q"  # which version
    rb"|[0-?]*\$[pw]|[0-?]*\*y"  # which modes, which tabs, checksum
    rb"|\?[0-?]*[uS]"  # which keyboard protocol, which graphics
    rb")"
    rb"|\x1b\](?!(?:0|1|2|8|133);" + _SAFE + rb"(?:\x07|\x1b\\))[^\x07\x18\x1a\x1b]*(?:[\x07\x18\x1a]|\x1b\\|(?=\x1b))"
    rb"|\x1b[PX^_]" + _STRING + rb"|\x1bZ|\x05"  # DCS, SOS, PM, APC; who are you, as of old
    # C1; half a character or sequence goes too: it could become a whole one with what stands behind.
    rb"|\xc2(?![\xa0-\xbf])[\x80-\x9f]?"
    rb"|\x1b(?![]PX^_]|\[[0-?]*[ -/]*[@-~]|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])(?:\[[0-?]*[ -/]*|[ -/]*)"
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x18\x1a\x1b]*\x1b?|[PX^_][^\x18\x1a\x1b]*\x1b?|[ -/]*)\Z")
_STRING_END = re.compile(rb"[\x07\x18\x1a]|\x1b\\?")


class Outward:
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
        # The first byte of what is held ends a string before it; alone, it is dropped.
        return _DROPPED.sub(b"", data[: at + 1])

    def _unfinished(self, data: bytes) -> int:
        """Where the sequence begins that the next bytes may complete; the end if there is none."""
        last = data.rfind(b"\x1b")
        for at in (data.rfind(b"\x1b", 0, last) if last > 0 else -1, last):  # a string may end in half a terminator
            if at >= 0 and _UNFINISHED.match(data, at):
                return at
        return len(data) - data.endswith(b"\xc2")

    def _swallow(self, data: bytes) -> bytes:
        found = _STRING_END.search(data)
        if not found:
            return b""
        if found[0] == b"\x1b" and found.end() == len(data):
            self._held = b"\x1b"
            return b""
        self._swallowing = False
        return data[found.start() :] if found[0] == b"\x1b" else data[found.end() :]
