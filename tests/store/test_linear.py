"""Redaction costs the same for each unit of a text, whatever the text is and however it arrives. Work is counted:

- each call that ostler/store makes or gets,
- each unit that a regular expression is applied to (up to where it matched, or the whole rest),
- each unit that is copied, compared or searched by an operation of str or bytes.

A regular expression may itself work more than that. None of these can: each is one class repeated with nothing
after it, or of a bounded width, and a test proves it.
"""

import contextlib
import cProfile
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ostler.store
from ostler.model import AnyEvent, Raw, Text, TextDelta, ToolStarted
from ostler.store import finder, records
from ostler.store.redact import Redactor, _starred
from ostler.store.scan import Scan
from ostler.store.stream import Stream
from ostler.store.tokens import TOKENS, Run, TokenShape

HERE = str(Path(ostler.store.__file__).parent)


class Work:
    done = 0


class CountedPattern:
    """A compiled pattern that counts what it is applied to."""

    def __init__(self, pattern: Any) -> None:
        self.pattern = pattern

    def search(self, text: Any, at: int = 0, end: int = sys.maxsize) -> Any:
        return self._counted(self.pattern.search(text, at, end), at, min(end, len(text)))

    def match(self, text: Any, at: int = 0, end: int = sys.maxsize) -> Any:
        return self._counted(self.pattern.match(text, at, end), at, min(end, len(text)))

    def _counted(self, match: Any, at: int, end: int) -> Any:
        Work.done += max(0, (match.end() if match else end) - at) + 1
        return match


class CountedText(bytes):
    """Bytes that count what is copied from them and looked for in them."""

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(found, int):
            Work.done += 1
            return found
        Work.done += len(found)
        return CountedText(found)

    def __contains__(self, part: Any) -> bool:
        Work.done += len(self)
        return super().__contains__(part)

    def __add__(self, other: Any) -> "CountedText":
        Work.done += len(self) + len(other)
        return CountedText(super().__add__(other))

    def __radd__(self, other: Any) -> "CountedText":
        Work.done += len(self) + len(other)
        return CountedText(other.__add__(bytes(self)))

    def startswith(self, *given: Any) -> bool:
        Work.done += len(given[0])
        return super().startswith(*given)

    def __hash__(self) -> int:
        Work.done += len(self) + 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Work.done += len(self) + 1
        return super().__eq__(other)


class CountedScan(Scan[bytes]):
    patterns: list[Any]

    def _compile(self, text: bytes) -> Any:
        pattern = re.compile(text, re.ASCII)
        self.__dict__.setdefault("patterns", []).append(pattern)
        return CountedPattern(pattern)


class CountedPairs:
    """The pattern of records, whose strings count what is done with them."""

    def __init__(self, pattern: "re.Pattern[bytes]") -> None:
        self._pattern = pattern

    def finditer(self, text: bytes) -> "Iterator[CountedPair]":
        Work.done += len(text)
        return map(CountedPair, self._pattern.finditer(text))


class CountedPair:
    def __init__(self, match: "re.Match[bytes]") -> None:
        self._match = match

    def __getitem__(self, number: int) -> CountedText | None:
        found = self._match[number]
        return None if found is None else CountedText(found)

    def span(self, number: int) -> tuple[int, int]:
        return self._match.span(number)


@contextlib.contextmanager
def counting() -> Iterator[None]:
    """No loop of ostler/store goes round without a call: they are added to what the others counted."""
    Work.done = 0
    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        Work.done += sum(map(calls, profile.getstats()))


def calls(entry: Any) -> int:
    """Those of a function in ostler/store, and those that it makes of functions in C."""
    if isinstance(entry.code, str) or not entry.code.co_filename.startswith(HERE):
        return 0
    return int(entry.callcount + sum(each.callcount for each in entry.calls or () if isinstance(each.code, str)))


def work(scan: CountedScan, text: str, size: int) -> int:
    """What it takes to redact the text in pieces of a size."""
    data = CountedText(text.encode())
    pieces = [CountedText(bytes(data)[at : at + size]) for at in range(0, len(data), size)]
    scan.automaton  # built once for all texts  # noqa: B018
    stream = Stream(scan, _starred)
    with counting():
        shown = [stream.feed(piece) for piece in pieces]
        shown.append(stream.close())
    assert sum(map(len, shown)) == len(data)
    return Work.done


def provisional_work(scan: CountedScan, text: str, size: int) -> int:
    """The same for someone who wants to see after each piece what is new in what is held back, as a terminal does."""
    data = CountedText(text.encode())
    scan.automaton  # noqa: B018
    stream, ahead, seen = Stream(scan, _starred), 0, 0
    with counting():
        for at in range(0, len(data), size):
            decided = len(stream.feed(CountedText(bytes(data)[at : at + size])))
            ahead = max(0, ahead - decided)
            shown = len(stream.provisional(ahead, whole=False))
            ahead += shown
            seen += shown
        stream.close()
    assert seen or stream.idle
    return Work.done


def record_work(scan: CountedScan, lines: list[bytes]) -> int:
    """What it takes to mask records; each is one feed."""
    redactor = Redactor()
    redactor._bytes = scan
    scan.automaton  # noqa: B018
    masker = redactor.record_masker()
    with counting():
        shown = [masker.feed(CountedText(line)) for line in lines]
        shown.append(masker.close())
    assert sum(map(len, shown)) == sum(map(len, lines))
    return Work.done


def event_work(events: list[AnyEvent]) -> int:
    """What it takes to clean events, by calls and by what patterns look at."""
    redactor = Redactor()
    redactor._str = CountedScan(["correct-horse-battery"], str)
    redactor._bytes = CountedScan(["correct-horse-battery"], lambda text: text.encode("latin-1"))
    redactor._str.automaton  # noqa: B018
    with counting():
        shown = [each for event in events for each in redactor.event(event)] + redactor.flush()
    assert shown
    return Work.done


# -- texts ------------------------------------------------------------------------------------------


def units_of(run: Run, count: int) -> str:
    """So many units of a run that do not meet its needs, if there are such."""
    return next(letter for letter in "aA \\" if re.fullmatch(f"[{run.chars}]", letter)) * count


def almost(token: TokenShape) -> Iterator[str]:
    """The token up to each of its parts, and of that all but the end of a literal, or a run far too long."""
    text = token.starts[0]
    yield text
    for part in token.parts:
        if isinstance(part, str):
            yield text + part[:-1]
            text += part
        else:
            yield text + units_of(part, 120)
            literal = "".join(need.pattern for need in part.needs if " " in need.pattern)
            text += literal or units_of(part, part.least or 1)
    yield text


def shapes(token: TokenShape) -> list[str]:
    """Each repeated gives a text; with nothing between, with what ends a run, with what begins a word anew."""
    return sorted({text + end for text in almost(token) for end in ("", "\\n")})


KNOWN = {
    "one letter": (["x" * 40], "x"),
    "a long one of one letter": (["x" * 3000], "x"),
    "all but the last letter": (["x" * 2999 + "y"], "x"),
    "two letters": (["xy" * 300], "xy"),
    "nearly": (["x" * 30 + "y"], "x" * 30 + "z"),
    "each a beginning of the next": (["x" * n for n in range(12, 200)], "x"),
    "each an end of the next": (["x" * n + "y" * 12 for n in range(12, 200)], "x" * 199 + "y" * 11),
    "one within the other": ([("a" * 12 + "b") * 200 + "z", "a" * 12], "a" * 12 + "b"),
    "many": ([f"secret-number-{n:06}" for n in range(1000)], "secret-number-0009"),
    "many that begin alike": ([f"secret-number-{n:06}" for n in range(1000)], "secret-number-"),
    "many, none there": ([f"secret-number-{n:06}" for n in range(1000)], "the quick brown fox "),
    "with a token in it": (["sk-ant-" + "a" * 30, "aaaaaaaaaaaab"], "sk-ant-aaaaa"),
    "a key and a value": (["eyJaaaaaaaaaaaaaaaaaaaaa"], "eyJaaaaaaaaa.eyJaaaaaaaaa."),
}
SIZES = {"whole": (1 << 20, (300, 1200)), "by units": (1, (60, 240)), "by sevens": (7, (200, 800))}
FEED = 1000  # what a feed may cost by itself
UNIT = 100


def assert_linear(scan: CountedScan, piece: str, how: str) -> None:
    size, (small, large) = SIZES[how]
    less, more = piece * (small // len(piece) + 1), piece * (large // len(piece) + 1)
    each = [work(scan, text, size) / len(text) for text in (less, more)]
    assert each[1] <= 1.25 * each[0] + 5, f"{piece[:80]!r} costs {each} for each unit"
    assert each[1] < FEED / min(size, large) + UNIT, f"{piece[:80]!r} costs {each} for each unit"


@pytest.fixture(scope="module")
def plain() -> CountedScan:
    return CountedScan(["correct-horse-battery"], lambda text: text.encode("latin-1"))


@pytest.mark.parametrize("how", ["whole", "by units"])
@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token.starts[0])
def test_every_shape_costs_linear_work(plain: CountedScan, token: TokenShape, how: str) -> None:
    for text in shapes(token):
        assert_linear(plain, text, how)


@pytest.mark.parametrize("how", SIZES)
@pytest.mark.parametrize("case", KNOWN)
def test_known_values_cost_linear_work(case: str, how: str) -> None:
    values, piece = KNOWN[case]
    assert_linear(CountedScan(values, lambda text: text.encode("latin-1")), piece, how)


@pytest.mark.parametrize("how", SIZES)
@pytest.mark.parametrize(
    "piece",
    [
        "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----",
        "PRIVATE KEY",
        "-",
        "\\n",
        " ",
        "ü",
        "the quick brown fox jumps over it\n",
    ],
)
def test_other_texts_cost_linear_work(plain: CountedScan, piece: str, how: str) -> None:
    assert_linear(plain, piece, how)


@pytest.mark.parametrize("how", ["whole", "by sevens"])
@pytest.mark.parametrize("piece", ["-----BEGIN PRIVATE KEY-----\n", "sk-", "eyJaaaaaaaaa.", "x"])
def test_work_stays_linear_beyond_every_bound(
    plain: CountedScan, piece: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window ends, the longest token too, and what is seen of what is held back grows."""
    window, longest = finder._WINDOW // 4, finder.LONGEST // 4  # as they are to each other
    monkeypatch.setattr(finder, "_WINDOW", window)
    monkeypatch.setattr(finder, "LONGEST", longest)
    size = SIZES[how][0]
    texts = [piece * (length // len(piece)) for length in (window // 2, longest + window)]
    for count in (work, provisional_work):
        each = [count(plain, text, size) / len(text) for text in texts]
        assert each[1] <= 1.25 * each[0] + 5, f"{piece!r} costs {each} for each unit"


def a_record(count: int, *, same: bytes = b"", strings: bytes = b"", end: bytes = b"") -> bytes:
    return b'{"type":"delta",' + same * count + strings * count + end + b'"z":1}\n'


RECORDS = {
    "one with much in common and many strings": lambda n: [a_record(n, same=b'"type":1,', strings=b'"a":"sk-",')] * 2,
    "many strings of many names": lambda n: [
        b'{"type":"delta",' + b"".join(b'"a%d":"sk-",' % each for each in range(n)) + b'"z":1}\n'
    ],
    "a key in many records": lambda n: [b'{"type":"delta","a":"-----BEGIN PRIVATE KEY-----"}\n'] * n,
    "much in common in many records": lambda n: [a_record(4, same=b'"type":"%d",' % (each % 7)) for each in range(n)],
    "a long string": lambda n: [a_record(1, strings=b'"a":"' + b"sk-" * n + b'",')],
    "many texts that all go on": lambda n: [
        b'{"type":"delta","index":%d,"a":"-----BEGIN PRIVATE KEY-----"}\n' % (each % 450) for each in range(n)
    ],
    "no records": lambda n: [b"delta chunk\n"] * n,
}


@pytest.mark.parametrize("case", RECORDS)
def test_records_cost_linear_work(plain: CountedScan, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_PAIRS", CountedPairs(records._PAIRS))
    batches = [RECORDS[case](count) for count in (50, 800)]
    each = [record_work(plain, lines) / sum(map(len, lines)) for lines in batches]
    assert each[1] <= 1.25 * each[0] + 5, f"{case} costs {each} for each byte"


EVENTS = {
    "deltas of one text": lambda n: [TextDelta(text="-----BEGIN PRIVATE KEY-----", id="1")] * n,
    "deltas of many texts": lambda n: [TextDelta(text="sk-", id=str(each)) for each in range(n)],
    "a long text": lambda n: [Text(text="-----BEGIN PRIVATE KEY-----\n" * n)],
    "a tool with many values": lambda n: [ToolStarted(id="1", name="x", input={"k": ["sk-ant-"] * n})],
    "a tool with many names": lambda n: [
        ToolStarted(id="1", name="x", input={f"sk-ant-{each}": each for each in range(n)})
    ],
    "a raw line": lambda n: [Raw(line="eyJaaaaaaaaa." * n)],
}


@pytest.mark.parametrize("case", EVENTS)
def test_events_cost_linear_work(case: str) -> None:
    each = [event_work(EVENTS[case](count)) / count for count in (100, 1000)]
    assert each[1] <= 1.25 * each[0] + 20, f"{case} costs {each} for each part"


def test_no_pattern_can_work_more_than_is_counted(plain: CountedScan) -> None:
    work(plain, "".join(text for token in TOKENS for text in shapes(token)), 5000)
    assert len(plain.patterns) > len(TOKENS)
    for pattern in plain.patterns:
        text = pattern.pattern.decode()
        repeated = re.fullmatch(r"\[[^\]]*\]\*", text)
        bounded = not re.search(r"(?<!\\)[*+]|,\}", text)
        assert repeated or bounded, text


def test_the_count_sees_work_that_is_not_linear() -> None:
    def quadratic(feed: Callable[[bytes], bytes], text: bytes) -> int:
        Work.done = 0
        held = CountedText()
        for at in range(len(text)):
            held = held + text[at : at + 1]
            feed(held)
        return Work.done

    pattern = CountedPattern(re.compile(b"x*"))
    assert quadratic(lambda held: pattern.match(held)[0], b"x" * 400) > 12 * quadratic(
        lambda held: pattern.match(held)[0], b"x" * 100
    )
