"""What is looked for in texts of one type (str or bytes): values that are known, and tokens known by their shape.

Everything here is quick and only says where a closer look is due; finder.py takes it. The patterns are of two kinds:
one class repeated with nothing after it, and words without repetition. Neither has anything to try twice.
"""

import re
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from typing import AnyStr, Generic

from msgspec import Struct

from ostler.store.automaton import Automaton
from ostler.store.tokens import TOKENS, WORD, Run, TokenShape, beginnings

_FRONT = 6  # this much of a known value asks for a closer look
_COMMON = " etaoinsrhldcumfpgwybvk0123456789x-_"  # letters of texts and programs, the most frequent first
_EARLY = 1_000  # texts
_SMALL = 256  # below it one regular expression is quicker than a search for each word
_FEW = 8  # words that a text has are looked for by a pattern of their own
_MANY = 100  # more words than that are looked for by one regular expression in any text


class RunPart(Struct, Generic[AnyStr], frozen=True):
    """A Run, compiled."""

    units: re.Pattern[AnyStr]
    least: int
    most: int | None
    needs: tuple[tuple[re.Pattern[AnyStr], int], ...]


class Shape(Struct, Generic[AnyStr], frozen=True):
    """A Token, compiled. It is certain as soon as part number `last` is: what follows that may be missing.

    `seen`: so much of its secret (after a start that belongs to it) tells nobody anything.
    """

    parts: tuple[AnyStr | RunPart[AnyStr], ...]
    kept: int
    apart: bool
    last: int
    seen: int


Search = Callable[[int], re.Match[AnyStr] | None]


class Scan(Generic[AnyStr]):
    """For one set of known values. `to` brings a str to the type of the texts, unit by unit."""

    def __init__(self, values: Iterable[str], to: Callable[[str], AnyStr]) -> None:
        known = sorted(set(values))
        self._to: Callable[[str], AnyStr] = to
        self.empty: AnyStr = to("")
        self._known: list[AnyStr] = [to(value) for value in known]
        starts = {start for token in TOKENS for start in token.starts}
        apart = {start for token in TOKENS if token.apart for start in token.starts}
        fronts = {value[:_FRONT] for value in known}
        insides = {_inside(value) for value in known}
        self._words: list[tuple[AnyStr, list[AnyStr]]] | None = None  # of many words none is looked for by itself
        if len(starts | fronts) < _MANY:
            words = _fewest(frozenset(starts | fronts))
            self._words = _by_rarest(words, to)
            self._longer: dict[AnyStr, list[AnyStr]] = {
                to(word): [to(other) for other in starts | fronts if word in other] for word in words
            }
            self._insides: list[AnyStr] = [to(word) for word in _fewest(frozenset(starts | insides))]
            self._cuts: set[AnyStr] = {to(word[:end]) for word in starts | fronts for end in range(1, len(word))}
        self._tail = max(len(word) for word in starts | fronts)
        self._begun = fronts | (starts - apart), apart
        self._anywhere = insides | starts
        self._asked = 0

    @cached_property  # takes some milliseconds, and most turns never come close to a secret
    def automaton(self) -> Automaton[Shape[AnyStr]]:
        starts = [(self._to(start), self._shape(token)) for token in TOKENS for start in token.starts]
        return Automaton(self._known, starts)

    # Each of these takes as long to compile as the rest of a small turn: `_is_early` says whether it can wait.
    @cached_property
    def _stream(self) -> re.Pattern[AnyStr]:
        """Finds where a word begins, or at the end of the text a cut one."""
        return self._cut(r"\Z")

    @cached_property
    def _text(self) -> re.Pattern[AnyStr]:
        return self._pattern("|".join(beginnings(self._anywhere)))

    @cached_property
    def after_word(self) -> re.Pattern[AnyStr]:
        """Matches the two units before a start that does not stand apart."""
        return self._pattern(rf"(?!\\[nrt]\Z)[\s\S]?[{WORD}]\Z")

    @cached_property
    def _quoted(self) -> re.Pattern[AnyStr]:
        return self._cut('"')

    def may_begin(self, record: AnyStr) -> bool:
        """Whether the text may hold a secret, or as JSON the beginning of one that ends a string."""
        return self._quoted.search(record) is not None

    def may_hold(self, text: AnyStr) -> bool:
        """Quick: False if no secret can stand in the text, also if it is JSON that quotes one."""
        if (len(text) < _SMALL and not self._is_early()) or self._words is None:
            return self._text.search(text) is not None
        return any(word in text for word in self._insides)

    def first(self, text: AnyStr, start: int) -> re.Match[AnyStr] | int | None:
        """Quick: where a secret may begin, for all that is known yet: a match, or a place, or None for nowhere."""
        early = self._is_early()
        if (len(text) < _SMALL and not early) or self._words is None:
            return self._stream.search(text, start)
        if any(rare in text and any(word in text for word in words) for rare, words in self._words):
            return start
        if early and not any(text[-length:] in self._cuts for length in range(1, min(len(text), self._tail) + 1)):
            return None
        return self._stream.search(text, max(start, len(text) - self._tail))

    def _is_early(self) -> bool:
        """Whether so few texts came until now that looking for each word by itself costs less than compiling."""
        self._asked += self._asked < _EARLY
        return self._asked < _EARLY

    def search(self, text: AnyStr) -> Search[AnyStr]:
        """Where a word begins, or at the end of the text a cut one, from a place on: a function of that place."""
        if len(text) < _SMALL or self._words is None:
            return lambda at: self._stream.search(text, at)
        there = [word for rare, words in self._words if rare in text for word in words if word in text]
        if len(there) > _FEW:
            return lambda at: self._stream.search(text, at)
        end = len(text) - self._tail
        if not there:
            return lambda at: self._stream.search(text, max(at, end))
        all_there = [re.escape(word) for short in there for word in self._longer[short] if word in text]
        few = self._compile(self._to("|").join(all_there))
        return lambda at: few.search(text, at) or self._stream.search(text, max(at, end))

    def _cut(self, tail: str) -> re.Pattern[AnyStr]:
        anywhere, apart = self._begun
        return self._pattern("|".join(beginnings(anywhere, tail=tail) + beginnings(apart, tail=tail, apart=True)))

    def _shape(self, token: TokenShape) -> Shape[AnyStr]:
        parts = tuple(self._run(part) if isinstance(part, Run) else self._to(part) for part in token.parts)
        needed = [number for number, part in enumerate(token.parts) if isinstance(part, str) or part.least]
        return Shape(parts, token.kept, token.apart, needed[-1], _seen(token))

    def _run(self, run: Run) -> RunPart[AnyStr]:
        needs = tuple((self._pattern(need.pattern), need.width) for need in run.needs)
        return RunPart(self._pattern(f"[{run.chars}]*"), run.least, run.most, needs)

    def _pattern(self, text: str) -> re.Pattern[AnyStr]:
        return self._compile(self._to(text))

    def _compile(self, text: AnyStr) -> re.Pattern[AnyStr]:
        return re.compile(text, re.ASCII)


def _seen(token: TokenShape) -> int:
    """The literals that the secret begins with, and a third of the shortest run that follows them."""
    length = 0
    for part in token.parts[max(0, token.kept - 1) :]:
        if isinstance(part, Run):
            return length + part.least // 3
        length += len(part)
    return length


def _inside(value: str) -> str:
    """The beginning of the longest part of a value that JSON writes as it is."""
    runs = re.findall(r'[^"\\\x00-\x1f\x7f]+', value)
    return max(runs, key=len, default=value[:1])[:8]


@lru_cache(maxsize=8)  # the same for texts and for bytes, mostly
def _fewest(words: frozenset[str]) -> list[str]:
    """Without those that contain another one."""
    return sorted(word for word in words if not any(other in word for other in words if other != word))


def _by_rarest(words: list[str], to: Callable[[str], AnyStr]) -> list[tuple[AnyStr, list[AnyStr]]]:
    """By their rarest letter: looking for one letter takes a twentieth of looking for a word."""
    groups: dict[str, list[AnyStr]] = {}
    for word in words:
        groups.setdefault(max(word, key=lambda letter: (_COMMON + letter).index(letter)), []).append(to(word))
    return [(to(letter), group) for letter, group in groups.items()]
