"""What the scripted TUI shows. Pure: its state and a size in, the rows of a whole screen out."""

from __future__ import annotations

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from collections.abc import Sequence

PLACEHOLDER = "Type your message"
BUSY = "Working… (esc to interrupt)"
SPINNER = "◐◓◑◒"
INTERRUPTED = "■ Interrupted"
LONG_PASTE = (4, 800)  # lines or characters from which on a paste is shown by a placeholder


class TuiView:
    """All that is seen: `lines` of the conversation, what is in the box, and the dialog that is open."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.lines: list[str] = []
        self.box = ""
        self.busy = False
        self.frame = 0
        self.question = ""  # the text of the dialog that is open
        self.options: Sequence[str] = ()
        self.chosen = 0


def rows(view: TuiView, cols: int, height: int) -> list[str]:
    """Exactly `height` rows, none wider than `cols`: head, conversation, busy line, box or dialog, foot."""
    width = max(20, cols)
    foot = [*_box(_dialog(view) if view.question else _prompt(view, width - 6), width), "  ? for help · /exit to leave"]
    busy = [f" {SPINNER[view.frame % len(SPINNER)]} {BUSY}"] if view.busy and not view.question else [""]
    below = [*busy, *foot][-(height - 1) :]
    room = height - 1 - len(below)
    said = [part for line in view.lines for part in wrapped(line, width - 1)][-room:] if room > 0 else []
    body = [f" ✻ {view.title}", *said, *[""] * (room - len(said)), *below]
    return [row[:cols] for row in body]


def wrapped(text: str, width: int) -> list[str]:
    """Lines no longer than that, cut anywhere: this is a script, not a typesetter."""
    lines = text.split("\n")
    return [line[at : at + width] for line in lines for at in range(0, max(1, len(line)), width)]


def pasted(text: str, number: int) -> str:
    """What stands in the box for a paste: itself, or a placeholder."""
    lines = text.count("\n") + 1
    if lines < LONG_PASTE[0] and len(text) < LONG_PASTE[1]:
        return text
    return f"[Pasted text #{number} +{lines} lines]"


def _prompt(view: TuiView, width: int) -> list[str]:
    if not view.box:
        return [f"❯ {PLACEHOLDER}"]
    first, *rest = wrapped(view.box, max(1, width))
    return [f"❯ {first}", *(f"  {line}" for line in rest)][-8:]


def _dialog(view: TuiView) -> list[str]:
    listed = [f"{'❯' if n == view.chosen else ' '} {n + 1}. {name}" for n, name in enumerate(view.options)]
    return [*view.question.split("\n"), *listed]


def _padded(line: str, cells: int) -> str:
    """Exactly that wide: what the eye sees as two cells counts as two, or the frame would break."""
    line = line.replace("\t", "  ")
    if line.isascii():
        return line[:cells].ljust(cells)
    from unicodedata import east_asian_width

    width, kept = 0, ""
    for character in line:
        wide = 2 if east_asian_width(character) in "WF" else 1
        if width + wide > cells:
            break
        width, kept = width + wide, kept + character
    return kept + " " * (cells - width)


def _box(content: list[str], width: int) -> list[str]:
    inner = width - 4
    return [
        f"╭{'─' * (width - 2)}╮",
        *(f"│ {_padded(line, inner)} │" for line in content),
        f"╰{'─' * (width - 2)}╯",
    ]
