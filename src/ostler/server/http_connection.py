"""An HTTP connection as uvicorn carries it, which no peer can keep open by saying nothing, or almost nothing.

uvicorn waits for ever for the rest of a request's headers, and of a body that nobody reads any more. Here every wait
has its time, and those on whom we wait are bounded in number: the one that has waited longest gives way.
What breaks the rules of HTTP is answered with 400 or hung up on, and is nobody's fault but the peer's.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ostler.server.connection import give_up_when_stalled

HEADER_SECONDS = 10.0  # from the first byte (or from the connection) to the end of the headers
DRAIN_SECONDS = 5.0  # for the rest of a body, once the request is answered
IDLE_EACH, IDLE_ALL = 128, 1024  # connections of one address, and of all, on which nothing is asked

_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class HttpConnection(H11Protocol):
    def __init__(self, *args: Any, idle: "IdleConnections", **more: Any) -> None:
        super().__init__(*args, **more)
        self._idle = idle
        self._timer: asyncio.TimerHandle | None = None

    # -- what uvicorn calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        give_up_when_stalled(transport)
        self._idle.add(self, self.client[0] if self.client else "")
        self._wait_at_most(HEADER_SECONDS)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._wait_at_most(HEADER_SECONDS)

    def handle_events(self) -> None:
        try:
            super().handle_events()
        except h11.LocalProtocolError:
            self.transport.close()  # there is no way left to say what is wrong
        if self.conn.their_state is not h11.IDLE and not self._drains:
            self._is_asked()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._is_asked()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        self._is_asked()
        self._idle.add(self, self.client[0] if self.client else "")
        super().on_response_complete()
        if self._drains and not self.transport.is_closing():
            self._wait_at_most(DRAIN_SECONDS)

    def send_400_response(self, msg: str) -> None:
        """Whoever works on the request hears that there will be no more of it; what it answers goes nowhere."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        super().send_400_response(msg)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_asked()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.LocalProtocolError:
            self.transport.close()

    # -- waiting

    @property
    def _drains(self) -> bool:
        """Answered, and yet the body still comes."""
        return self.cycle is not None and self.cycle.response_complete and self.conn.their_state is h11.SEND_BODY

    def _wait_at_most(self, seconds: float) -> None:
        """From the first call on: a byte now and then wins no time."""
        if self._timer is None:
            self._timer = self.loop.call_later(seconds, self._too_late)

    def _is_asked(self) -> None:
        self._idle.remove(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
                self.transport.write(_TOO_LATE)
            self.transport.close()

    def give_way(self) -> None:
        self._is_asked()
        self.transport.abort()


class IdleConnections:
    """Those on which nothing is asked, the oldest first. One too many ends the oldest: a newcomer is let in."""

    def __init__(self, each: int = IDLE_EACH, all: int = IDLE_ALL) -> None:
        self._each, self._all = each, all
        self._peers: dict[HttpConnection, str] = {}
        self._of: dict[str, dict[HttpConnection, None]] = {}

    def add(self, connection: HttpConnection, peer: str) -> None:
        self.remove(connection)
        self._peers[connection] = peer
        mine = self._of.setdefault(peer, {})
        mine[connection] = None
        if len(mine) > self._each:
            next(iter(mine)).give_way()
        elif len(self._peers) > self._all:
            next(iter(self._peers)).give_way()

    def remove(self, connection: HttpConnection) -> None:
        peer = self._peers.pop(connection, None)
        if peer is not None:
            self._of[peer].pop(connection)
            if not self._of[peer]:
                del self._of[peer]
