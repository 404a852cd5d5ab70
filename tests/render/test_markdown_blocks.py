"""Streamed Markdown is cut where nothing can change any more, and nothing of it is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.render.markdown_blocks import MarkdownBlocks


def blocks(*pieces: str) -> list[str]:
    cut = MarkdownBlocks()
    return [block for piece in pieces for block in cut.feed(piece)] + cut.flush()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\ntwo\n\n\nthree", ["one\ntwo", "", "three"]),
        ("# A\ntext\n## B ##\n", ["# A", "text", "## B ##"]),
        ("Title\n=====\nSub\n---\nx", ["Title\n=====", "Sub\n---", "x"]),
        ("a\n\n---\n\nb\n***\n", ["a", "", "---", "", "b", "***"]),
        ("- a\n- b\n  - c\n\n  more b\n- d\nlazy\n\nend", ["- a", "- b\n  - c\n\n  more b", "- d\nlazy", "", "end"]),
        ("1. a\n\n   b\n2. c\n", ["1. a\n\n   b", "2. c"]),
        ("Do:\n- a\n", ["Do:", "- a"]),
        ("```py\na\n\n# b\n- c\n```\nafter", ["```py\na\n\n# b\n- c\n```", "after"]),
        ("````\n```\nx\n```\n````\n~~~\n```\n~~~", ["````\n```\nx\n```\n````", "~~~\n```\n~~~"]),
        ("- a\n  ```\n  x\n\n  y\n  ```\n- b", ["- a\n  ```\n  x\n\n  y\n  ```", "- b"]),
        ("text\n```\nx\n```\n", ["text", "```\nx\n```"]),
        ("| a |\n|---|\n| 1 |\n\n> q\n> r\n", ["| a |\n|---|\n| 1 |", "", "> q\n> r"]),
        ("```\nnever closed\n\n", ["```\nnever closed"]),
        ("", []),
        ("\n\n", []),
    ],
)
def test_where_blocks_end(text: str, expected: list[str]) -> None:
    assert blocks(text) == expected
    assert blocks(*text) == expected  # however it comes


def test_what_is_open_may_still_grow() -> None:
    cut = MarkdownBlocks()
    assert (cut.feed("a **b"), cut.open) == ([], "a **b")
    assert (cut.feed("**\nc"), cut.open) == ([], "a **b**\nc")
    assert (cut.feed("\n\n- x\n"), cut.open, cut.gap) == (["a **b**\nc"], "- x", True)
    assert (cut.feed("\n"), cut.open) == ([], "- x")
    assert (cut.feed("- y"), cut.open) == ([], "- x\n\n- y")
    assert (cut.feed("\n"), cut.open) == (["", "- x"], "- y")
    assert cut.flush() == ["", "- y"]


@given(st.lists(st.sampled_from(["a", " ", "\n", "\n\n", "```", "~~~", "- ", "1. ", "# ", "---", "  ", "> ", "|"])))
def test_nothing_is_lost(pieces: list[str]) -> None:
    text = "".join(pieces)
    cut = blocks(*pieces)
    assert cut == blocks(text)
    kept = [line for block in cut for line in block.split("\n") if line.strip()]
    assert kept == [line for line in text.split("\n") if line.strip()]
