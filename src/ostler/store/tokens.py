"""What a secret looks like: tokens known by their shape, as pieces that are read from left to right.

No part of a shape has to be read twice: a run ends where its class ends, and what follows cannot begin within it.
Neither can another token of the same shape, but for the few that a literal part lets begin. So the work for any
text is bounded by its length; tests/store/test_linear.py counts it.
"""

import re

from msgspec import Struct, structs

from ostler.signed_tokens import BEGINNINGS


class Need(Struct, frozen=True):
    """A condition on a run: this stands somewhere in it. `pattern` always matches `width` characters."""

    pattern: str
    width: int


class Run(Struct, frozen=True):
    """At least `least` characters of a class, as many as there are (or `most`)."""

    chars: str
    least: int
    most: int | None = None
    needs: tuple[Need, ...] = ()


class TokenShape(Struct, frozen=True):
    """One of `starts`, then all `parts`. The first `kept` of these pieces, the start being one, may be seen."""

    starts: tuple[str, ...]
    parts: tuple[str | Run, ...]
    kept: int = 0
    apart: bool = True  # must not follow a letter, digit, `_` or `-`: "task-force" is no key


WORD = "A-Za-z0-9_-"
_BASE64 = "A-Za-z0-9+/="
_LOCKED = Run(_BASE64 + r"\s\\:,", 1)
_DIGIT = Need("[0-9]", 1)
_DENSE = Need("[A-Za-z0-9]{16}", 16)
_PEM = (Run("A-Z0-9 ", 11, 64, (Need("PRIVATE KEY", 11),)), "-----", Run(r"\s\\nr", 0))


def _token(start: str, chars: str, least: int, *needs: Need) -> TokenShape:
    return TokenShape((start,), (Run(chars, least, None, needs),))


def _pem(*body: str | Run) -> TokenShape:
    return TokenShape(("-----BEGIN ",), (*_PEM, *body), kept=4, apart=False)


TOKENS: tuple[TokenShape, ...] = (
    _token("sk-ant-", WORD, 16),
    # Other "sk-" keys: a long run with a digit, since class names of style sheets begin so too.
    _token("sk-", WORD, 20, _DENSE, _DIGIT),
    _token("sk_live_", "A-Za-z0-9", 16),
    _token("rk_live_", "A-Za-z0-9", 16),
    TokenShape(tuple(f"gh{kind}_" for kind in "pousr"), (Run("A-Za-z0-9", 30),)),
    _token("github_pat_", "A-Za-z0-9_", 22),
    _token("glpat-", WORD, 20),
    _token("AKIA", "A-Z0-9", 16, _DIGIT),
    _token("ASIA", "A-Z0-9", 16, _DIGIT),
    _token("AIza", WORD, 35),
    TokenShape(tuple(f"xox{kind}-" for kind in "abeprs"), (Run("A-Za-z0-9-", 10, None, (_DIGIT,)),)),
    TokenShape(("Bearer", "bearer"), (Run(r" \t", 1, 4), Run("A-Za-z0-9._~+/=-", 16, None, (_DIGIT,))), kept=2),
    TokenShape(("eyJ",), (Run(WORD, 8), ".eyJ", Run(WORD, 8), ".", Run(WORD, 8))),
    TokenShape(BEGINNINGS, (Run(WORD, 30), ".", Run(WORD, 43))),
    _pem(Run(_BASE64, 40), Run(_BASE64 + r"\s\\", 0)),
    # With a passphrase. "DEK-Info: AES-128-CBC" and "DEK-Info: DES-CBC" differ by a hyphen.
    _pem("Proc-Type:", _LOCKED, "-", _LOCKED, "-", _LOCKED, "-", structs.replace(_LOCKED, least=40)),
    _pem("Proc-Type:", _LOCKED, "-", _LOCKED, "-", structs.replace(_LOCKED, least=40)),
)


def beginnings(words: set[str], *, tail: str = "", apart: bool = False) -> list[str]:
    """Regular expressions, one for each first letter, that find a word, or one that is cut off by `tail`."""
    return [
        re.escape(letter)
        # A line break that JSON wrote as `\n` sets apart too: raw records are searched as they came.
        + (rf"(?:(?<![{WORD}]{letter})|(?<=\\[nrt]{letter}))" if apart else "")
        + _branches({word[1:] for word in words if word[0] == letter}, tail)
        for letter in sorted({word[0] for word in words})
    ]


def _branches(words: set[str], tail: str) -> str:
    if "" in words:
        return ""
    letters = sorted({word[0] for word in words})
    branches = [
        re.escape(letter) + _branches({word[1:] for word in words if word[0] == letter}, tail) for letter in letters
    ]
    return "(?:" + "|".join(branches + [tail] * bool(tail)) + ")"
