"""Masks what agents write on stdout: records, one JSON object a line, some of which hold a piece of a longer text.

A key that is streamed stands in no single record, but whoever joins the pieces has it. So the strings that continue
each other are masked as one stream, at equal length, in the bytes as they came: the JSON of two strings joined is the
JSON of the one followed by that of the other.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

HELD = 64 * 1024  # bytes of records that wait for what follows; beyond it a third of what may be a secret is written
LINE = 256 * 1024  # a longer record is no piece of a text
TEXTS = 1000  # that may be going on at a time

_DELTA, _CHUNK = b"elta", b"hunk"  # each record that is known to hold a piece has one of these words in it
# A name and the string or other scalar that it has. Within a string its quotes are escaped, so it is none of these.
_PAIRS = re.compile(rb'"(\w++)"\s*+:\s*+(?:"((?:[^"\\]++|\\.)*+)"|([-+.\w]++))', re.S)
_SAME = frozenset(  # what all pieces of one text have in common
    b"type subtype kind role method sessionUpdate index itemId item_id messageId message_id reasoningId agentId"
    b" toolCallId tool_call_id parent_tool_use_id sessionId session_id threadId turnId terminalId terminal_id".split()
)
_OWN = frozenset(b"id uuid parentId timestamp".split())  # what each record has for itself


class StreamMasker(Protocol):
    """A Masker."""

    @property
    def idle(self) -> bool: ...
    def feed(self, data: bytes) -> bytes: ...
    def provisional(self, skip: int = 0, whole: bool = False) -> bytes: ...
    def close(self) -> bytes: ...


class RecordMasker:
    """What is fed comes out in order, at equal length, as soon as it is decided what has to be masked in it."""

    def __init__(self, masker: Callable[[], StreamMasker], may_begin: Callable[[bytes], object]) -> None:
        """`may_begin` says quickly whether the beginning of a secret may end a string of the record."""
        self._masker, self._may_begin = masker, may_begin
        self._begun: list[bytes] = []  # a record without its end
        self._begun_size = 0
        self._passing = False  # within a line that is no record
        self._waiting: deque[RecordLine] = deque()
        self._size = 0  # of all that wait
        # Those of which more may follow: by what their records have in common, then by their name in it. Each record
        # is looked up once: what records have in common may be as long as they are, and they may hold many strings.
        self._texts: dict[tuple[bytes, ...], dict[bytes, JoinedText]] = {}
        self._going_on = 0  # how many those are

    def feed(self, data: bytes) -> bytes:
        end = data.rfind(b"\n") + 1
        if end:
            whole = b"".join([*self._begun, data[:end]])
            self._begun, self._begun_size = [], 0
            self._take(whole)
        self._begin(data[end:])
        if self._size > HELD:
            self._give_up()
        return self._decided()

    def close(self) -> bytes:
        """What was held back; no more follows."""
        for text in self._all_texts():
            text.fill(text.masker.close())
        self._texts.clear()
        self._going_on = 0
        self._wait(RecordLine(b"".join(self._begun)))
        self._begun, self._begun_size = [], 0
        return self._decided()

    def _take(self, lines: bytes) -> None:
        if self._passing:
            end = lines.index(b"\n") + 1
            self._wait(RecordLine(lines[:end]))
            self._passing, lines = False, lines[end:]
        if not (_DELTA in lines or _CHUNK in lines):
            self._wait(RecordLine(lines))
            return
        plain: list[bytes] = []
        for line in lines.split(b"\n")[:-1]:
            if (_DELTA in line or _CHUNK in line) and (self._texts or self._may_begin(line)) and len(line) <= LINE:
                self._wait(RecordLine(b"".join(plain)))
                plain = []
                self._read(RecordLine(line + b"\n"))
            else:
                plain += line, b"\n"
        self._wait(RecordLine(b"".join(plain)))

    def _begin(self, data: bytes) -> None:
        """The beginning of a line, or more of it. What is no record, or a very long one, does not have to wait."""
        if not data:
            return
        if not self._passing and (self._begun or data.startswith(b"{")):
            self._begun.append(data)
            self._begun_size += len(data)
            if self._begun_size <= LINE:
                return
            data = b"".join(self._begun)
            self._begun, self._begun_size = [], 0
        self._passing = True
        self._wait(RecordLine(data))

    def _read(self, record: "RecordLine") -> None:
        self._wait(record)
        found = texts(bytes(record.data), self._concerns)
        if not found.places:
            return
        named = self._texts.pop(found.common, {})
        before = len(named)
        for name, start, end in found.places:
            text = named.get(name) or JoinedText(self._masker())
            text.add(record, start, end)
            if text.masker.idle:
                named.pop(name, None)
            elif name in named or self._going_on - before + len(named) < TEXTS:
                named[name] = text
            else:
                text.fill(text.masker.close())
        self._going_on += len(named) - before
        if named:
            self._texts[found.common] = named

    def _concerns(self, string: bytes) -> object:
        return self._texts or self._may_begin(string)

    def _wait(self, record: "RecordLine") -> None:
        if record.data:
            self._waiting.append(record)
            self._size += len(record.data)

    def _decided(self) -> bytes:
        ready = []
        while self._waiting and not self._waiting[0].undecided:
            ready.append(self._waiting.popleft().data)
            self._size -= len(ready[-1])
        return b"".join(ready)

    def _give_up(self) -> None:
        """Nothing waits any longer; the texts still go on."""
        for text in self._all_texts():
            text.show()

    def _all_texts(self) -> Iterator["JoinedText"]:
        return (text for named in self._texts.values() for text in named.values())


class RecordLine:
    """A line, of which so many bytes are undecided. Once written it does not change."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        self.undecided = 0


class JoinedText:
    """A text whose pieces stand in several records."""

    def __init__(self, masker: StreamMasker) -> None:
        self.masker = masker
        self._shown = 0  # so many bytes of what is not decided were written already
        self._places: deque[tuple[RecordLine, int, int]] = deque()  # of the rest of it

    def add(self, record: RecordLine, start: int, end: int) -> None:
        if start < end:
            self._places.append((record, start, end))
            record.undecided += end - start
            self.fill(self.masker.feed(bytes(record.data[start:end])))

    def fill(self, decided: bytes) -> None:
        at = min(self._shown, len(decided))
        self._shown -= at
        while at < len(decided):
            record, start, end = self._places.popleft()
            stop = min(end, start + len(decided) - at)
            record.data[start:stop] = decided[at : at + stop - start]
            record.undecided -= stop - start
            if stop < end:
                self._places.appendleft((record, stop, end))
            at += stop - start

    def show(self) -> None:
        """Has what is not decided written as it may be seen."""
        if not self._places:
            return
        text = self.masker.provisional(self._shown)
        at = 0
        for record, start, end in self._places:
            record.data[start:end] = text[at : at + end - start]
            record.undecided -= end - start
            at += end - start
        self._places.clear()
        self._shown += at


class Pieces(Struct, frozen=True):
    """The strings of a record that may be pieces of texts: of those whose records have that in common."""

    common: tuple[bytes, ...] = ()
    places: Sequence[tuple[bytes, int, int]] = ()  # the name of the string, and where it stands


def texts(line: bytes, concerns: Callable[[bytes], object]) -> Pieces:
    """Each string of a record that may be a piece of a text.

    `concerns` is asked of each whether it is to be looked at, with its name and its quotes.
    """
    pairs = list(_PAIRS.finditer(line))
    found = [pair for pair in pairs if pair[2] and pair[1] not in _SAME and pair[1] not in _OWN and concerns(pair[0])]
    if not found:
        return Pieces()
    common = tuple(pair[2] or pair[3] or b"" for pair in pairs if pair[1] in _SAME)
    return Pieces(common, [(pair[1], *pair.span(2)) for pair in found])
