"""The bytes of a terminal: append-only, with absolute offsets, the newest `limit` of them kept."""

import codecs
import re

from ostler.errors import OstlerError

LIMIT = 1 << 20
LOOK = 4096  # how far from a cut the beginning or end of an escape sequence is looked for

_SEQUENCE = (
    rb"\x1b(?:"
    rb"\[[0-?]*[ -/]*[@-~]"  # CSI
    rb"|\][^\x07\x18\x1a\x1b]*(?:[\x07\x18\x1a]|\x1b\\)"  # OSC
    rb"|[PX^_][^\x18\x1a\x1b]*(?:[\x18\x1a]|\x1b\\)"  # DCS, SOS, PM, APC
    rb"|[ -/]*[0-OQ-WYZ\\`-~]"  # all others
    rb")"
)


class ByteLog:
    """A ring that grows with what it holds. An offset counts from the first byte ever appended."""

    def __init__(self, limit: int = LIMIT) -> None:
        if limit < 1:
            raise OstlerError("bad_request", f"a log of {limit} bytes keeps nothing")
        self.limit = limit
        self.end = 0
        self._forgotten = 0
        self._size = limit + LOOK  # what lies just before `start` tells where a cut is clean
        self._ring = bytearray()

    @property
    def start(self) -> int:
        """The offset of the oldest byte that can still be read."""
        return max(self._forgotten, self.end - self.limit)

    def append(self, data: bytes) -> int:
        """The new end offset. Of more than fits, the newest bytes are kept."""
        self._grow(min(self.end + len(data), self._size))
        kept = memoryview(data)[-self._size :]
        at = (self.end + len(data) - len(kept)) % self._size
        first = kept[: self._size - at]
        rest = kept[len(first) :]
        self._ring[at : at + len(first)] = first
        self._ring[: len(rest)] = rest
        self.end += len(data)
        return self.end

    def read(self, offset: int, limit: int | None = None) -> tuple[int, bytes]:
        """Up to `limit` bytes from `offset`, and where they begin.

        An offset within the log is taken as it is: the reader knows what came before. One that lies
        before `start` is moved to the first clean cut, one past the end to the end.
        """
        if offset < self.start:
            offset = self.cut(self.start)
        offset = min(max(offset, 0), self.end)
        stop = self.end if limit is None else min(self.end, offset + max(0, limit))
        return offset, self._slice(offset, stop)

    def cut(self, offset: int) -> int:
        """The first offset from here on that is within no escape sequence and no character.

        A sequence longer than `LOOK` is not recognised; then only the character counts.
        """
        offset = min(max(offset, self.start), self.end)
        oldest = max(self._forgotten, self.end - self._size, offset - LOOK)
        around = self._slice(oldest, min(self.end, offset + LOOK))
        at = offset - oldest
        opening = around.rfind(b"\x1b", 0, at)
        found = re.compile(_SEQUENCE).match(around, opening) if opening >= 0 else None
        if found and found.end() > at:
            return oldest + found.end()
        return oldest + whole_character(around, at)

    def tail_text(self, limit: int | None = None, *, more: bool = False) -> tuple[str, bool]:
        """The last text, at most `limit` bytes of UTF-8, and whether something before it was cut.

        Line ends are `\\n`, invalid bytes U+FFFD. With `more` to come, half a character at the end waits.
        """
        begin, data = self.read(0)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data, final=not more).replace("\r\n", "\n")
        whole = text.encode()
        if limit is not None and limit <= 0:
            return "", True
        if limit is None or len(whole) <= limit:
            return text, begin > 0
        return whole[whole_character(whole, len(whole) - limit) :].decode(), True

    def forget(self) -> None:
        """Lets go of all bytes; offsets go on."""
        self._forgotten = self.end
        self._ring = bytearray()

    def _grow(self, need: int) -> None:
        """By doubling, but never over what the ring may hold."""
        if need > len(self._ring):
            grown = bytearray(min(self._size, max(need, 2 * len(self._ring))))
            grown[: len(self._ring)] = self._ring
            self._ring = grown

    def _slice(self, start: int, stop: int) -> bytes:
        length = stop - start
        at = start % self._size
        first = bytes(memoryview(self._ring)[at : at + length])
        return first + self._ring[: length - len(first)]


def whole_character(data: bytes, at: int) -> int:
    """The index from `at` on where a character of UTF-8 begins; at most three bytes are passed over."""
    for index in range(at, min(at + 3, len(data))):
        if data[index] & 0xC0 != 0x80:
            return index
    return min(at + 3, len(data))


def unfinished(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character of UTF-8 that is not complete."""
    for count in range(1, min(3, len(data)) + 1):
        byte = data[-count]
        if byte >= 0xC2:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4 if byte < 0xF5 else 0
            return count if count < length else 0
        if byte < 0x80:
            return 0
    return 0
