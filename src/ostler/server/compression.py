"""Answers are compressed for whoever takes gzip: JSON and events shrink to a fifth, and not everybody is on loopback.

The length of a compressed answer tells something about its text to who can see the length and choose part of the text
(BREACH). That is why only answers to GET are compressed: cookies and tokens are handed out in answers to POST and in
headers, so no compressed answer holds one. And no other page can have a browser ask for an answer again and again with
its login: the cookie is SameSite=Strict, and the gateway refuses what comes from another site.
"""

import asyncio
import zlib
from collections.abc import Iterable

from ostler.server.responses import Message, Pairs, Scope, Send

LEAST = 1024  # bytes: below it nothing is gained
AT_ONCE = 64 * 1024  # bytes that are compressed without leaving the event loop
_TYPES = (b"application/json", b"application/problem+json", b"application/x-asciicast", b"text/")
_STREAM = b"text/event-stream"
_GZIP = 16  # zlib's way to ask for gzip: added to the size of the window


def compressing(scope: Scope, send: Send) -> Send:
    """`send`, which compresses what gains by it. Events go out as soon as they come."""
    if scope["type"] != "http" or scope["method"] != "GET" or not takes_gzip(scope["headers"]):
        return send
    return _Compressing(send).send


def takes_gzip(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether Accept-Encoding names gzip, and does not refuse it by `q=0`."""
    given = b",".join(value for name, value in headers if name.lower() == b"accept-encoding")
    for part in given.lower().split(b","):
        name, _, weight = part.replace(b" ", b"").partition(b";q=")
        if name == b"gzip":
            return weight.strip(b"0.") != b"" or weight == b""
    return False


class _Compressing:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._compressor: zlib._Compress | None = None
        self._is_stream = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begin(message)
        elif message["type"] == "http.response.body" and self._compressor is not None:
            more = bool(message.get("more_body"))
            body = await self._packed(self._compressor, message.get("body", b""), more)
            if more and not body:
                return  # it is kept for the next piece
            message = {**message, "body": body}
        await self._send(message)

    def _begin(self, message: Message) -> None:
        given: Pairs = [(name.lower(), value) for name, value in message.get("headers", ())]
        headers = dict(given)
        if message["status"] != 200 or not _gains(headers):
            return
        self._is_stream = headers[b"content-type"].startswith(_STREAM)
        # A stream stays for hours, and there are many: a small window takes 64 KB of memory instead of 256.
        level, window, memory = (4, 13, 6) if self._is_stream else (5, 15, 8)
        self._compressor = zlib.compressobj(level, zlib.DEFLATED, _GZIP + window, memory)
        kept = [pair for pair in given if pair[0] != b"content-length"]
        message["headers"] = [*kept, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]

    async def _packed(self, compressor: "zlib._Compress", body: bytes, more: bool) -> bytes:
        if self._is_stream or len(body) <= AT_ONCE:
            return self._pack(compressor, body, more)
        return await asyncio.to_thread(self._pack, compressor, body, more)

    def _pack(self, compressor: "zlib._Compress", body: bytes, more: bool) -> bytes:
        packed = compressor.compress(body)
        if not more:
            return packed + compressor.flush(zlib.Z_FINISH)
        return packed + compressor.flush(zlib.Z_SYNC_FLUSH) if self._is_stream and body else packed


def _gains(headers: dict[bytes, bytes]) -> bool:
    kind, length = headers.get(b"content-type", b""), headers.get(b"content-length")
    if not kind.startswith(_TYPES) or b"content-encoding" in headers:
        return False
    return length is None or int(length) >= LEAST
