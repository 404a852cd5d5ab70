"""A WebSocket connection as uvicorn carries it, which no peer can keep open by not reading.

uvicorn closes a connection by flushing it first. A peer that has stopped to read would stay for ever: after a ping
without an answer, and until the deadline of a shutdown. Here the kernel gives up on it, and a shutdown does not wait.
"""

from asyncio.transports import BaseTransport

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ostler.server.connection import give_up_when_stalled

CLOSING = 2.0  # seconds to answer that the connection ends
PARTING = 0.5  # seconds to take the last frame when the server stops
READ = 16 * 1024  # bytes at once: a read full of tiny frames is taken apart before anybody else has a turn

GOING_AWAY = 1001


class Connection(WebSocketsSansIOProtocol):
    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self.close_timeout = CLOSING
        if hasattr(transport, "max_size"):
            transport.max_size = READ
        give_up_when_stalled(transport)

    async def send(self, message: ASGISendEvent) -> None:
        if self.close_sent and message["type"] == "websocket.send":
            raise ClientDisconnected  # for a frame that breaks the protocol: the sender has not heard of it yet
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
