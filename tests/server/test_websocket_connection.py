"""What uvicorn's WebSocket connection does differently here. How it carries terminals: test_sockets.py."""

import asyncio

import pytest
import uvicorn
from uvicorn.server import ServerState

from ostler.server.websocket_connection import Connection


async def test_whoever_sends_after_the_connection_was_closed_is_told_that_nobody_is_there() -> None:
    """uvicorn closes it by itself when the peer breaks the protocol, and then calls a send a fault of the sender."""
    config = uvicorn.Config(lambda: None, log_level="critical")
    config.load()
    connection = Connection(config, ServerState(), {}, asyncio.get_running_loop())
    connection.handshake_complete = connection.close_sent = True
    with pytest.raises(OSError):
        await connection.send({"type": "websocket.send", "text": "too late", "bytes": None})
