"""One POST: the name is resolved once, the address is looked at, no redirect is followed, no proxy is used."""

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import h11
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.work.forward.addresses import refusal

TAKES = 20.0  # seconds for all of it
ANSWER_LIMIT = 16 * 1024
_CHUNK = 65536


class Posted(Struct, frozen=True, kw_only=True):
    """What the other side said."""

    status: int
    body: str


async def post(url: str, headers: Mapping[str, str], body: bytes, *, allow_private: bool) -> Posted:
    """Raises denied for an address that may not be posted to, bad_request for a URL that cannot be, OSError and
    TimeoutError for what may go well another time.
    """
    host, port, secure = _server_of(url)
    async with asyncio.timeout(TAKES):
        address, port = await _resolved(host, port, allow_private)
        tls = ssl.create_default_context() if secure else None
        reader, writer = await asyncio.open_connection(address, port, ssl=tls, server_hostname=host if tls else None)
        try:
            return await _exchange(reader, writer, url, headers, body)
        except h11.ProtocolError as error:
            raise ConnectionError(f"the answer is not HTTP: {error}") from error
        finally:
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):  # it has answered, or it left
                writer.transport.abort()


def _server_of(url: str) -> tuple[str, int, bool]:
    """Host, port, and whether by TLS."""
    try:
        parts = urlsplit(url)
        host, port, secure = parts.hostname or "", parts.port, parts.scheme == "https"
        host.encode("idna")
    except ValueError as error:  # of a port or of a name that cannot be
        raise OstlerError("bad_request", f"{origin_of(url)} cannot be posted to: {error}") from error
    if parts.scheme not in ("http", "https") or not host or parts.username:
        raise OstlerError("bad_request", f"{origin_of(url)} cannot be posted to")
    return host, port or (443 if secure else 80), secure


def origin_of(url: str) -> str:
    """Scheme, host and port: the rest may be a secret."""
    found = re.match(r"(\w+)://([^/?#]*)", url)  # urlsplit raises for some that a person has mistyped
    return f"{found[1]}://{found[2].rpartition('@')[2]}" if found else "://"


async def _resolved(host: str, port: int, allow_private: bool) -> tuple[str, int]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    if why := refusal(addresses, allow_private):
        hint = "If that is intended, set allow_private = true beside its url"
        raise OstlerError("denied", f"{host} cannot be posted to: {why}", hint)
    return addresses[0], port


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: str, headers: Mapping[str, str], body: bytes
) -> Posted:
    parts, link = urlsplit(url), h11.Connection(h11.CLIENT)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    sent = {"Host": parts.netloc, **headers, "Content-Length": str(len(body)), "Connection": "close"}
    request = h11.Request(method="POST", target=target, headers=list(sent.items()))
    for part in (request, h11.Data(data=body), h11.EndOfMessage()):
        writer.write(link.send(part) or b"")
    await writer.drain()
    status, said = 0, bytearray()
    while True:
        event = link.next_event()
        if event is h11.NEED_DATA:
            link.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            said += event.data[: ANSWER_LIMIT - len(said)]
            if len(said) >= ANSWER_LIMIT:
                break
        elif isinstance(event, h11.EndOfMessage):
            break
        elif isinstance(event, h11.ConnectionClosed):
            raise ConnectionResetError("it closed the connection without an answer")
    return Posted(status=status, body=said.decode("utf-8", "replace"))
