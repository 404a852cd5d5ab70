"""The protocol of `tmux -C`: what comes from tmux, and commands as it takes them. Values in, values out."""

import re
from typing import NamedTuple

_OCTAL = re.compile(rb"\\([0-7]{3})")
_PLAIN = re.compile(r"[A-Za-z0-9_@%$:./=+-]+")


class PaneOutput(NamedTuple):
    """Bytes that the program in a pane wrote, as it wrote them."""

    pane: str
    data: bytes


class CommandReply(NamedTuple):
    """What a command printed, or with `ok` false, why it failed. `asked`: it was a command of this client."""

    ok: bool
    lines: tuple[bytes, ...]
    asked: bool


class TmuxNotice(NamedTuple):
    """Something happened in the server: `layout-change`, `exit`, …"""

    name: str
    rest: str


ControlEvent = PaneOutput | CommandReply | TmuxNotice


class ControlParser:
    """Takes bytes in any pieces, returns what they say."""

    def __init__(self) -> None:
        self._rest = b""
        self._block: bytes | None = None  # the time and number of a reply that has begun
        self._lines: list[bytes] = []

    def feed(self, data: bytes) -> list[ControlEvent]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> ControlEvent | None:
        if self._block is not None:
            return self._in_block(line)
        word, _, rest = line.partition(b" ")
        if word == b"%begin":
            self._block, self._lines = rest, []
            return None
        if word == b"%output":
            pane, _, escaped = rest.partition(b" ")
            return PaneOutput(pane.decode(), unescaped(escaped))
        if word.startswith(b"%"):
            return TmuxNotice(word[1:].decode("utf-8", "replace"), rest.decode("utf-8", "replace"))
        return None

    def _in_block(self, line: bytes) -> CommandReply | None:
        """A screen may show `%end`, too: that of a block repeats what it began with."""
        block = self._block
        assert block is not None
        if line not in (b"%end " + block, b"%error " + block):
            self._lines.append(line)
            return None
        self._block = None
        return CommandReply(line.startswith(b"%end"), tuple(self._lines), asked=block.endswith(b" 1"))


def unescaped(data: bytes) -> bytes:
    """What tmux escapes as `\\033`."""
    return _OCTAL.sub(lambda found: bytes([int(found[1], 8) & 255]), data)


def command_line(words: tuple[str, ...]) -> bytes:
    """One command as a line of input. A line has no line ends in it: who has text sends it by a buffer."""
    line = " ".join(map(_quoted, words))
    if "\n" in line or "\r" in line or "\0" in line:
        raise ValueError("a line end in a command for tmux")
    return line.encode() + b"\n"


def _quoted(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'"


def version_of(printed: str) -> tuple[int, int] | None:
    """`tmux 3.3a`, `tmux next-3.5` → (3, 3), (3, 5); None for one that does not say (`tmux master`)."""
    found = re.search(r"(\d+)\.(\d+)", printed)
    return (int(found[1]), int(found[2])) if found else None
