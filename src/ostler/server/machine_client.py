"""HTTP to another machine: connections are kept open for the next request, bodies go through as they come."""

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import urlsplit

import h11

from ostler import clock
from ostler.errors import OstlerError
from ostler.server.connection import give_up_when_stalled
from ostler.server.responses import Pairs
from ostler.server.tls import fingerprint

CONNECT_SECONDS = 3.0
_IDLE_SECONDS = 3.0  # uvicorn closes a connection on which nothing is asked for five
_MOST_IDLE = 32
_CHUNK = 64 * 1024


class MachineConnection:
    """One connection; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._h11 = h11.Connection(h11.CLIENT)
        self.since = 0.0  # when it became idle

    @property
    def is_fresh(self) -> bool:
        """Whether it can still be expected to be open."""
        return not self._reader.at_eof() and clock.monotonic() - self.since < _IDLE_SECONDS

    async def send(self, method: str, target: str, headers: Pairs, body: AsyncIterator[bytes]) -> None:
        request = h11.Request(method=method, target=target, headers=headers)
        self._writer.write(self._h11.send(request) or b"")
        async for data in body:
            self._writer.write(self._h11.send(h11.Data(data=data)) or b"")
            await self._writer.drain()
        self._writer.write(self._h11.send(h11.EndOfMessage()) or b"")
        await self._writer.drain()

    async def head(self) -> h11.Response:
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                return event

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            event = await self._next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return

    async def _next(self) -> h11.Event:
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                self._h11.receive_data(await self._reader.read(_CHUNK))
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                raise ConnectionResetError("it closed the connection")
            else:
                assert not isinstance(event, type)  # the other sentinel is dealt with above
                return event

    def ready_for_next(self) -> bool:
        """Whether another request can be sent on it."""
        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        self._h11.start_next_cycle()
        self.since = clock.monotonic()
        return True

    def close(self) -> None:
        with suppress(OSError, ssl.SSLError):  # it may have gone before us
            self._writer.transport.abort()


class MachineAnswer:
    """An answer that has begun. Use `async with`: at its end the connection is kept or closed."""

    def __init__(self, client: "MachineClient", connection: MachineConnection, head: h11.Response) -> None:
        self._client, self._connection = client, connection
        self.status = head.status_code
        self.headers: Pairs = [(bytes(name).lower(), bytes(value)) for name, value in head.headers]

    async def __aenter__(self) -> "MachineAnswer":
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._client.give_back(self._connection)

    def chunks(self) -> AsyncIterator[bytes]:
        return self._connection.chunks()

    async def body(self) -> bytes:
        return b"".join([data async for data in self.chunks()])


class MachineClient:
    """For one address. Errors are those of the network: OSError, TimeoutError, h11's."""

    def __init__(self, url: str, ca: str = "", fingerprint: str = "") -> None:
        """`ca`: of an `https` address, the file of certificates that prove it; "": those of the system.

        `fingerprint`: of the very certificate that it has; then neither its name nor who issued it matters.
        """
        parts = urlsplit(url)
        self._secure, self._ca, self._fingerprint = parts.scheme == "https", ca, fingerprint
        self._host, self._port = parts.hostname or "", parts.port or (443 if self._secure else 80)
        self._name = parts.netloc.encode()
        self._idle: list[MachineConnection] = []
        self._closed = False

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    async def request(self, method: str, target: str, headers: Pairs, body: AsyncIterator[bytes]) -> MachineAnswer:
        """The beginning of the answer, once it has come. On cancel the connection is closed."""
        connection = await self._connection()
        try:
            await connection.send(method, target, [(b"host", self._name), *headers], body)
            return MachineAnswer(self, connection, await connection.head())
        except BaseException:
            connection.close()
            raise

    def give_back(self, connection: MachineConnection) -> None:
        if not self._closed and len(self._idle) < _MOST_IDLE and connection.ready_for_next():
            self._idle.append(connection)
        else:
            connection.close()

    async def _connection(self) -> MachineConnection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh:
                return connection
            connection.close()
        tls = (_unchecked() if self._fingerprint else tls_context(self._ca)) if self._secure else None
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(self._host, self._port, ssl=tls)
        if self._secure and self._fingerprint:
            _check_fingerprint(writer, self._fingerprint)
        give_up_when_stalled(writer.transport)
        return MachineConnection(reader, writer)


@functools.cache
def tls_context(ca: str) -> ssl.SSLContext:
    """Certificates are checked, and that they are of the host that is asked. Raises bad_request for a file of none."""
    try:
        return ssl.create_default_context(cafile=ca or None)
    except OSError as error:  # of which ssl.SSLError is one
        hint = "Name a file of certificates in PEM form"
        raise OstlerError("bad_request", f"{ca} cannot be used to check certificates: {error}", hint) from error


@functools.cache
def _unchecked() -> ssl.SSLContext:
    """For a peer whose certificate is compared with the one that is known."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _check_fingerprint(writer: asyncio.StreamWriter, known: str) -> None:
    """Before anything is said: a token must not go to another one. Raises OSError."""
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    if fingerprint(certificate) != known:
        writer.transport.abort()
        raise ConnectionAbortedError("its certificate is not the one of the server that was started")


NETWORK_ERRORS = (OSError, TimeoutError, h11.ProtocolError)


async def no_body() -> AsyncIterator[bytes]:
    """For a request without one."""
    nothing: tuple[bytes, ...] = ()
    for data in nothing:
        yield data
