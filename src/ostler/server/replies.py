"""What handlers answer with: a whole body, server-sent events, or a file. Each is an ASGI application."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

import msgspec

from ostler.errors import OstlerError
from ostler.server.problems import answer_to
from ostler.server.responses import Pairs, Receive, Scope, Send
from ostler.store.watch import Stored

HEARTBEAT = b":\n\n"  # a comment: a viewer that hears nothing at all knows that the line is dead
EVERY = 15.0
JSON = "application/json"
EVENT_STREAM = "text/event-stream"

_CHUNK = 256 * 1024


def frame(kind: str, data: bytes) -> bytes:
    """One event; `data` is JSON, so it has no line break."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def journal_frame(stored: Stored) -> bytes:
    """An event as it is stored begins with its kind."""
    seq, body = stored
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (seq, body.split(b'"', 4)[3], body)


class EventStream:
    """Sends frames as long as the client listens and the frames last. The next is asked for once one is gone.

    An error ends it: the last frame is `trouble`, with the problem that a new request would be answered with.
    """

    def __init__(self, frames: AsyncGenerator[bytes, None]) -> None:
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pump, gone = asyncio.create_task(self._pump(send)), asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pump.cancel()
            gone.cancel()
            await asyncio.gather(pump, gone, return_exceptions=True)
        if not pump.cancelled():
            pump.result()

    async def _pump(self, send: Send) -> None:
        headers = [(b"content-type", EVENT_STREAM.encode()), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            async with aclosing(self._frames) as frames:
                async for data in frames:
                    await send({"type": "http.response.body", "body": data, "more_body": True})
        except OstlerError as error:
            last = frame("trouble", msgspec.json.encode(answer_to(error)))
            await send({"type": "http.response.body", "body": last, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Reply:
    """A whole answer: bytes and text as they are, None as nothing at all, everything else as JSON."""

    def __init__(self, body: Any, *, status: int = 200, media_type: str = JSON, headers: Pairs | None = None) -> None:
        self._body = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else _encode(body)
        charset = "; charset=utf-8" if media_type.startswith("text/") else ""
        described: Pairs = [
            (b"content-type", f"{media_type}{charset}".encode()),
            (b"content-length", b"%d" % len(self._body)),
        ]
        self._status = status
        self._headers = [*(described if body is not None else ()), *(headers or ())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self._status, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})


def _encode(body: Any) -> bytes:
    return msgspec.json.encode(body) if body is not None else b""


class FileReply:
    """An open file, as a download that no browser shows by itself. Closes the descriptor."""

    def __init__(self, fd: int, name: str, media_type: str) -> None:
        self._fd, self._name, self._media_type = fd, name, media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with open(self._fd, "rb", buffering=0) as file:
            left = os.fstat(self._fd).st_size
            headers = {
                "content-type": self._media_type,
                "content-length": str(left),
                "content-disposition": f"attachment; filename*=utf-8''{quote(self._name, safe='')}",
                "x-content-type-options": "nosniff",
            }
            pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
            await send({"type": "http.response.start", "status": 200, "headers": pairs})
            while left and (data := await asyncio.to_thread(file.read, min(left, _CHUNK))):
                left -= len(data)
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
