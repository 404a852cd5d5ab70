"""The shapes are such that they can be read from left to right, each unit once."""

import itertools
import re

import pytest

from ostler.store.tokens import TOKENS, WORD, Run, TokenShape, beginnings


def has(chars: str, letter: str) -> bool:
    return re.fullmatch(f"[{chars}]", letter, re.ASCII) is not None


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token.starts[0])
def test_what_follows_a_run_does_not_begin_within_it(token: TokenShape) -> None:
    for run, following in itertools.pairwise(token.parts):
        if isinstance(run, Run) and isinstance(following, str):
            assert not has(run.chars, following[0])


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token.starts[0])
def test_no_token_begins_within_a_run_of_its_own_shape(token: TokenShape) -> None:
    """Else a text of beginnings would have each of them read to the end of the run."""
    for run in token.parts:
        if not isinstance(run, Run) or run.most is not None:
            continue
        for start in token.starts:
            within = all(has(run.chars, letter) for letter in start)
            apart = token.apart and not any(
                has(run.chars, letter) for letter in map(chr, range(128)) if not has(WORD, letter)
            )
            goes_on = isinstance(token.parts[0], str) or all(
                has(run.chars, letter) for letter in map(chr, range(128)) if has(token.parts[0].chars, letter)
            )
            assert not within or apart or not goes_on


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token.starts[0])
def test_needs_have_the_width_they_name(token: TokenShape) -> None:
    for part in token.parts:
        for need in part.needs if isinstance(part, Run) else ():
            sample = re.sub(r"\[.*?\](\{(\d+)\})?", lambda found: "1" * int(found[2] or 1), need.pattern)
            assert len(sample) == need.width
            assert re.fullmatch(need.pattern, sample)


def test_beginnings_find_words_and_with_tail_cut_ones() -> None:
    whole = re.compile("|".join(beginnings({"key-", "kea", "sk-"})))
    assert [found[0] for found in whole.finditer("a key-1 kea task- ke")] == ["key-", "kea", "sk-"]
    cut = re.compile("|".join(beginnings({"key-", "kea", "sk-"}, tail=r"\Z")))
    assert [found[0] for found in cut.finditer("ke key-1 kexs ke")] == ["key-", "ke"]
    apart = re.compile("|".join(beginnings({"sk-"}, tail=r"\Z", apart=True)))
    assert [found.start() for found in apart.finditer(r"task- sk- \nsk- (s")] == [6, 12, 17]
    assert not apart.search("tas")
