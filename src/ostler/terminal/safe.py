"""Text of agents on its way to a terminal: nothing in it may act, everything in it is seen."""

import re

# Beyond C0: DEL and C1 controls, line separators, bidi controls, tags, lone surrogates.
_BEYOND = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f"
ACTING = f"[\x00-\x1f{_BEYOND}]"  # a pattern of what acts, or cannot be seen
_NOT_IN_TEXT = f"[\x00-\x08\x0b-\x1f{_BEYOND}]"  # the same but for newline and tab


def safe(text: str) -> str:
    """The text with control characters written out (`\\x1b`); newlines and tabs stay."""
    text = text.replace("\r\n", "\n")
    if text.replace("\n", "").replace("\t", "").isprintable():  # nearly all texts: nothing in it can act
        return text
    return re.sub(_NOT_IN_TEXT, _written, text)


def one_line(text: str, limit: int = 200) -> str:
    """The text as one safe line of at most `limit` characters."""
    line = safe(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
