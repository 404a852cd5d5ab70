"""What failures of agents mean: statuses and phrases that their programs and their model servers print."""

import re

from ostler.errors import ErrorKind
from ostler.model import Exit, LimitedBy

# These are compiled when they are first needed: few turns fail.
#
# A number is a status where it is called one, stands in an error of an API, or is followed by its own name; and then
# only if servers use it. Compilers, stack traces and test runners print others of three digits: `x.js:512:7`,
# `main.go:429`, `500 passed`, `status: 500 tests`, `error code: 512 (ESTALE)`.
_NAMES = r"""(?:
      bad\ request|unauthori[sz]ed|payment\ required|forbidden|not\ found|request\ timeout|conflict|payload\ too\ large
      |unprocessable\ (?:entity|content)|too\ many\ requests|internal\ server\ error|bad\ gateway
      |service\ unavailable|gateway\ time-?out|overloaded )\b"""
_USED = r"(?:40[0-489]|413|422|429|50[0-4]|52[0-9])"
_STATUS_SAID = rf"""(?imx)
    (?: \bHTTP (?:/\d(?:\.\d)?)? (?:\ (?:error|status(?:\ code)?|response|code))? [:=(\ ]{{1,3}}
      | (?<!exit\ )(?<!exited\ with\ )(?<![a-z]) status (?:[_\ ]?code)? ["']? [:=(\ ]{{1,3}} (?:Some\()?
      | ["']code["']\s*:\s*
      | \berror\ code :\s*
    ) (?P<called>{_USED})
      (?: (?=[\ \t]*$ | [^\w\s.:] | [.:](?!\d) | \ [^\w\s] | \ (?:from|for|while|returned|received)\b) | \ {_NAMES} )
    |
    (?: \bAPI[_\ ]?Error [:(\ ]{{1,3}} (?:request\ rejected\ \()? | \blast\ error :\s* )
      (?P<said>{_USED}) (?![.:]?\d|\w)
    |
    (?<![\w.:/-]) (?P<named>{_USED}) \ {_NAMES}
    """
# The names of files tell what a program is about, not what went wrong with it. A name is looked at from its beginning
# alone: from each of its letters, a long word would take minutes.
_FILE = r"(?i)(?<![\w@./-])[\w@./-]*[\w-]\.[a-z]\w{0,4}(?![\w.-])"
# What runtimes and compilers quote of a program, above a caret: of a bundled CLI that is all kinds of statuses at once.
_SOURCE = r"(?m)^.*\n[ \t]*[~^]+[ \t]*$"
_PHRASES: tuple[tuple[ErrorKind, str], ...] = (
    (
        "unauthenticated",
        (
            r"(?i)not logged in|please (run /)?log ?in|unauthori[sz]ed|(not |un)authenticated"
            r"|(fail(ed|ure)|unable|need|not|have|must|please)( to)? (re-?)?authenticate\b|no authentication"
            r"|authentication[ _]?(error|fail|required|expired|method|is (required|needed|missing))"
            r"|invalid (api|x-api)[ -]?key|api key .{0,200}(missing|not set|invalid)|missing .{0,200}api key"
            r"|no credentials|missing environment variable"
        ),
    ),
    (
        "limited",
        (
            r"(?i)(?<![a-z])rate.?limit|(?<!disk )(?<!block )quota(?!tion|ble)|too many requests|usage limit"
            r"|resource.?exhausted"
        ),
    ),
    (
        "overloaded",
        (
            r"(?im)overloaded_error|\b(is|are|was|currently|temporarily|server|service|model) overloaded\b"
            r"|\boverloaded\W*$"
            r"|high demand|(?<!resource temporarily )unavailable(?! (in|on|for) )|ECONNREFUSED|connection refused"
            r"|fetch failed"
        ),
    ),
    (
        "bad_request",
        (r"(?i)unknown (option|argument|flag)|unexpected argument|invalid[ _](request|argument|value)|bad request"),
    ),
)


def is_brief(text: str) -> bool:
    """One paragraph of few words, as errors are: a long answer may be about a rate limit."""
    return len(text) <= 300 and "\n\n" not in text.strip()


API_ERROR = r"(?i)\s*\[?API[ _]?Error\b[:( ]"


def kind_of(status: int | None, text: str) -> ErrorKind:
    """The error kind of a model server's status or, failing that, of what a CLI printed."""
    text = re.sub(_SOURCE, "", text)
    status = status_in(text) if status is None else status
    if status in (401, 403):
        return "unauthenticated"
    if status == 429:
        return "limited"
    if status is not None and status >= 500:
        return "overloaded"
    if status is not None and status >= 400:
        return "bad_request"
    words = re.sub(_FILE, "", text)
    return next((kind for kind, phrase in _PHRASES if re.search(phrase, words)), "crashed")


def limited_by(kind: ErrorKind) -> LimitedBy:
    """What holds up an agent that tries again: all but its account is trouble of the model's server."""
    return kind if kind in ("limited", "unauthenticated") else "overloaded"


def status_in(text: str) -> int | None:
    """The first number in a text that is clearly an HTTP status of an error."""
    found = re.search(_STATUS_SAID, text)
    return int(found["called"] or found["said"] or found["named"]) if found else None


def spoken(exit: Exit) -> str:
    return f"signal {exit.signal}" if exit.signal is not None else f"exit code {exit.code}"


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""
