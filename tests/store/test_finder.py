"""The finder finds what a search for each value and each shape at each place finds, for any cutting."""

import itertools
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ostler.store.finder import LONGEST, Finder, Spans
from ostler.store.scan import Scan
from ostler.store.tokens import TOKENS, WORD, TokenShape

KNOWN = ("correct-horse-battery", "horse-battery-staple", "aaaaaaaaaaaab", "my-sk-secret-word", "a\\nb" * 4)
SCAN = Scan(KNOWN, str)
FRAGMENTS = [
    *KNOWN,
    "correct-horse-",
    "aaaaaaaa",
    "sk-ant-",
    "sk-",
    "sk-ant-abcdefghij0123456",
    "sk-abc-def-ghi-jkl-mno-pqr-1",
    "sk-0123456789abcdef0123",
    "ghp_" + "a1" * 15,
    "AKIAIOSFODNN7EXAMPLE",
    "AKIAABCDEFGHIJKLMNOPQRST",
    "xoxb-123456789012",
    "Bearer ",
    "bearer \t",
    "abcdef.ghijkl~0123",
    "eyJhbGciOiJ",
    ".eyJzdWIiOiI",
    ".dozjgNryP4J",
    "-----BEGIN ",
    "RSA PRIVATE KEY",
    "-----",
    "-----BEGIN PRIVATE KEY-----\\n",
    "MIIE" * 11,
    "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A\n",
    "s",
    "\\n",
    "\n",
    " ",
    ".",
    "x",
    "ü",
]


def pattern(token: TokenShape) -> str:
    """The shape as one regular expression that tries everything, with the secret in it as its group."""
    pieces = ["(?:" + "|".join(map(re.escape, token.starts)) + ")"]
    for part in token.parts:
        if isinstance(part, str):
            pieces.append(re.escape(part))
            continue
        needs = "".join(f"(?=[{part.chars}]*?{need.pattern})" for need in part.needs)
        pieces.append(f"{needs}[{part.chars}]{{{part.least},{'' if part.most is None else part.most}}}+")
    apart = rf"(?:(?<![{WORD}])|(?<=\\[nrt]))" if token.apart else ""
    return apart + "".join(pieces[: token.kept]) + "(" + "".join(pieces[token.kept :]) + ")"


PATTERNS = [re.compile(pattern(token), re.ASCII) for token in TOKENS]


def expected(text: str) -> list[tuple[int, int]]:
    spans = {(at, at + len(value)) for value in KNOWN for at in range(len(text)) if text.startswith(value, at)}
    for shape, at in itertools.product(PATTERNS, range(len(text))):
        if found := shape.match(text, at):
            spans.add(found.span(1))
    hidden = [any(a <= at < b for a, b in spans) for at in range(len(text))]
    return [(at, at + 1) for at, secret in enumerate(hidden) if secret]


def units(spans: Spans) -> list[tuple[int, int]]:
    found = []
    while spans:
        found += [(at, at + 1) for at in range(*spans.first)]
        spans.drop_first()
    return found


@settings(max_examples=400, deadline=None)
@example("eyJhbGciOiJ.eyJzdWIiOiI.eyJzdWIiOiI.dozjgNryP4J", 100)
@example("-----BEGIN PRIVATE KEY-----\n" + "MIIE" * 11 + "\nsk-ant-abcdefghij0123456", 7)
@example("x\\nsk-ant-abcdefghij0123456", 3)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=9).map("".join), st.integers(1, 60))
def test_it_finds_what_a_search_at_each_place_finds(text: str, size: int) -> None:
    finder = Finder(SCAN, "")
    for at in range(0, len(text), size):
        finder.feed(text[at : at + size])
    assert finder.end == len(text)
    assert units(finder.spans) == expected(text)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join), st.integers(0, 200), st.data())
def test_what_is_decided_stays_whatever_follows(text: str, cut: int, data: st.DataObject) -> None:
    text, rest = text[:cut], text[cut:] + data.draw(st.sampled_from(FRAGMENTS))
    finder = Finder(SCAN, "")
    finder.feed(text)
    decided = finder.decided
    before = [span for span in expected(text) if span[0] < decided]
    assert before == [span for span in expected(text + rest) if span[0] < decided]
    if finder.idle:
        assert decided == len(text)


def test_what_is_no_token_after_so_many_units_is_none() -> None:
    for size in (1 << 20, 1000):
        for digit, found in ((LONGEST - 4, True), (LONGEST, False)):
            text = "sk-" + "a" * (digit - 3) + "1" + "a" * 100 + " "
            finder = Finder(SCAN, "")
            for at in range(0, len(text), size):
                finder.feed(text[at : at + size])
            assert bool(finder.spans) == found
            assert finder.idle


def test_a_certain_token_may_be_of_any_length() -> None:
    finder = Finder(SCAN, "")
    finder.feed("sk-ant-" + "a1" * 50)
    for _ in range(100):
        finder.feed("b" * 1000)
        assert finder.decided == finder.end  # nothing has to be held back
    finder.feed(" ")
    assert finder.spans.first == (0, 100_107)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)).map(lambda given: (given[0], sum(given)))))
def test_spans_are_in_order_and_one_where_they_overlap(given_spans: list[tuple[int, int]]) -> None:
    spans = Spans()
    for first, last in given_spans:
        spans.add(first, last)
    found = []
    while spans:
        found.append(spans.first)
        spans.drop_first()
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(found))
    covered = {at for first, last in given_spans for at in range(first, last)}
    assert {at for first, last in found for at in range(first, last)} == covered
