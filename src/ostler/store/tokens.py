"""What a secret looks like: tokens known by their shape, as pieces that also tell an unfinished one."""

import re
from typing import NamedTuple


class Run(NamedTuple):
    """At least `least` characters of a class."""

    chars: str
    least: int
    most: int | None = None


class Token(NamedTuple):
    """A shape: literal pieces and runs. The last `secret` of them are what must not be seen."""

    parts: tuple[str | Run, ...]
    secret: int
    starts: tuple[str, ...]  # literals with one of which every such token begins
    needs: str = ""  # a condition on the secret, as a regular expression at its beginning
    apart: bool = True  # must not follow a letter, digit, `_` or `-`: "task-force" is no key


_WORD = "A-Za-z0-9_-"
_BASE64 = "A-Za-z0-9+/="
_PEM = ("-----BEGIN ", Run("A-Z0-9 ", 0), "PRIVATE KEY", Run("A-Z -", 5), Run(r"\s\\nr", 0))


def _token(start: str, chars: str, least: int, needs: str = "") -> Token:
    return Token((start, Run(chars, least)), 2, (start,), needs)


TOKENS: tuple[Token, ...] = (
    _token("sk-ant-", _WORD, 16),
    # Other "sk-" keys: a long run with a digit, since class names of style sheets begin so too.
    _token("sk-", _WORD, 20, rf"(?=[{_WORD}]*[A-Za-z0-9]{{16}})(?=[{_WORD}]*[0-9])"),
    _token("sk_live_", "A-Za-z0-9", 16),
    _token("rk_live_", "A-Za-z0-9", 16),
    Token(("gh", Run("pousr", 1, 1), "_", Run("A-Za-z0-9", 30)), 4, tuple(f"gh{c}_" for c in "pousr")),
    _token("github_pat_", "A-Za-z0-9_", 22),
    _token("glpat-", _WORD, 20),
    _token("AKIA", "A-Z0-9", 16, "(?=[A-Z]*[0-9])"),
    _token("ASIA", "A-Z0-9", 16, "(?=[A-Z]*[0-9])"),
    _token("AIza", _WORD, 35),
    Token(
        ("xox", Run("abeprs", 1, 1), "-", Run("A-Za-z0-9-", 10)),
        4,
        tuple(f"xox{c}-" for c in "abeprs"),
        "(?=[A-Za-z-]*[0-9])",
    ),
    Token(
        (Run("Bb", 1, 1), "earer", Run(r" \t", 1, 4), Run("A-Za-z0-9._~+/=-", 16)),
        1,
        ("Bearer", "bearer"),
        "(?=[A-Za-z._~+/=-]*[0-9])",
    ),
    Token(("eyJ", Run(_WORD, 8), ".eyJ", Run(_WORD, 8), ".", Run(_WORD, 8)), 6, ("eyJ",)),
    Token((*_PEM, Run(_BASE64, 40), Run(_BASE64 + r"\s\\", 0)), 2, ("-----BEGIN ",), apart=False),
    Token((*_PEM, "Proc-Type:", Run(_BASE64 + r"\s\\:,-", 40)), 2, ("-----BEGIN ",), apart=False),
)


def whole(token: Token) -> str:
    """The regular expression of the complete token; group 1 is the secret in it."""
    pieces = [_piece(part) for part in token.parts]
    kept, secret = pieces[: -token.secret], pieces[-token.secret :]
    return _apart(token) + "".join(kept) + token.needs + "(" + "".join(secret) + ")"


def unfinished(token: Token) -> str:
    """The regular expression of what, at the end of a text, may yet become or continue the token."""
    text = ""
    for part in reversed(token.parts):
        text = _unfinished(part, text)
    return _apart(token) + text + r"\Z"


def beginnings(starts: set[str], *, tail: bool, apart: bool = False) -> list[str]:
    """Regular expressions, one for each first letter, that find a start (with `tail` also a cut one at the end)."""
    return [
        re.escape(letter)
        + (rf"(?:(?<![{_WORD}]{letter})|(?<=\\[nrt]{letter}))" if apart and letter != "-" else "")
        + _trie({start[1:] for start in starts if start[0] == letter}, tail)
        for letter in sorted({start[0] for start in starts})
    ]


def _trie(words: set[str], tail: bool) -> str:
    if "" in words:
        return ""
    letters = sorted({word[0] for word in words})
    branches = [
        re.escape(letter) + _trie({word[1:] for word in words if word[0] == letter}, tail) for letter in letters
    ]
    return "(?:" + "|".join(branches + [r"\Z"] * tail) + ")"


def _piece(part: str | Run) -> str:
    if isinstance(part, str):
        return re.escape(part)
    return f"[{part.chars}]{{{part.least},{'' if part.most is None else part.most}}}"


def _unfinished(part: str | Run, rest: str) -> str:
    """The part followed by an unfinished rest, or only the beginning of the part."""
    if isinstance(part, Run):
        alone = _piece(part._replace(least=min(part.least, 1)))
        return f"(?:{_piece(part)}{rest}|{alone})" if rest else alone
    text = re.escape(part[-1]) + (f"(?:{rest})?" if rest else "")
    for letter in reversed(part[:-1]):
        text = f"{re.escape(letter)}(?:{text})?"
    return text


def _apart(token: Token) -> str:
    """A line break that JSON wrote as `\\n` sets apart too: raw records are searched as they came."""
    return rf"(?:(?<![{_WORD}])|(?<=\\[nrt]))" if token.apart else ""
