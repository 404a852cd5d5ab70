"""Markdown as rich draws it: what an agent wrote is all there, in any width."""

import io

import pytest
from rich.console import Console

from ostler.render.markdown import MarkdownBlock


def drawn(source: str, width: int = 80, last_rows: int | None = None) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(MarkdownBlock(source, last_rows))
    return capture.get()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# A **title**", "A title\n"),
        ("one\ntwo `x` ~~y~~", "one\ntwo x y\n"),
        ("- a\n  - b", " • a\n    • b\n"),
        ("7. seven\n   more", " 7. seven\n    more\n"),
        ("> said\n> so", "▌ said\n▌ so\n"),
        ("```python\nif x:\n    y()\n```", "  if x:\n      y()\n"),
        ("```nonesuch\n\x1b[31m\n```", "  \\x1b[31m\n"),
        ("| a | b |\n|---|--:|\n| long cell | 1 |", " a          b\n ────────────\n long cell  1\n"),
        # What another renderer would swallow.
        ("use <Button> and Vec<String>", "use <Button> and Vec<String>\n"),
        ("<div>\nx\n</div>", "<div>\nx\n</div>\n"),
        ("[docs](https://a.example/x)", "docs (https://a.example/x)\n"),
        ("<https://a.example>", "https://a.example\n"),
        ("[a]: https://a.example", "[a]: https://a.example\n"),
        ("![a picture](x.png)", "[image: a picture x.png]\n"),
        # What would act on the terminal.
        ("a\x1b[2J\u202eb", "a\\x1b[2J\\u202eb\n"),
        ("&#x202e;&#27;&lt;b&gt;", "\\u202e\ufffd<b>\n"),
        ("[bold]x[/bold] :rocket:", "[bold]x[/bold] :rocket:\n"),
        ("", ""),
    ],
)
def test_what_is_seen(source: str, expected: str) -> None:
    assert drawn(source) == expected


def test_it_wraps_at_words_and_leaves_no_blanks() -> None:
    assert drawn("one two three four", width=10) == "one two\nthree four\n"
    assert drawn("`" + "x" * 25 + "`", width=10) == "xxxxxxxxxx\nxxxxxxxxxx\nxxxxx\n"


def test_of_a_long_block_the_end_is_seen() -> None:
    assert drawn("```\n" + "\n".join("abcdef") + "\n```", last_rows=2) == "  e\n  f\n"


def test_a_large_block_that_grows_is_not_parsed_again_and_again() -> None:
    large = "**word** " * 2000
    assert drawn(large, last_rows=1).rstrip().endswith("**word** **word**")
    assert "**" not in drawn(large)


def test_what_cannot_be_parsed_is_shown_as_it_is() -> None:
    assert "deep" in drawn("> " * 2000 + "deep")
    table = "| a |\n|---|\n| 1 | more |\n"
    assert drawn(table) == table
