"""Markdown while it is being written: cut into blocks that nothing written later can change. Pure.

A view prints a block once it is whole, and shows the open one below, where it can still be drawn anew.
"""

import re

_FENCE = r" *(`{3,}|~{3,})"
_HEADING = r" {0,3}#{1,6}(\s|$)"
_ITEM = r" {0,3}([-*+]|\d{1,9}[.)])(\s|$)"
_RULE = r" {0,3}([-*_])( *\1){2,} *$"
_UNDERLINE = r" {0,3}(=+|-+) *$"


class MarkdownBlocks:
    """Feed it text; it returns whole blocks: a paragraph, a heading, an item of a list, a table, a block of code.

    A blank line between two blocks is returned as "". Nothing is added and nothing is lost but the number of
    blank lines. `open` is the text of the block that may still grow.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []  # of the open block
        self._tail = ""  # a line without its end
        self._item = False  # the open block is an item of a list: what is indented belongs to it
        self._fence = ""  # what ends the open block of code
        self.gap = False  # a blank line stands before the open block

    @property
    def open(self) -> str:
        return "\n".join([*self._lines, self._tail] if self._tail else self._lines).rstrip("\n")

    def feed(self, text: str) -> list[str]:
        *whole, self._tail = (self._tail + text).split("\n")
        return [block for line in whole for block in self._line(line)]

    def flush(self) -> list[str]:
        """The open block, which is over."""
        tail, self._tail = self._tail, ""
        blocks = [*(self._line(tail) if tail else ()), *self._close()]
        self.gap = False
        return blocks

    def _line(self, line: str) -> list[str]:
        if self._fence:
            return self._code(line)
        if not line.strip():
            return self._blank_line()
        inside = bool(self._lines) and self._belongs(line)
        before = [] if inside else self._close()
        self._lines.append(line)
        if fence := re.match(_FENCE, line):
            self._fence = fence[1]
        elif not inside:
            self._item = bool(re.match(_ITEM, line)) and not re.match(_RULE, line)
        whole = re.match(_HEADING, line) or (inside and not self._item and re.match(_UNDERLINE, line))
        return [*before, *self._close()] if whole and not self._item else before

    def _belongs(self, line: str) -> bool:
        """Whether a line that is not blank goes on with the open block."""
        indented = line.startswith(("  ", "\t"))
        if self._item:
            return indented or (bool(self._lines[-1]) and not _begins(line))
        return not _begins(line) or (bool(re.match(_UNDERLINE, line)) and not re.match(_ITEM, self._lines[-1]))

    def _code(self, line: str) -> list[str]:
        self._lines.append(line)
        mark = line.strip()
        if mark.startswith(self._fence) and not mark.strip(self._fence[0]):
            self._fence = ""
            return [] if self._item else self._close()
        return []

    def _blank_line(self) -> list[str]:
        if self._item:  # what follows may still belong to it
            self._lines.append("")
            return []
        whole = self._close()
        self.gap = True
        return whole

    def _close(self) -> list[str]:
        lines, self._lines, self._item, self._fence = self._lines, [], False, ""
        if not lines:
            return []
        before = [""] if self.gap else []
        self.gap = not lines[-1]
        return [*before, "\n".join(lines).rstrip("\n")]


def _begins(line: str) -> bool:
    """Whether a line begins a block, whatever stands above it."""
    return any(re.match(pattern, line) for pattern in (_FENCE, _HEADING, _ITEM, _RULE))
