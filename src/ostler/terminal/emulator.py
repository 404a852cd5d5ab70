"""One emulated terminal: bytes in, replies and facts out, and what the screen shows.

What pyghostty 0.1.3 does not do: DECSTR (soft reset), DECXCPR (`CSI ?6n`), XTMODKEYS query, title reports
(`CSI 21t`, refused on purpose), clipboard (OSC 52 is swallowed), links in rows, pictures (switched off).
"""

import re
from os import uname
from typing import Any

from ostler.terminal import clean, ghostty, ghostty_modes
from ostler.terminal.ghostty_look import TerminalLook
from ostler.terminal.screen.protocol import (
    Cursor,
    CursorShape,
    Modes,
    Progress,
    Row,
    ScreenFacts,
    ScreenLimits,
    Snapshot,
    joined,
)

CONTINUATION_BYTES = 65_536
UNKNOWN_BYTES = 4096
FOREGROUND, BACKGROUND = (0xD8, 0xD8, 0xD8), (0x10, 0x10, 0x14)
STATE = b"7501;"  # the OSC by which agents tell their state
STATE_ANSWER = b"\x1b]7501;?ostler\x1b\\"
HOST = uname().nodename
RAW_FOLDER = "kitty-shell-cwd"  # like file, without percent signs
DEL = b"\x7f"
SGR = re.compile(r"\x1b\[[0-9;:]*m")
SHAPES: tuple[CursorShape, ...] = ("bar", "block", "underline", "hollow")
PROGRESS = {1: "set", 2: "error", 3: "indeterminate", 4: "paused"}


class Emulator:
    """Owns one terminal of the library; `close` frees it. Only for the screen process: a crash is possible."""

    def __init__(self, cols: int, rows: int, limits: ScreenLimits | None = None, restore: bytes = b"") -> None:
        """An empty terminal, or the one that `checkpoint` gave. Raises GhosttyFault if it cannot be restored."""
        self._limits = limits or ScreenLimits()
        self.size = self._limits.clamp(cols, rows)
        self._replies: list[bytes] = []
        self._facts: ScreenFacts | None = None
        self.progress_now: Progress | None = None
        self._handle = ghostty.decode(restore) if restore else ghostty.new(*self.size)
        self._self = ghostty.handle_of(self)
        ghostty.configure(self._handle, self._options(), self._self)
        self._look = TerminalLook(self._handle)
        if restore:
            self.size = self._look.value("COLS"), self._look.value("ROWS")
        self._title, self._cwd = self.title(), self.cwd()
        self._modes, self._unread = Modes(), True  # whether a mode may have changed since it was read

    def close(self) -> None:
        self._look.close()
        ghostty.free(self._handle)

    def feed(self, data: bytes) -> bytes:
        """Takes bytes of the program; returns what it is to be answered, in stream order."""
        if DEL in data:  # the library prints it, terminals pass over it
            data = data.replace(DEL, b"")
        self._unread = self._unread or ghostty_modes.may_change(data)
        ghostty.feed(self._handle, data)
        replies = b"".join(self._replies)
        self._replies.clear()
        return replies

    def facts(self) -> ScreenFacts | None:
        """What was told since the last call."""
        facts, self._facts = self._facts, None
        return facts

    def resize(self, cols: int, rows: int) -> bytes:
        """Takes a new size, within the limits; returns the report of it, if the program asked for such."""
        size = self._limits.clamp(cols, rows)
        if size != self.size:
            self.size = size
            ghostty.resize(self._handle, *size)
        return self.feed(b"")

    def dirty(self) -> list[int]:
        """Which rows may have changed since the last call."""
        return self._look.dirty()

    def unwatch(self) -> None:
        """Nobody asks which rows changed any more: the memory for that is freed."""
        self._look.close()

    def rows(self, wanted: list[int]) -> tuple[Row, ...]:
        """The rows of these numbers. Many at once cost less than as many alone."""
        if len(wanted) > 4:
            first, last = min(wanted), max(wanted)
            found = self._look.rows(first, last)
            return tuple(as_row(y, found[y - first]) for y in wanted)
        return tuple(as_row(y, self._look.rows(y, y)[0]) for y in wanted)

    def cursor(self) -> Cursor:
        """Shape and blinking are those of the last `dirty`."""
        shape, blinking = self._look.cursor()
        x, y = self._look.value("CURSOR_X"), self._look.value("CURSOR_Y")
        return Cursor(x, y, SHAPES[shape], bool(self._look.value("CURSOR_VISIBLE", "bool")), blinking)

    def modes(self) -> Modes:
        """The same object as long as none changes."""
        if self._unread:
            self._modes, self._unread = ghostty_modes.read(self._handle)
        return self._modes

    def synchronized(self) -> bool:
        """Whether the program is within a frame that is to be shown at once."""
        return ghostty_modes.synchronized(self._handle)

    def title(self) -> str:
        return clean.title(self._look.string("TITLE"))

    def cwd(self) -> str:
        """The folder of OSC 7 as a path; empty if none was told, or one of another machine."""
        uri = self._look.string("PWD").rstrip("\0")
        if uri.startswith(RAW_FOLDER):
            from urllib.parse import quote

            uri = "file" + quote(uri.removeprefix(RAW_FOLDER), safe="/:")
        return clean.folder(uri, HOST) or ""

    def snapshot(self, offset: int, history: bool = False) -> Snapshot:
        """All there is to see. Does not touch what `dirty` reports but the cursor's shape is refreshed by it."""
        cols, rows = self.size
        styled = self._look.rows(0, rows - 1)
        return Snapshot(
            offset=offset,
            cols=cols,
            rows=rows,
            text=tuple(map(text_of, styled)),
            styled=tuple(styled),
            cursor=self.cursor(),
            modes=self.modes(),
            title=self.title(),
            cwd=self.cwd(),
            progress=self.progress_now,
            scrollback=self._look.value("SCROLLBACK_ROWS", "size_t"),
            vt=self._vt(styled, history),
        )

    def vt(self, history: bool = False) -> bytes:
        """The screen as VT, with cursor, modes, title and the beginning of a sequence that is not complete."""
        return self._vt(self._look.rows(0, self.size[1] - 1), history)

    def _vt(self, rows: list[str], history: bool) -> bytes:
        shape, blinking = self._look.cursor()
        style = {"block": 2, "hollow": 2, "underline": 4, "bar": 6}[SHAPES[shape]] - blinking
        title = self.title()
        named = f"\x1b]2;{title}\x1b\\" if title else ""
        shown = self._look.all(rows, history).replace("\0", "")  # the library ends the folder with one
        return f"{shown}\x1b[{style} q{named}".encode() + self._unfinished()

    def checkpoint(self) -> bytes | None:
        """All of it, for `restore`; None within a sequence that is too long to be kept."""
        try:
            return ghostty.encode(self._handle)
        except ghostty.GhosttyFault:
            return None

    def _unfinished(self) -> bytes:
        if self._look.value("VT_GROUND", "bool"):
            return b""
        try:
            return ghostty.continuation(self._handle)
        except ghostty.GhosttyFault:
            return b"\x1b]"  # what remains of an endless sequence is swallowed up to its end

    def _options(self) -> ghostty.Options:
        limits = self._limits
        bounds = (limits.scrollback_bytes, limits.scrollback_lines, CONTINUATION_BYTES, UNKNOWN_BYTES)
        return ghostty.Options(*bounds, FOREGROUND, BACKGROUND)

    # -- heard during a feed, in stream order

    def reply(self, data: bytes) -> None:
        self._replies.append(data)

    def bell(self) -> None:
        self._add_facts(ScreenFacts(bells=1))

    def titled(self) -> None:
        before, self._title = self._title, self.title()
        if self._title != before:
            self._add_facts(ScreenFacts(title=self._title))

    def moved(self) -> None:
        before, self._cwd = self._cwd, self.cwd()
        if self._cwd != before:
            self._add_facts(ScreenFacts(cwd=self._cwd))

    def note(self, title: str, body: str) -> None:
        self._add_facts(ScreenFacts(notes=((title[:200], body[:2000]),)))

    def progress(self, state: int, percent: int) -> None:
        name: Any = PROGRESS.get(state)
        self.progress_now = Progress(name, percent if percent >= 0 else None) if name else None
        self._add_facts(ScreenFacts(progress=self.progress_now or "none"))

    def unknown(self, content: bytes) -> None:
        if content == STATE + b"?":
            self._replies.append(STATE_ANSWER)
        elif content.startswith(STATE):
            state = content[len(STATE) :].decode(errors="replace")
            self._add_facts(ScreenFacts(states=(state,)))

    def _add_facts(self, facts: ScreenFacts) -> None:
        self._facts = joined(self._facts, facts) if self._facts else facts


def as_row(y: int, vt: str) -> Row:
    return Row(y, text_of(vt), vt)


def text_of(vt: str) -> str:
    return SGR.sub("", vt).rstrip(" ")
