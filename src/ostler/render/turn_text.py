"""A turn's events as bytes for a terminal: the lines that `ostler run` prints, and the text as it comes."""

import logging
import re

from ostler.model import (
    Answered,
    AnyEvent,
    Asked,
    Envelope,
    Limited,
    Notice,
    Plan,
    Started,
    TerminalClosed,
    TerminalOpened,
    Thought,
    ToolEnded,
)
from ostler.render.lines import BOLD, CODE, DIM, Line, ending, plain
from ostler.render.turn_renderer import TurnRenderer
from ostler.terminal.safe import safe

_STYLES = {
    "": "",
    DIM: "2",
    BOLD: "1",
    "green": "32",
    "red": "31",
    "yellow": "33",
    CODE: "36",
    "dim italic": "2;3",
}
# These are told in lines of their own, also in the middle of one.
_APART = (
    *(Started, Thought, ToolEnded, Plan, Limited, Notice, Asked, Answered),
    *(TerminalOpened, TerminalClosed),
)
_LINE_END = "\r\n"
_LONGEST = 8192  # characters of a line; each piece of one costs the line so far

_log = logging.getLogger(__name__)


class TurnText:
    """Feed it events, send what it returns to a terminal. What was sent is never taken back. Never raises."""

    def __init__(self, *, access: str = "", home: str = "") -> None:
        self._renderer = TurnRenderer(access=access, home=home)
        self._prose = StreamedMarkdown()
        self._taken = 0  # characters of the unfinished line
        self._begun = 0  # and how many were sent for them: some are written out
        self._gap = False  # the blank line before it was sent too

    def feed(self, event: AnyEvent) -> bytes:
        try:
            return self._bytes(self._lines(event))
        except Exception:  # an agent's event that nobody thought of costs its line, never the turn
            _log.exception("event %d cannot be drawn: this is a bug in ostler", event.seq)
            return b""

    def end(self, envelope: Envelope, diff: str = "") -> bytes:
        try:
            return self._bytes([*self._renderer.flush(), [], *ending(envelope, diff)])
        except Exception:  # as above
            _log.exception("the end of turn %s cannot be drawn: this is a bug in ostler", envelope.turn)
            return b""

    def _lines(self, event: AnyEvent) -> list[Line]:
        lines = self._renderer.flush() if isinstance(event, _APART) else []
        lines += self._renderer.feed(event)
        if len(self._renderer.partial) > _LONGEST:
            lines += self._renderer.flush()
        return lines

    def _bytes(self, lines: list[Line]) -> bytes:
        text = "".join(map(self._whole, lines)) + self._partial()
        return text.encode("utf-8", "replace")

    def _whole(self, line: Line) -> str:
        """A finished line, or the rest of the one that was begun."""
        if not line and self._gap:
            self._gap = False
            return ""
        begun, self._begun, self._taken, self._gap = self._begun, 0, 0, False
        if begun:
            return self._prose.feed(plain(line)[begun:]) + self._prose.end() + _LINE_END
        self._prose.pass_by(plain(line))
        return styled(line) + _LINE_END

    def _partial(self) -> str:
        """What came since of the line that has no end yet."""
        partial = self._renderer.partial
        if len(partial) <= self._taken or (not self._taken and not partial.strip()):
            return ""
        before = ""
        if not self._begun and self._renderer.begins_block("text"):
            before, self._gap = _LINE_END, True
        new = safe(partial[self._taken :])
        self._taken = len(partial)
        self._begun += len(new)
        return before + self._prose.feed(new)


def styled(line: Line) -> str:
    """The spans with their colours, nothing left switched on."""
    return "".join(f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if _STYLES[style] else text for text, style in line)


class StreamedMarkdown:
    """Markdown coloured while it is being written: a mark switches on before it is known that it will be closed."""

    def __init__(self) -> None:
        self._line = ""  # what there was of this line
        self._fenced = False
        self._style = ""

    def feed(self, text: str) -> str:
        out = []
        for part in re.findall(_PARTS, text):
            if not self._line:
                out.append(self._switch(self._of_line(part)))
            self._line += part
            marks = self._style in ("", CODE, BOLD) and not self._fenced and not self._line.startswith("#")
            out.append(self._marked(part) if marks and part in _MARKS else part)
        return "".join(out)

    def end(self) -> str:
        """The line is over."""
        self.pass_by(self._line)
        self._line = ""
        return self._switch("")

    def pass_by(self, line: str) -> None:
        """A line that was shown otherwise: it may begin or end a block of code."""
        if line.lstrip().startswith("```"):
            self._fenced = not self._fenced

    def _of_line(self, first: str) -> str:
        if first.startswith("```"):
            return DIM
        return CODE if self._fenced else BOLD if first.startswith("#") else ""

    def _marked(self, mark: str) -> str:
        style = _MARKS[mark]
        if self._style == style:
            return mark + self._switch("")
        return self._switch(style) + mark if not self._style else mark

    def _switch(self, style: str) -> str:
        if style == self._style:
            return ""
        before, self._style = self._style, style
        return ("\x1b[0m" if before else "") + (f"\x1b[{_STYLES[style]}m" if style else "")


_PARTS = r"```+|`|\*\*|#+|[^`*#]+|."
_MARKS = {"`": CODE, "**": BOLD}
