"""An agent's Markdown for a terminal, drawn by rich: everything that it says is seen, and nothing of it acts."""

from collections.abc import Iterator
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import markdown as rich_markdown
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from ostler.terminal.safe import safe

# Colours of the terminal's own palette, no backgrounds: they suit dark and light ones.
_THEME = Theme(
    {
        "markdown.h1": "bold underline",
        **dict.fromkeys((f"markdown.h{n}" for n in range(2, 7)), "bold"),
        "markdown.code": "cyan",
        "markdown.block_quote": "dim",
        "markdown.item.bullet": "dim",
        "markdown.item.number": "dim",
        "markdown.link": "underline",
        "markdown.hr": "dim",
        "markdown.table.header": "bold",
        "markdown.table.border": "dim",
    }
)
# "Use the <Button> component" means the tag; a definition of a link is text like any other.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")

_LARGE = 8192  # characters of a block that is still being written; a larger one is not parsed for each frame

SegmentRow = list[Segment]


class MarkdownBlock:
    """A block of Markdown; of a long one only the last rows, where a limit is given."""

    def __init__(self, source: str, last_rows: int | None = None) -> None:
        self.source, self.last_rows = source, last_rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = self._rows(console, options.update(height=None, justify="default"))
        if self.last_rows is not None and len(rows) > self.last_rows:
            rows = rows[-self.last_rows :]
        for row in rows:
            yield from row
            yield Segment.line()

    def _rows(self, console: Console, options: ConsoleOptions) -> list[SegmentRow]:
        rows = self._drawn(console, options)
        trimmed = [_trimmed(row) for row in rows]
        while trimmed and not trimmed[0]:
            trimmed.pop(0)
        while trimmed and not trimmed[-1]:
            trimmed.pop()
        return trimmed

    def _drawn(self, console: Console, options: ConsoleOptions) -> list[SegmentRow]:
        if self.last_rows is not None and len(self.source) > _LARGE:
            return console.render_lines(_as_written(self.source[-_LARGE // 2 :]), options, pad=False)
        try:
            with console.use_theme(_THEME):
                return console.render_lines(_Markdown(self.source), options, pad=False)
        except Exception:  # better as it was written than not at all
            return console.render_lines(_as_written(self.source), options, pad=False)


def _as_written(source: str) -> Text:
    return Text(safe(source), overflow="fold")


def _trimmed(row: SegmentRow) -> SegmentRow:
    """Without the blanks that fill it up: they would wrap when the terminal becomes narrower."""
    row = list(row)
    while row:
        text, style, control = row.pop()
        if text := text.rstrip():
            return [*row, Segment(text, style, control)]
    return row


class _Heading(rich_markdown.Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _CodeBlock(rich_markdown.CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        syntax = Syntax(code, self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True)
        yield Padding(syntax, (0, 0, 0, 2))


class _ListItem(rich_markdown.ListItem):
    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> Iterator[Segment]:
        mark = f" {number}. "
        lines = console.render_lines(self.elements, options.update(width=options.max_width - len(mark)))
        style = console.get_style("markdown.item.number", default="none")
        for n, line in enumerate(lines):
            yield Segment(mark if n == 0 else " " * len(mark), style)
            yield from line
            yield Segment.line()


class _Markdown(rich_markdown.Markdown):
    elements: ClassVar = {
        **rich_markdown.Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "list_item_open": _ListItem,
    }

    def __init__(self, source: str) -> None:
        super().__init__("")
        self.inlines = {*self.inlines, "link"}
        tokens = _PARSER.parse(safe(source))
        if _letters(source) > sum(_letters(token.content + token.info) for token in tokens):
            raise ValueError("the parser dropped something: cells beyond a table's columns, what is nested too deep")
        self.parsed = [_plain(token) for token in tokens]


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _plain(token: Token) -> Token:
    """Lines break where the agent broke them, addresses are seen, and entities bring no control characters in."""
    token.content = safe(token.content)
    if token.children and token.type == "inline":
        token.children = [_plain(child) for child in _with_addresses(token.children)]
    if token.type == "softbreak":
        token.type = "hardbreak"
    return token


def _with_addresses(tokens: list[Token]) -> Iterator[Token]:
    text, address = "", ""
    for token in tokens:
        if token.type == "link_open":
            text, address = "", str(token.attrs.get("href", ""))
            yield Token("styled", "link", 1)  # for rich a style like others: it would hide the address
        elif token.type == "link_close":
            yield Token("styled", "link", -1)
            if address not in (text, f"mailto:{text}"):
                yield Token("text", "", 0, content=f" ({address})")
        elif token.type == "image":
            yield Token("text", "", 0, content=f"[image: {token.content} {token.attrs.get('src', '')}]")
        else:
            text += token.content
            yield token
