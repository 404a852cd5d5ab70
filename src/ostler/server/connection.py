"""What HTTP and WebSocket connections have in common, and how uvicorn is set up for them."""

import socket
from asyncio.transports import BaseTransport
from typing import TYPE_CHECKING, Any

from ostler.terminal.viewer_protocol import FRAME_LIMIT

if TYPE_CHECKING:
    from ostler.server.websocket_connection import Connection

STALLED = 30.0  # seconds in which a peer takes nothing of what was sent to it


def give_up_when_stalled(transport: BaseTransport) -> None:
    end = transport.get_extra_info("socket")
    if end is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(STALLED * 1000))


def load_websockets() -> "type[Connection]":
    """Imports what carries WebSockets: a tenth of all that a server imports, and its first answer needs none of it."""
    from ostler.server.websocket_connection import Connection

    return Connection


def _new_websocket(*args: Any, **more: Any) -> "Connection":
    return load_websockets()(*args, **more)


# For uvicorn.Config. Frames of a viewer over the limit close its connection with 1009.
# Nothing is compressed: on loopback that costs much and wins nothing.
SETTINGS = {
    "ws": _new_websocket,
    "ws_max_size": FRAME_LIMIT,
    "ws_ping_interval": 20.0,
    "ws_ping_timeout": 20.0,
    "ws_per_message_deflate": False,
}
