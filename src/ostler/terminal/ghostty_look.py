"""Looking at a terminal of libghostty-vt: single values, rows as VT bytes, and which rows changed."""

from typing import Any

from ostler.terminal.ghostty import VT, check, taken, text_of
from ostler.terminal.ghostty_types import TYPES, ffi, lib, make

_grid_ref = ffi.cast(TYPES["grid_ref"], ffi.addressof(lib, "ghostty_terminal_grid_ref"))


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


class Look:
    """Eyes on one terminal. The structs it asks with are made once: making them costs more than the asking."""

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
        self._point = make("GhosttyPointS*")
        self._point.tag = lib.GHOSTTY_POINT_TAG_ACTIVE
        self._render = make("GhosttyRenderState*")
        self._iterator = make("GhosttyRenderStateRowIterator*")
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
        cols = self.value("COLS")
        self._selection.start = self._ref(self._start, 0, first)
        self._selection.end = self._ref(self._end, cols - 1, last)
        found = self._format(self._rows).split("\r\n")
        return found + [""] * (last - first + 1 - len(found))

    def all(self, history: bool) -> str:
        """VT that makes an empty terminal of this size show the same; with `history`, the scrollback before it."""
        rows = self.value("ROWS")
        self._selection.start = self._ref(self._start, 0, 0)
        self._selection.end = self._ref(self._end, self.value("COLS") - 1, rows - 1)
        shown = self._format(self._everything)
        scrollback = self.value("SCROLLBACK_ROWS", "size_t")
        if not history or not scrollback:
            return shown
        before, home, rest = shown.partition(HOME)
        screen = self._format(self._rows)
        after = rest.removeprefix(screen)  # what follows the rows, such as the cursor
        found = self._format(self._every_row)
        blank = "\r\n" * (scrollback + rows - 1 - found.count("\r\n"))  # rows at the end that the library leaves out
        return f"{before}{home}{found}{RESET}{blank}{after}"

    def dirty(self) -> list[int]:
        """The rows that may have changed since the last call; all of them at the first one."""
        if not self._open:
            check(lib.ghostty_render_state_new(ffi.NULL, self._render), "render state")
            check(lib.ghostty_render_state_row_iterator_new(ffi.NULL, self._iterator), "row iterator")
            self._open = True
        check(lib.ghostty_render_state_update(self._render[0], self._handle), "update")
        key = lib.GHOSTTY_RENDER_STATE_DATA_ROW_ITERATOR
        check(lib.ghostty_render_state_get(self._render[0], key, self._iterator), "rows")
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
