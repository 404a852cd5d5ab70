"""Looking at a terminal of libghostty-vt: single values, rows as VT bytes, and which rows changed."""

import struct
from itertools import groupby
from typing import Any

from ostler.terminal.ghostty import VT, check, taken, text_of
from ostler.terminal.ghostty_types import ffi, lib, make

# A point is passed by value, which cffi cannot do with its union: OstlerPoint is a struct of the same form.
_grid_ref = ffi.cast(
    "GhosttyResult (*)(GhosttyTerminal, OstlerPoint, GhosttyGridRef*)", ffi.addressof(lib, "ghostty_terminal_grid_ref")
)


def sized(ctype: str) -> Any:
    """A new struct whose `size` fields, nested ones too, say how large they are."""
    pointer = make(f"{ctype}*")
    _set_sizes(pointer)
    return pointer


def _set_sizes(pointer: Any) -> None:
    kind = ffi.typeof(pointer).item
    for name, field in kind.fields:
        if name == "size":
            pointer.size = ffi.sizeof(kind)
        elif field.type.kind == "struct":
            _set_sizes(ffi.addressof(pointer[0], name))


HOME = "\x1b[H"
RESET = "\x1b[0m"


def everything() -> Any:
    """Options that have all that the library can tell of a terminal."""
    options = sized("GhosttyFormatterTerminalOptions")
    options.emit, options.trim = VT, True
    for part in ("modes", "scrolling_region", "tabstops", "pwd", "keyboard"):
        setattr(options.extra, part, True)
    for part in ("cursor", "style", "hyperlink", "protection", "kitty_keyboard", "charsets"):
        setattr(options.extra.screen, part, True)
    return options


def background(cells: bytes) -> str:
    """Blanks in the colours of these cells, none of which has text; "" if they have no colour.

    A cell is 64 bits: two say what it holds, the next 24 are the colour if it holds nothing else.
    """
    if not any(cells):
        return ""
    runs = [
        (sgr, " " * len(list(run))) for sgr, run in groupby(colour(cell) for (cell,) in struct.iter_unpack("=Q", cells))
    ]
    while runs and not runs[-1][0]:
        runs.pop()
    return "".join(f"{RESET}{sgr}{blanks}" for sgr, blanks in runs) + (RESET if runs else "")


def colour(cell: int) -> str:
    held, value = cell & 3, cell >> 2
    if held == lib.GHOSTTY_CELL_CONTENT_BG_COLOR_PALETTE:
        return f"\x1b[48;5;{value & 255}m"
    if held == lib.GHOSTTY_CELL_CONTENT_BG_COLOR_RGB:
        return f"\x1b[48;2;{value & 255};{value >> 8 & 255};{value >> 16 & 255}m"
    return ""


class TerminalLook:
    """Reads the state of one terminal. The structs it asks with are made once: making them costs most."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._values = {name: make(f"{name}*") for name in ("uint16_t", "bool", "int", "uint8_t", "size_t")}
        self._string = make("GhosttyString*")
        self._rows = sized("GhosttyFormatterTerminalOptions")
        self._rows.emit, self._rows.trim = VT, True
        self._every_row = sized("GhosttyFormatterTerminalOptions")
        self._every_row.emit, self._every_row.trim = VT, True
        self._everything = everything()
        self._selection = sized("GhosttySelection")
        self._rows.selection = self._everything.selection = self._selection
        self._start, self._end = sized("GhosttyGridRef"), sized("GhosttyGridRef")
        self._point = make("OstlerPoint*")
        self._point.tag = lib.GHOSTTY_POINT_TAG_ACTIVE
        self._render = make("GhosttyRenderState*")
        self._iterator = make("GhosttyRenderStateRowIterator*")
        self._cells = make("GhosttyCellsView*")
        self._open = False  # what `dirty` compares with takes five times as much memory as a terminal

    def close(self) -> None:
        """Lets go of what `dirty` compares with: the next one reports all rows. Idempotent."""
        if self._open:
            self._open = False
            lib.ghostty_render_state_row_iterator_free(self._iterator[0])
            lib.ghostty_render_state_free(self._render[0])

    def value(self, key: str, ctype: str = "uint16_t") -> int:
        out = self._values[ctype]
        check(lib.ghostty_terminal_get(self._handle, getattr(lib, f"GHOSTTY_TERMINAL_DATA_{key}"), out), key)
        return int(out[0])

    def string(self, key: str) -> str:
        key = f"GHOSTTY_TERMINAL_DATA_{key}"
        check(lib.ghostty_terminal_get(self._handle, getattr(lib, key), self._string), key)
        return text_of(self._string)

    def rows(self, first: int, last: int) -> list[str]:
        """The rows as VT: SGR and text alone, each by itself, trailing blanks without a style left out."""
        self._select(first, last)
        found = self._format(self._rows).split("\r\n")
        found += [""] * (last - first + 1 - len(found))
        if "" in found:
            self._paint(found, first)
        return found

    def all(self, rows: list[str], history: bool) -> str:
        """VT that makes an empty terminal of this size show the same; with `history`, the scrollback before it.

        `rows` are those of the whole screen.
        """
        self._select(0, len(rows) - 1)
        before, home, rest = self._format(self._everything).partition(HOME)
        after = rest.removeprefix(self._format(self._rows))  # what follows the rows, such as the cursor
        if history and (above := self.value("SCROLLBACK_ROWS", "size_t")):
            found = self._format(self._every_row).split("\r\n")
            rows = found[:above] + [""] * (above - len(found)) + rows
        else:
            rows = rows[: max((y + 1 for y, row in enumerate(rows) if row), default=0)]
        return before + home + "\r\n".join(rows) + after

    def dirty(self) -> list[int]:
        """The rows that may have changed since the last call; all of them at the first one."""
        self._update()
        y, found = self._values["uint16_t"], []
        while lib.ghostty_render_state_row_iterator_next_dirty(self._iterator[0], y):
            found.append(int(y[0]))
        check(lib.ghostty_render_state_clean(self._render[0]), "clean")
        return found

    def cursor(self) -> tuple[int, bool]:
        """Its shape as the library counts them, and whether it blinks; as of the last `dirty`."""
        if not self._open:
            self.dirty()
        shape, blinks = self._values["int"], self._values["bool"]
        render = self._render[0]
        key = lib.GHOSTTY_RENDER_STATE_DATA_CURSOR_VISUAL_STYLE
        check(lib.ghostty_render_state_get(render, key, shape), "cursor")
        check(lib.ghostty_render_state_get(render, lib.GHOSTTY_RENDER_STATE_DATA_CURSOR_BLINKING, blinks), "cursor")
        return int(shape[0]), bool(blinks[0])

    def _update(self) -> None:
        if not self._open:
            check(lib.ghostty_render_state_new(ffi.NULL, self._render), "render state")
            check(lib.ghostty_render_state_row_iterator_new(ffi.NULL, self._iterator), "row iterator")
            self._open = True
        check(lib.ghostty_render_state_update(self._render[0], self._handle), "update")
        key = lib.GHOSTTY_RENDER_STATE_DATA_ROW_ITERATOR
        check(lib.ghostty_render_state_get(self._render[0], key, self._iterator), "rows")

    def _paint(self, found: list[str], first: int) -> None:
        """Gives rows without any text their background, which the library leaves out."""
        self._update()
        for y in range(first + len(found)):
            lib.ghostty_render_state_row_iterator_next(self._iterator[0])
            if y >= first and not found[y - first]:
                key = lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS_RAW
                check(lib.ghostty_render_state_row_get(self._iterator[0], key, self._cells), "cells")
                found[y - first] = background(ffi.buffer(self._cells.ptr, 8 * self._cells.len)[:])

    def _select(self, first: int, last: int) -> None:
        self._selection.start = self._ref(self._start, 0, first)
        self._selection.end = self._ref(self._end, self.value("COLS") - 1, last)

    def _ref(self, ref: Any, x: int, y: int) -> Any:
        self._point.value.x, self._point.value.y = x, y
        check(_grid_ref(self._handle, self._point[0], ref), "grid ref")
        return ref[0]

    def _format(self, options: Any) -> str:
        formatter = make("GhosttyFormatter*")
        check(lib.ghostty_formatter_terminal_new(ffi.NULL, formatter, self._handle, options[0]), "formatter")
        try:
            call = lib.ghostty_formatter_format_alloc
            return taken(lambda *out: call(formatter[0], ffi.NULL, *out), "format").decode(errors="replace")
        finally:
            lib.ghostty_formatter_free(formatter[0])
