"""The one exception of ostler, and the kinds it comes in."""

import errno
import logging
from typing import Literal, get_args

# Here, since whatever logs imports this: the program that uses ostler decides what is shown.
logging.getLogger("ostler").addHandler(logging.NullHandler())

ErrorKind = Literal[
    "missing",  # a program or package that is needed is not installed
    "unauthenticated",
    "bad_request",
    "unsupported",  # the agent cannot do what was asked for
    "limited",  # a quota or rate limit
    "overloaded",  # the model's server is in trouble
    "over_budget",
    "crashed",
    "timed_out",
    "cancelled",
    "unproven",  # it ended, and nothing shows that it succeeded
    "undelivered",
    "invalid_output",
    "store",
    "busy",
    "exists",
    "too_many",
    "not_found",
    "denied",
]


class Codes:
    """What a kind of error becomes at the edges."""

    __slots__ = ("exit", "http")

    def __init__(self, exit: int, http: int) -> None:
        self.exit, self.http = exit, http


KINDS: dict[ErrorKind, Codes] = {
    "missing": Codes(1, 424),
    "unauthenticated": Codes(1, 424),
    "bad_request": Codes(2, 400),
    "unsupported": Codes(2, 422),
    "limited": Codes(1, 429),
    "overloaded": Codes(1, 503),
    "over_budget": Codes(1, 402),
    "crashed": Codes(1, 502),
    "timed_out": Codes(124, 504),
    "cancelled": Codes(130, 409),
    "unproven": Codes(1, 502),
    "undelivered": Codes(1, 502),
    "invalid_output": Codes(1, 502),
    "store": Codes(1, 500),
    "busy": Codes(1, 409),
    "exists": Codes(1, 409),
    "too_many": Codes(1, 429),
    "not_found": Codes(2, 404),
    "denied": Codes(1, 403),
}
assert set(KINDS) == set(get_args(ErrorKind))


_OS_KINDS: dict[int, ErrorKind] = {
    **dict.fromkeys((errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM), "too_many"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO), "store"),
}


def kind_of_os_error(error: OSError, otherwise: ErrorKind) -> ErrorKind:
    """What an operating system's error means where nobody knows better."""
    return _OS_KINDS.get(error.errno or 0, otherwise)


def quoted(value: object) -> str:
    """A value within a message, as it was typed: only what would not show is escaped. What is no text, as JSON."""
    if not isinstance(value, str):
        import json  # seldom

        return json.dumps(value, ensure_ascii=False, default=str)
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in value)
    return f"'{shown}'"


INTERNAL_ERROR = "internal error (this is a bug in ostler)"


def internal_error(error: BaseException) -> str:
    """What people are told of an exception that nobody expected."""
    return f"{INTERNAL_ERROR}: {type(error).__name__}: {error}"


class OstlerError(Exception):
    """Something that cannot be done: what failed, on what (`message`), and what to do next (`hint`)."""

    def __init__(self, kind: ErrorKind, message: str, hint: str = "", retry_at: float | None = None) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.hint = hint
        self.retry_at = retry_at

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message

    def __repr__(self) -> str:
        hint = f", hint={self.hint!r}" if self.hint else ""
        return f"OstlerError({self.kind!r}, {self.message!r}{hint})"

    @property
    def exit_code(self) -> int:
        return KINDS[self.kind].exit

    @property
    def http_status(self) -> int:
        return KINDS[self.kind].http
