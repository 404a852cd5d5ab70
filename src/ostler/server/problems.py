"""Errors as answers: `application/problem+json`, from whatever went wrong."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ostler.errors import ErrorKind, OstlerError

if TYPE_CHECKING:
    from litestar import Request, Response

MEDIA_TYPE = "application/problem+json"

log = logging.getLogger("ostler.server")

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
    """An answer that the door gives by itself: a status that no kind of error has."""

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
    status = getattr(error, "status_code", 500)
    if status >= 500:
        return _answer(500, "crashed", "a fault in ostler", "The server's log says more")
    return _answer(status, _kind(status), _detail(error))


def headers_of(error: BaseException) -> dict[str, str]:
    return dict(getattr(error, "headers", None) or {})


def tell(error: BaseException, what: str) -> None:
    """Logs what is a fault of ours; everything else is told to the one who asked, and to nobody else."""
    if not isinstance(error, OstlerError | Refusal) and getattr(error, "status_code", 500) >= 500:
        log.error("%s failed", what, exc_info=error)


def on_error(request: "Request[Any, Any, Any]", error: Exception) -> "Response[bytes]":
    """The one exception handler of the application."""
    from litestar import Response

    tell(error, f"{request.method} {request.url.path}")
    answer = answer_to(error)
    if answer.status == 404 and not isinstance(error, OstlerError):
        hint = "GET /api/openapi.json lists what there is"
        answer = _answer(404, "not_found", f"there is nothing at {request.scope['path']}", hint)
    body = msgspec.json.encode(answer)
    return Response(body, status_code=answer.status, media_type=MEDIA_TYPE, headers=headers_of(error))


def _answer(status: int, kind: ErrorKind, detail: str, hint: str = "", retry_at: float | None = None) -> ProblemAnswer:
    title = HTTPStatus(status).phrase
    return ProblemAnswer(title=title, status=status, kind=kind, detail=detail, hint=hint, retry_at=retry_at)


def _kind(status: int) -> ErrorKind:
    return _KIND_OF_STATUS.get(status, "bad_request")


def _detail(error: BaseException) -> str:
    """The framework says `Validation failed for …` and keeps what is wrong beside it."""
    extra = getattr(error, "extra", None)
    parts = [_part(each) for each in extra if isinstance(each, dict)] if isinstance(extra, list) else []
    return "; ".join(filter(None, parts)) or str(getattr(error, "detail", "") or error)


def _part(wrong: dict[str, Any]) -> str:
    return ": ".join(str(wrong[key]) for key in ("key", "message") if wrong.get(key))
