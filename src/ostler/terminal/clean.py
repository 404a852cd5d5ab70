"""What a program calls its terminal and its folder, safe to show; and sizes that are safe for the emulator."""

import re
from typing import TYPE_CHECKING

from ostler.terminal.safe import ACTING

if TYPE_CHECKING:
    from ostler.process import Size

MIN_SIZE, MAX_SIZE = (20, 5), (500, 200)  # columns, rows; below the minimum the emulator has crashed
ABSURD = 10_000  # more cells in a row or column than any screen: a mistake, not meant
TITLE_LIMIT = 256

_ACTING = re.compile(ACTING)


def clamp(cols: int, rows: int) -> "Size":
    """The nearest size that is safe for the emulator; `bad_request` for what is no size at all."""
    from ostler.errors import OstlerError  # here, as all that the start of the screen process can do without
    from ostler.process import Size

    (min_cols, min_rows), (max_cols, max_rows) = MIN_SIZE, MAX_SIZE
    if not (0 < cols <= ABSURD and 0 < rows <= ABSURD):
        hint = f"From {min_cols}x{min_rows} to {max_cols}x{max_rows}"
        raise OstlerError("bad_request", f"{cols}x{rows} is not the size of a terminal", hint)
    return Size(min(max(cols, min_cols), max_cols), min(max(rows, min_rows), max_rows))


def title(text: str) -> str:
    """One line without anything that acts."""
    return _ACTING.sub("", text)[:TITLE_LIMIT].strip()


def folder(uri: str, host: str = "") -> str | None:
    """The absolute path of `file://HOST/PATH` on this machine (`host`)."""
    if not uri:
        return None
    from urllib.parse import unquote, urlsplit

    try:
        found = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(found.path, errors="replace")
    near = found.netloc.lower() in ("", "localhost", host.lower())
    plain = path.startswith("/") and len(path) <= 4096 and not _ACTING.search(path)
    return path if found.scheme == "file" and near and plain else None
