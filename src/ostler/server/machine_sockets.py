"""A WebSocket passed on to another machine: frames go both ways as they come, and so does the end."""

import asyncio
from typing import TYPE_CHECKING

from ostler.errors import OstlerError
from ostler.server.machine_client import CONNECT_SECONDS, tls_context
from ostler.server.responses import Receive, Send

if TYPE_CHECKING:  # a tenth of all that a server imports
    from websockets.asyncio.client import ClientConnection

_NOT_SENT = (1005, 1006, 1015)  # codes that only say that none came
_LAST_WORD = 2.0


async def pass_socket_on(url: str, token: str, name: str, ca: str, receive: Receive, send: Send) -> None:
    """Until either side ends it. A refusal of the other machine is the answer to the handshake.

    Raises crashed if the machine cannot be reached.
    """
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus, WebSocketException

    headers = {"Authorization": f"Bearer {token}"}
    try:
        far = await connect(
            url.replace("http", "ws", 1),
            additional_headers=headers,
            ssl=tls_context(ca) if url.startswith("https") else None,
            compression=None,
            max_size=None,
            open_timeout=CONNECT_SECONDS,
            close_timeout=_LAST_WORD,
            proxy=None,
            user_agent_header=None,
        )
    except InvalidStatus as error:
        await _refuse(error.response.status_code, bytes(error.response.body or b""), name, send)
        return
    except (OSError, TimeoutError, WebSocketException) as error:
        raise OstlerError("crashed", f"machine {name} cannot be reached: {error}", "See: ostler machines") from error
    try:
        await receive()  # websocket.connect
        await send({"type": "websocket.accept", "headers": []})
        await _both_ways(far, receive, send)
    finally:
        await far.close()


async def _refuse(status: int, body: bytes, name: str, send: Send) -> None:
    if status == 401:  # it does not know us; whoever asked is logged in
        raise OstlerError(
            "crashed", f"machine {name} rejected this machine's token", "Try again, or restart its server"
        )
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body, "more_body": False})


async def _both_ways(far: "ClientConnection", receive: Receive, send: Send) -> None:
    to_viewer = asyncio.create_task(_to_viewer(far, send))
    to_machine = asyncio.create_task(_to_machine(far, receive))
    try:
        await asyncio.wait({to_viewer, to_machine}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (to_viewer, to_machine):
            task.cancel()
        await asyncio.gather(to_viewer, to_machine, return_exceptions=True)


async def _to_viewer(far: "ClientConnection", send: Send) -> None:
    from websockets.exceptions import ConnectionClosed

    try:
        while True:
            data = await far.recv()
            is_text = isinstance(data, str)
            await send(
                {"type": "websocket.send", "text": data if is_text else None, "bytes": None if is_text else data}
            )
    except ConnectionClosed:
        code = far.close_code or 1006
        code = 1001 if code in _NOT_SENT else code  # it was cut off: whoever watches connects again
        try:
            await send({"type": "websocket.close", "code": code, "reason": far.close_reason or ""})
        except OSError:
            pass  # the viewer left at the same moment
    except OSError:
        pass  # the viewer has left


async def _to_machine(far: "ClientConnection", receive: Receive) -> None:
    from websockets.exceptions import ConnectionClosed

    try:
        while (message := await receive())["type"] == "websocket.receive":
            text = message.get("text")
            await far.send(text if text is not None else message.get("bytes") or b"")
    except (ConnectionClosed, OSError):
        return  # the other pump says why
