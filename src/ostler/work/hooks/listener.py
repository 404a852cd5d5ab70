"""A small HTTP server on loopback that takes hooks and nothing else."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

import h11

from ostler.agents.hooks import BODY_LIMIT
from ostler.work.hooks.hook_turn import HookReply

HookHandler = Callable[[str, str, bytes], Awaitable[HookReply]]

REQUEST_TAKES = 5.0  # seconds in which a request has to come whole
AT_ONCE = 256  # connections
_CHUNK = 65536
_PHRASES = {200: "OK", 204: "No Content", 400: "Bad Request", 401: "Unauthorized", 413: "Too Large", 429: "Too Many"}

_log = logging.getLogger(__name__)


class Listener:
    """Made by `open`; `close` ends its connections, too."""

    def __init__(self, take: HookHandler) -> None:
        self._take = take
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    @classmethod
    async def open(cls, take: HookHandler) -> "Listener":
        """On a free port of loopback. Raises OSError."""
        self = cls(take)
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=_CHUNK)
        self.port = self._server.sockets[0].getsockname()[1]
        _log.debug("hooks are taken at port %d", self.port)
        return self

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= AT_ONCE:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = h11.Connection(h11.SERVER)
        try:
            reply = await self._reply(link, reader)
            writer.write(_encoded(link, reply))
            await asyncio.wait_for(writer.drain(), REQUEST_TAKES)
        except (OSError, TimeoutError, h11.ProtocolError) as error:
            _log.debug("a hook was not understood, or left: %r", error)
        finally:
            with contextlib.suppress(OSError):  # it left first
                writer.close()

    async def _reply(self, link: h11.Connection, reader: asyncio.StreamReader) -> HookReply:
        async with asyncio.timeout(REQUEST_TAKES):
            read = await _request(link, reader)
        if isinstance(read, HookReply):
            return read
        return await self._take(*read)


async def _request(link: h11.Connection, reader: asyncio.StreamReader) -> tuple[str, str, bytes] | HookReply:
    """The token, the event and the body; or what is wrong with the request."""
    request: h11.Request | None = None
    body = bytearray()
    while True:
        event = link.next_event()
        if event is h11.NEED_DATA:
            link.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > BODY_LIMIT:
                return HookReply(status=413)
        elif isinstance(event, h11.EndOfMessage):
            break
        else:
            raise ConnectionResetError("it left")
    assert request is not None
    headers = dict(request.headers)
    if request.method != b"POST" or b"origin" in headers:  # a page of a browser has no business here
        return HookReply(status=400)
    target = urlsplit(request.target.decode("latin-1"))
    return bearer(headers.get(b"authorization", b"")), event_in(target.query), bytes(body)


def bearer(header: bytes) -> str:
    """The token of an Authorization header, or ""."""
    scheme, _, token = header.decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def event_in(query: str) -> str:
    """The event that a hook names in its URL."""
    return next(iter(parse_qs(query).get("event", [])), "")


def _encoded(link: h11.Connection, reply: HookReply) -> bytes:
    headers = [("Content-Length", str(len(reply.body))), ("Connection", "close")]
    if reply.body:
        headers.append(("Content-Type", "application/json"))
    head = h11.Response(status_code=reply.status, headers=headers, reason=_PHRASES.get(reply.status, ""))
    parts = [link.send(head), link.send(h11.Data(data=reply.body)), link.send(h11.EndOfMessage())]
    return b"".join(part for part in parts if part)
