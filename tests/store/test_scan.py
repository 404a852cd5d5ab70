"""The quick looks may be wrong in one way only: a closer look is taken for nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.store.scan import Scan
from ostler.store.tokens import TOKENS

KNOWN = ("correct-horse-battery", 'pass"word\\and so on', "my-sk-secret-word")
PADDING = ("", "plain words " * 50)  # texts of both sizes are looked at in different ways
MANY = [f"secret-number-{n:04}" for n in range(200)]


@pytest.fixture(scope="module", params=["few", "many"])
def scan(request: pytest.FixtureRequest) -> Scan[str]:
    return Scan([*KNOWN, *(MANY if request.param == "many" else [])], str)


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("word", [*KNOWN, *(start for token in TOKENS for start in token.starts)])
def test_nothing_that_may_be_a_secret_is_passed_over(scan: Scan[str], word: str, padding: str) -> None:
    text = f"{padding} ({word}) {padding}"
    at = text.index(word)
    assert scan.may_hold(text)
    assert scan.first(text, 0) is not None
    search = scan.search(text)
    found = []
    place = 0
    while hit := search(place):
        found.append(hit.start())
        place = hit.start() + 1
    assert at in found


@pytest.mark.parametrize("padding", PADDING)
def test_innocent_text_asks_for_no_closer_look(scan: Scan[str], padding: str) -> None:
    text = padding + "nothing to be found here, 42 times. "
    assert not scan.may_hold(text)
    assert scan.first(text, 0) is None
    assert scan.search(text)(0) is None


@settings(deadline=None)
@given(st.sampled_from(KNOWN), st.integers(1, 11), st.sampled_from(PADDING))
def test_a_cut_word_at_the_end_is_seen(word: str, length: int, padding: str) -> None:
    scan = Scan(KNOWN, str)
    text = f"{padding} ({word[:length]}"
    at = scan.first(text, 0)
    assert at is not None
    assert at == 0 or at.start() == len(text) - length  # type: ignore[union-attr]


def test_what_stands_apart() -> None:
    scan = Scan((), str)
    for before in ("", " ", "x ", "\\n", "\\t", "=", '"'):
        assert not scan.after_word.match(before[-2:]), before
    for before in ("a", "xn", " n", "-", "_", "n"):
        assert scan.after_word.match(before[-2:]), before
