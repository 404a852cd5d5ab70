"""How wide text stands on a terminal. Pure."""

import unicodedata


def cells(text: str) -> int:
    """The cells that a line without control characters takes."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def shorten(text: str, room: int) -> str:
    """The line, or as much of it as there is room for, with `…` where it was cut."""
    if cells(text) <= room:
        return text
    taken = 0
    for at, char in enumerate(text):
        taken += _cells_of(char)
        if taken > room - 1:
            return text[:at] + "…"
    return text


def _cells_of(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
