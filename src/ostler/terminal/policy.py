"""What may leave a terminal: an allow-list for what a program says by OSC, and sizes that are safe.

What is not named here stays inside: OSC 1337, notifications, colours, window operations. Queries
are answered by the emulator alone.
"""

import re
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from ostler.process import Size

MIN_SIZE, MAX_SIZE = (20, 5), (500, 200)  # columns, rows; below the minimum the emulator has crashed
ABSURD = 10_000  # more cells in a row or column than any screen: a mistake, not meant
TITLE_LIMIT, LINK_LIMIT, CLIPBOARD_LIMIT = 256, 2048, 100_000
SCHEMES = frozenset({"http", "https", "mailto"})

# C0 and C1 controls, line separators, bidi controls, tags, lone surrogates.
_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def clamp(cols: int, rows: int) -> "Size":
    """The nearest size that is safe for the emulator; `bad_request` for what is no size at all."""
    from ostler.errors import OstlerError  # here, as all that the start of the screen process can do without
    from ostler.process import Size

    (min_cols, min_rows), (max_cols, max_rows) = MIN_SIZE, MAX_SIZE
    if not (0 < cols <= ABSURD and 0 < rows <= ABSURD):
        hint = f"From {min_cols}x{min_rows} to {max_cols}x{max_rows}"
        raise OstlerError("bad_request", f"{cols}x{rows} is not the size of a terminal", hint)
    return Size(min(max(cols, min_cols), max_cols), min(max(rows, min_rows), max_rows))


# -- OSC --------------------------------------------------------------------------------------------


class Policy(Struct, frozen=True, kw_only=True):
    """What is allowed beyond the harmless."""

    clipboard_write: bool = False
    clipboard_read: bool = False


CLOSED = Policy()


class Title(Struct, frozen=True, tag="title", tag_field="kind"):
    text: str


class Folder(Struct, frozen=True, tag="folder", tag_field="kind"):
    path: str


class ProgressReport(Struct, frozen=True, tag="progress", tag_field="kind"):
    state: Literal["none", "normal", "error", "busy", "paused"]
    percent: int | None = None


class Hyperlink(Struct, frozen=True, tag="link", tag_field="kind"):
    """The text that follows leads to `uri`; "" ends it (also a refused link: text without a link)."""

    uri: str


class Status(Struct, frozen=True, tag="status", tag_field="kind"):
    """What a program says of itself (OSC 7501): `blocked` waits for a person."""

    state: Literal["idle", "working", "blocked", "done"]
    app: str = ""
    message: str = ""


class ClipboardWrite(Struct, frozen=True, tag="clipboard_write", tag_field="kind"):
    text: str


class ClipboardRead(Struct, frozen=True, tag="clipboard_read", tag_field="kind"):
    pass


ProgramReport = Title | Folder | ProgressReport | Hyperlink | Status | ClipboardWrite | ClipboardRead


def osc(content: bytes, policy: Policy = CLOSED, host: str = "") -> ProgramReport | None:
    """What an OSC (all between introducer and terminator) may tell viewers; None: nothing leaves."""
    number, _, body = content.decode("utf-8", "replace").partition(";")
    match number:
        case "0" | "2":
            return Title(title(body))
        case "7":
            return Folder(path) if (path := folder(body, host)) else None
        case "8":
            return Hyperlink(link(body.partition(";")[2]) or "")
        case "9":
            return progress(body)
        case "52":
            return clipboard(body, policy)
        case "7501":
            return status(body)
        case _:
            return None


def title(text: str) -> str:
    """One line without anything that acts."""
    return _ACTING.sub("", text)[:TITLE_LIMIT].strip()


def link(uri: str) -> str | None:
    """The address, if a browser may offer it: http, https or mailto, and nothing hidden in it."""
    if len(uri) > LINK_LIMIT or _ACTING.search(uri) or any(c.isspace() or c in '<>"\\' for c in uri):
        return None
    from urllib.parse import urlsplit

    try:
        found = urlsplit(uri)
        host = found.hostname
    except ValueError:
        return None
    wanted = found.path if found.scheme == "mailto" else host
    return uri if found.scheme in SCHEMES and wanted else None


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


_PROGRESS: dict[str, Literal["none", "normal", "error", "busy", "paused"]] = {
    "0": "none",
    "1": "normal",
    "2": "error",
    "3": "busy",
    "4": "paused",
}


def progress(body: str) -> ProgressReport | None:
    """OSC 9;4;STATE;PERCENT. Other forms of OSC 9 are notifications: they stay inside."""
    found = re.fullmatch(r"4;([0-4])(?:;(\d{1,4})?)?", body)
    if not found:
        return None
    state = _PROGRESS[found[1]]
    percent = min(int(found[2]), 100) if found[2] and state not in ("none", "busy") else None
    return ProgressReport(state, percent)


def status(body: str) -> Status | None:
    """OSC 7501;state=…:app=…:msg=BASE64. The question `?` is the emulator's to answer."""
    fields = dict(part.partition("=")[::2] for part in body.split(":"))
    state = fields.get("state")
    if state not in ("idle", "working", "blocked", "done"):
        return None
    message = _unpacked(fields.get("msg", "")) or ""
    return Status(state, title(fields.get("app", "")), title(message))  # type: ignore[arg-type]


def clipboard(body: str, policy: Policy) -> ClipboardWrite | ClipboardRead | None:
    """OSC 52;TARGETS;BASE64 or `?`."""
    _, _, packed = body.partition(";")
    if packed == "?":
        return ClipboardRead() if policy.clipboard_read else None
    text = _unpacked(packed) if policy.clipboard_write else None
    return None if text is None else ClipboardWrite(text)


def _unpacked(packed: str) -> str | None:
    if len(packed) > CLIPBOARD_LIMIT:
        return None
    from binascii import a2b_base64

    try:
        return a2b_base64(packed, strict_mode=True).decode()
    except ValueError:
        return None
