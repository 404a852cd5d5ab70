"""The foot of a terminal: rows that are drawn anew below lines that stay.

rich's own Live draws in a thread beside the one that prints: where drawing takes its time, as that of Markdown does,
the two disagree on how many rows there are to erase, and finished lines are lost. Here one thread does both.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ostler.terminal.cells import cells

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PACE = 1 / 12  # seconds from one frame to the next
# Shown at once and not in between, by terminals that know how to.
TOGETHER, SHOW = "\x1b[?2026h", "\x1b[?2026l"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class Foot:
    """Draws what `foot` returns below all that is printed, and again while an event loop runs."""

    def __init__(self, console: "Console", foot: "Callable[[], RenderableType]") -> None:
        self.console, self._foot = console, foot
        self._drawn: list[int] | None = None  # how wide the rows of the foot are; None: it is not there
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._drawn is None:
            self._drawn = []
            self._write(_HIDE_CURSOR)
            self._frame()

    def stop(self) -> None:
        """The foot is erased, and nothing else."""
        if self._timer is not None:
            self._timer.cancel()
        if self._drawn is not None:
            self._write(self._erased() + _SHOW_CURSOR)
            self._drawn = None

    def print(self, renderables: "Iterable[RenderableType]") -> None:
        """Lines that stay, above the foot."""
        with self.console.capture() as printed:
            for each in renderables:
                self.console.print(each)
        if self._drawn is None:
            self._write(printed.get())
        else:
            self._draw(printed.get())

    def _frame(self) -> None:
        self._draw()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._timer = loop.call_later(PACE, self._frame)

    def _draw(self, above: str = "") -> None:
        erased = self._erased()
        text, self._drawn = foot_text(self.console, self._foot(), self.console.height - 1)
        self._write(TOGETHER + erased + above + text + SHOW)

    def _erased(self) -> str:
        """The cursor stands in the last row. Rows that are wider than the terminal is by now have been wrapped."""
        width = max(1, self.console.width)
        rows = sum(max(1, -(-wide // width)) for wide in self._drawn or [])
        return ("\r" + (f"\x1b[{rows - 1}A" if rows > 1 else "") + "\x1b[J") if rows else ""

    def _write(self, text: str) -> None:
        self.console.file.write(text)
        self.console.file.flush()


def foot_text(console: "Console", foot: "RenderableType", most: int) -> tuple[str, list[int]]:
    """What is to be drawn, at most so many rows and the last ones of those; and how wide each of them is."""
    from rich.segment import Segment, Segments

    options = console.options
    rows = console.render_lines(foot, options.update(width=options.max_width - 1), pad=False)[-max(1, most) :]
    flat = [segment for row in rows for segment in (*row, Segment.line())][:-1]
    with console.capture() as drawn:
        console.print(Segments(flat), end="")
    return drawn.get(), [sum(cells(segment.text) for segment in row) for row in rows]
