"""Where secrets stand in a text: values that are known, and tokens known by their shape.

Works alike on str and bytes, and on a text that is still arriving.
"""

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import AnyStr, Generic, NamedTuple

from ostler.store.tokens import TOKENS, beginnings, unfinished, whole

_FRONT = 6  # this much of a known value asks for a closer look
_LONGEST = 16_384  # a text that may yet become a token is held back up to here: none is longer
_COMMON = " etaoinsrhldcumfpgwybvk0123456789x-_"  # letters of texts and programs, the most frequent first
_SMALL = 256  # below it one regular expression is quicker than a search for each word


class Find(NamedTuple):
    """`start` to `end` was found, `hidden` to `end` is the secret in it."""

    start: int
    hidden: int
    end: int


class Scan(Generic[AnyStr]):
    """Finds known values and tokens in texts of one type. `to` brings a str to that type, unit by unit."""

    def __init__(self, values: Iterable[str], to: Callable[[str], AnyStr]) -> None:
        known = sorted(set(values))
        self._to: Callable[[str], AnyStr] = to
        self.empty: AnyStr = to("")
        self._known: list[AnyStr] = [to(value) for value in known]
        starts = {start for token in TOKENS for start in token.starts}
        fronts = {value[:_FRONT] for value in known}
        insides = {_inside(value) for value in known}
        self._fronts: list[tuple[AnyStr, list[AnyStr]]] = _by_rarest(_fewest(starts | fronts), to)
        self._insides: list[AnyStr] = [to(word) for word in _fewest(starts | insides)]
        self._tail = max(len(word) for word in starts | fronts)
        cut = beginnings(fronts, tail=True) + beginnings(starts, tail=True, apart=True)
        self._stream: re.Pattern[AnyStr] = _regex("|".join(cut), to)
        self._text: re.Pattern[AnyStr] = _regex("|".join(beginnings(insides | starts, tail=False)), to)

    @cached_property  # compiling takes 10 ms, and most turns never come close to a secret
    def _whole(self) -> list[tuple[list[AnyStr], re.Pattern[AnyStr]]]:
        return [([self._to(start) for start in t.starts], _regex(whole(t), self._to)) for t in TOKENS]

    @cached_property
    def _unfinished(self) -> list[re.Pattern[AnyStr]]:
        return [_regex(unfinished(token), self._to) for token in TOKENS]

    def may_hold(self, text: AnyStr) -> bool:
        """Quick: False if no secret can stand in the text, also if it is JSON that quotes one."""
        if len(text) < _SMALL:
            return self._text.search(text) is not None
        return any(word in text for word in self._insides)

    def first(self, text: AnyStr, start: int) -> re.Match[AnyStr] | int | None:
        """Quick: where a secret may begin, for all that is known yet: a match, or a place, or None for nowhere."""
        if len(text) < _SMALL:
            return self._stream.search(text, start)
        if any(rare in text and any(word in text for word in words) for rare, words in self._fronts):
            return start
        return self._stream.search(text, max(start, len(text) - self._tail))

    def finds(self, text: AnyStr, start: int = 0) -> list[Find]:
        """Every secret that begins at `start` or later, by place; they may overlap."""
        found = [Find(at, at, at + len(value)) for value in self._known for at in _places(value, text, start)]
        for starts, shape in self._whole:
            if any(word in text for word in starts):
                found += [Find(m.start(), m.start(1), m.end()) for m in shape.finditer(text, start)]
        return sorted(found)

    def decided(self, text: AnyStr, start: int) -> tuple[list[Find], int]:
        """What is found, and up to where, whatever text may follow."""
        found = self.finds(text, start)
        end = min(self._known_tail(text, start), self._token_tail(text, start))
        while crossing := [find.start for find in found if find.start < end < find.end]:
            end = min(crossing)
        return [find for find in found if find.end <= end], end

    def _known_tail(self, text: AnyStr, start: int) -> int:
        """Where a known value begins that the text breaks off, or its end."""
        places = [len(text)]
        for value in self._known:
            at = text.find(value[:1], max(start, len(text) - len(value) + 1))
            while at >= 0 and not value.startswith(text[at:]):
                at = text.find(value[:1], at + 1)
            if at >= 0:
                places.append(at)
        return min(places)

    def _token_tail(self, text: AnyStr, start: int) -> int:
        found = (shape.search(text, start) for shape in self._unfinished)
        end = min((match.start() for match in found if match), default=len(text))
        return end if len(text) - end <= _LONGEST else len(text)


class Stream(Generic[AnyStr]):
    """A text that arrives in pieces. What comes out is the same however it was cut."""

    def __init__(self, scan: Scan[AnyStr], hide: Callable[[AnyStr], AnyStr]) -> None:
        self._scan: Scan[AnyStr] = scan
        self._hide: Callable[[AnyStr], AnyStr] = hide
        self._before: AnyStr = scan.empty  # two letters of what was shown: a token must stand apart
        self._held: AnyStr = scan.empty

    def feed(self, piece: AnyStr) -> AnyStr:
        """What can be shown by now."""
        text = self._before + self._held + piece
        start = len(self._before)
        at = self._scan.first(text, start)
        if at is None:
            shown = text[start:] if self._held else piece
            return self._keep(text, len(text), shown)
        if not isinstance(at, int) and at.end() == len(text):
            # The text ends within the first letters of what may be a secret: all before them is clean.
            return self._keep(text, at.start(), text[start : at.start()])
        found, end = self._scan.decided(text, start)
        return self._keep(text, end, hidden(text[:end], found, self._hide, start))

    def close(self) -> AnyStr:
        """What was held back; no more follows."""
        text, start = self._before + self._held, len(self._before)
        self._held = text[:0]
        return hidden(text, self._scan.finds(text, start), self._hide, start)

    def _keep(self, text: AnyStr, end: int, shown: AnyStr) -> AnyStr:
        self._held = text[end:]
        self._before = text[max(0, end - 2) : end]
        return shown


def hidden(text: AnyStr, found: list[Find], hide: Callable[[AnyStr], AnyStr], start: int = 0) -> AnyStr:
    """The text from `start` on with each secret replaced; finds that overlap are one."""
    parts: list[AnyStr] = []
    at = start
    for first, last in _merged(found):
        parts += [text[at:first], hide(text[first:last])]
        at = last
    parts.append(text[at:])
    return text[:0].join(parts)


def _merged(found: list[Find]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for first, last in sorted((find.hidden, find.end) for find in found):
        if spans and first < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], last))
        else:
            spans.append((first, last))
    return spans


def _places(value: AnyStr, text: AnyStr, start: int) -> Iterable[int]:
    at = text.find(value, start)
    while at >= 0:
        yield at
        at = text.find(value, at + 1)


def _inside(value: str) -> str:
    """The beginning of the longest part of a value that JSON writes as it is."""
    runs = re.findall(r'[^"\\\x00-\x1f\x7f]+', value)
    return max(runs, key=len, default=value[:1])[:8]


def _fewest(words: set[str]) -> list[str]:
    """Without those that contain another one."""
    return sorted(word for word in words if not any(other in word for other in words if other != word))


def _by_rarest(words: list[str], to: Callable[[str], AnyStr]) -> list[tuple[AnyStr, list[AnyStr]]]:
    """By their rarest letter: looking for one letter takes a twentieth of looking for a word."""
    groups: dict[str, list[AnyStr]] = {}
    for word in words:
        groups.setdefault(max(word, key=lambda letter: (_COMMON + letter).index(letter)), []).append(to(word))
    return [(to(letter), group) for letter, group in groups.items()]


def _regex(text: str, to: Callable[[str], AnyStr]) -> re.Pattern[AnyStr]:
    return re.compile(to(text), re.ASCII)
