"""A WebSocket connection as uvicorn carries it, which no peer can keep open by not reading.

uvicorn closes a connection by flushing it first. A peer that has stopped to read would stay for ever: after a ping
without an answer, and until the deadline of a shutdown. Here the kernel gives up on it, and a shutdown does not wait.
"""

import socket
from asyncio.transports import BaseTransport

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ostler.terminal.viewing import FRAME_LIMIT

CLOSING = 2.0  # seconds to answer that the connection ends
STALLED = 30.0  # seconds in which a peer takes nothing of what was sent to it
PARTING = 0.5  # seconds to take the last frame when the server stops
READ = 16 * 1024  # bytes at once: a read full of tiny frames is taken apart before anybody else has a turn

GOING_AWAY = 1001


class Connection(WebSocketsSansIOProtocol):
    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self.close_timeout = CLOSING
        if hasattr(transport, "max_size"):
            transport.max_size = READ
        end = transport.get_extra_info("socket")
        if end is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(STALLED * 1000))

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # it was declined: else uvicorn logs that as a fault of ours

    def shutdown(self) -> None:
        """1001 says that nothing is wrong: uvicorn's own 1012 is not known to all clients."""
        if self.handshake_complete and not self.close_sent:
            self.conn.send_close(GOING_AWAY, "the server stops")
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
            self.queue.put_nowait({"type": "websocket.disconnect", "code": GOING_AWAY})
        self.loop.call_later(PARTING, self.transport.abort)
        super().shutdown()


# For uvicorn.Config. Frames of a viewer over the limit close its connection with 1009.
# Nothing is compressed: on loopback that costs much and wins nothing.
SETTINGS = {
    "ws": Connection,
    "ws_max_size": FRAME_LIMIT,
    "ws_ping_interval": 20.0,
    "ws_ping_timeout": 20.0,
    "ws_per_message_deflate": False,
}
