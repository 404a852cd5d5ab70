"""The recorded streams show the same rows in the emulator as in a real tmux, but for what is listed here.

The one difference: a line feed after the last column was written. ghostty, like xterm and xterm.js, forgets the
pending wrap, so that the next character stands in the last column of the next row; tmux keeps it, and the next
character begins the row after. gemini writes full rows that end with a bare line feed: with carriage returns before
them, which is all that differs, the rows are equal there too.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from needs import needs
from ostler.terminal.emulator import Emulator
from terminal.screen_cases import SHOWN
from terminal.tmux_rows import tmux_rows

pytestmark = pytest.mark.long
CAPTURES = Path(__file__).parent.parent / "captures"
PROGRAMS = sorted(CAPTURES.glob("terminal/*.raw"))
AGENTS = sorted(CAPTURES.glob("*/interactive-*.raw.txt"))
BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
PARTS = 6
DIFFERENT = {
    ("gemini/interactive-session.raw.txt", 5),
    ("gemini/interactive-session.raw.txt", 6),
    ("gemini/interactive-trust.raw.txt", 3),
}
# What tmux shows otherwise in the table of the emulator, and why ostler's way is the right one or the same.
OTHERWISE = {
    "line drawing": "capture-pane gives the letters that stand for the lines",
    "shift in and out": "capture-pane gives the letters that stand for the lines",
    "half of a wide one is overwritten": "tmux keeps the half that is left; xterm blanks it",
    "half of a wide one is deleted": "tmux deletes both halves; xterm one cell",
    "invalid UTF-8": "tmux drops invalid bytes; they are shown as U+FFFD",
    "rows down": "tmux does not know VPR (CSI e)",
    "left and right margins": "tmux does not know DECLRMM",
    "newline mode": "tmux does not know LNM",
    "cursor kept by 1048": "tmux does not know this mode",
    "huge numbers": "tmux drops a sequence with a number that is too large; xterm clamps it",
    "erase in the last column": "tmux erases nothing while a wrap is pending; xterm erases that column",
}
TABLE = [(name, data) for name, data, *_ in SHOWN if name not in OTHERWISE and len(data) < 10_000]
CASES = [(path, part) for path in PROGRAMS + AGENTS for part in range(1, PARTS + 1)]


def name(path: Path) -> str:
    return str(path.relative_to(CAPTURES))


def shown(data: bytes, size: tuple[int, int]) -> list[str]:
    emulator = Emulator(*size)
    emulator.feed(data)
    rows = [row.text.rstrip() for row in emulator.rows(list(range(size[1])))]
    emulator.close()
    return rows


def cut(data: bytes, part: int) -> bytes:
    """So many sixths, ending before an escape sequence; the sixth one whole."""
    end = len(data) * part // PARTS
    return data[: data.rfind(b"\x1b", 0, end)] if part < PARTS else data


def in_tmux(data: bytes, size: tuple[int, int], folder: Path) -> list[str]:
    (folder / "bytes").write_bytes(data)
    return tmux_rows(folder / "bytes", *size, folder)


@needs("tmux")
@pytest.mark.parametrize(("path", "part"), CASES, ids=lambda value: value if isinstance(value, int) else name(value))
def test_rows_are_those_of_tmux(path: Path, part: int, tmp_path: Path) -> None:
    size = (80, 24) if path in PROGRAMS else (120, 40)
    data = cut(path.read_bytes(), part)
    if (name(path), part) in DIFFERENT:
        assert shown(data, size) != in_tmux(data, size, tmp_path)
        data = BARE_LINE_FEED.sub(b"\r\n", data)
    assert shown(data, size) == in_tmux(data, size, tmp_path)


@needs("tmux")
@pytest.mark.parametrize("data", [data for _, data in TABLE], ids=[name for name, _ in TABLE])
def test_the_table_in_tmux(data: bytes, tmp_path: Path) -> None:
    assert shown(data, (20, 5)) == in_tmux(data, (20, 5), tmp_path)


@needs("tmux")
def test_the_listed_difference(tmp_path: Path) -> None:
    data, blank = b"x" * 20 + b"\nyz", [""] * 2
    assert shown(data, (20, 5)) == ["x" * 20, " " * 19 + "y", "z", *blank]
    assert in_tmux(data, (20, 5), tmp_path) == ["x" * 20, "", "yz", *blank]


def test_every_recorded_stream_is_compared() -> None:
    assert [path.name for path in PROGRAMS] == ["ink.raw", "mc.raw", "vim.raw"]
    assert Counter(path.parent.name for path in AGENTS) == {"claude": 5, "codex": 3, "gemini": 2}
