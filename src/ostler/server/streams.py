"""Answers that are sent piece by piece: server-sent events, and files."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import quote

from litestar.types import Receive, Scope, Send

from ostler.store.watch import Stored

HEARTBEAT = b":\n\n"  # a comment: a viewer that hears nothing at all knows that the line is dead
EVERY = 15.0
MEDIA_TYPE = "text/event-stream"

_CHUNK = 256 * 1024


def frame(kind: str, data: bytes) -> bytes:
    """One event; `data` is JSON, so it has no line break."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def journal_frame(stored: Stored) -> bytes:
    """An event as it is stored begins with its kind."""
    seq, body = stored
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (seq, body.split(b'"', 4)[3], body)


class EventStream:
    """Sends frames as long as the client listens and the frames last. The next is asked for once one is gone."""

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
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with aclosing(self._frames) as frames:
            async for data in frames:
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Bytes:
    """An answer that is encoded already."""

    def __init__(self, body: bytes, media_type: str) -> None:
        self._body, self._media_type = body, media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", self._media_type.encode()), (b"content-length", b"%d" % len(self._body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})


class FileAnswer:
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
