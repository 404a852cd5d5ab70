"""The body of a request: no larger and no slower than it may be, and JSON of the very type that a route takes."""

import asyncio
from typing import Any

import msgspec

from ostler.errors import OstlerError
from ostler.server.problems import Refusal
from ostler.server.responses import Message, Receive

Headers = dict[bytes, list[bytes]]

BODY_LIMIT = 1 << 20
UPLOAD_LIMIT = 32 << 20
BODY_SECONDS = 30.0
UPLOAD_RATE = 32 << 10  # bytes a second that an upload has to come with, after BODY_SECONDS
UPLOADS = "/api/uploads/"
_HINT = "GET /api/openapi.json describes what each route takes"


class RequestBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a route takes. An unknown field is an error, so that a misspelt option is never ignored."""


def has_body(headers: Headers) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", [b"0"]) != [b"0"]


async def bounded(receive: Receive, headers: Headers, path: str) -> Receive:
    """The body, read and replayed if it is small; an upload streams, and is cut off at its limits."""
    if not has_body(headers):
        return replayed(b"", receive)
    limit = UPLOAD_LIMIT if path.startswith(UPLOADS) else BODY_LIMIT
    if b"content-length" in headers and int(headers[b"content-length"][0]) > limit:
        raise _too_large(limit)
    if limit == UPLOAD_LIMIT:
        return _streamed(receive, limit)
    return await _read(receive, limit)


def _streamed(receive: Receive, limit: int) -> Receive:
    """Each byte wins time, so that a slow line is no fault; a body that trickles in is."""
    begun, size, more = asyncio.get_running_loop().time(), 0, True

    async def streamed() -> Message:
        nonlocal size, more
        if not more:
            return await receive()
        message = await _in_time(receive, begun + BODY_SECONDS + size / UPLOAD_RATE)
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
        if size > limit:
            raise _too_large(limit)
        return message

    return streamed


async def _read(receive: Receive, limit: int) -> Receive:
    whole, more = bytearray(), True
    due = asyncio.get_running_loop().time() + BODY_SECONDS
    while more:
        message = await _in_time(receive, due)
        whole += message.get("body", b"")
        more = message.get("more_body", False)
        if len(whole) > limit:
            raise _too_large(limit)
    return replayed(bytes(whole), receive)


def replayed(whole: bytes, receive: Receive) -> Receive:
    """It has come, even if the client is gone by now."""
    body: list[Message] = [{"type": "http.request", "body": whole, "more_body": False}]

    async def again() -> Message:
        return body.pop() if body else await receive()

    return again


async def _in_time(receive: Receive, due: float) -> Message:
    """The next piece of a body that has not come whole."""
    try:
        async with asyncio.timeout_at(due):
            message = await receive()
    except TimeoutError:
        raise Refusal(408, "the body did not arrive in time", headers={"connection": "close"}) from None
    if message["type"] != "http.request":
        raise Refusal(400, "the body is incomplete")
    return message


def _too_large(limit: int) -> Refusal:
    return Refusal(413, f"the body is larger than {limit >> 20} MiB", headers={"connection": "close"})


def decode_body(body: bytes, type: Any) -> Any:
    """Strictly: "80" is not 80. Raises `bad_request` that says what is wrong, and where."""
    if not body:
        raise OstlerError("bad_request", "the body is empty", _HINT)
    try:
        return msgspec.json.decode(body, type=type)
    except RecursionError:
        raise OstlerError("bad_request", "the body is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise OstlerError("bad_request", f"the body is not valid: {error}", _HINT) from None
