"""Errors as answers: `application/problem+json`, from whatever went wrong."""

import logging
from collections.abc import Mapping
from http import HTTPStatus

from msgspec import Struct

from ostler.errors import INTERNAL_ERROR, ErrorKind, OstlerError
from ostler.terminal.safe import one_line

MEDIA_TYPE = "application/problem+json"

_log = logging.getLogger(__name__)

_KIND_OF_STATUS: dict[int, ErrorKind] = {
    401: "unauthenticated",
    403: "denied",
    404: "not_found",
    405: "unsupported",
    408: "timed_out",
    409: "busy",
    429: "too_many",
}


class ProblemAnswer(Struct, frozen=True, kw_only=True):
    """The body of every answer that is an error (RFC 9457, and ostler's kind of error)."""

    title: str
    status: int
    kind: ErrorKind
    detail: str
    hint: str = ""
    retry_at: float | None = None
    type: str = "about:blank"


class Refusal(Exception):
    """An answer that the gateway gives by itself: a status that no kind of error has."""

    def __init__(self, status: int, detail: str, hint: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.hint = status, detail, hint
        self.headers = dict(headers or {})


def answer_to(error: BaseException) -> ProblemAnswer:
    """What the one who asked is told. Of a fault of ours that is no more than that it happened."""
    if isinstance(error, OstlerError):
        status = error.http_status
        return _answer(status, error.kind, error.message, error.hint, error.retry_at)
    if isinstance(error, Refusal):
        return _answer(error.status, _kind(error.status), error.detail, error.hint)
    return _answer(500, "crashed", INTERNAL_ERROR, "See the server's log")


def headers_of(error: BaseException) -> dict[str, str]:
    return dict(getattr(error, "headers", None) or {})


def log_error(error: BaseException, what: str) -> None:
    """Logs what is a fault of ours as an error; everything else is told to the one who asked, and logged at debug."""
    if not isinstance(error, OstlerError | Refusal):
        _log.error("%s failed", one_line(what), exc_info=error)
    else:
        _log.debug("%s was refused: %s", one_line(what), one_line(str(error)))


def _answer(status: int, kind: ErrorKind, detail: str, hint: str = "", retry_at: float | None = None) -> ProblemAnswer:
    title = HTTPStatus(status).phrase
    return ProblemAnswer(title=title, status=status, kind=kind, detail=detail, hint=hint, retry_at=retry_at)


def _kind(status: int) -> ErrorKind:
    return _KIND_OF_STATUS.get(status, "bad_request")
