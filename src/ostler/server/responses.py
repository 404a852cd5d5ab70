"""What goes out through the gateway: our headers on everything, and a refusal in the words of HTTP."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from ostler.server.open_connections import GOING_AWAY, LOGGED_OUT, OpenConnection
from ostler.server.problems import MEDIA_TYPE, Refusal, answer_to, headers_of

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Pairs = list[tuple[bytes, bytes]]

HEADERS: Pairs = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
]
BROKEN = 1011
REASON = {LOGGED_OUT: "this login has ended"}


class WatchedResponse:
    """One answer, watched as it goes out. The connection is told when it is a WebSocket or a stream that stays."""

    def __init__(self, scope: Scope, send: Send, more: Pairs, connection: OpenConnection) -> None:
        self._scope, self._send, self._more, self._connection = scope, send, more, connection
        self._socket = scope["type"] == "websocket"
        self.status = 0
        self._complete = False

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind in ("http.response.start", "websocket.accept", "websocket.http.response.start"):
            self._begin(message)
        self._complete = kind == "websocket.close" or (kind.endswith("response.body") and not message.get("more_body"))
        await self._send(message)

    def _begin(self, message: Message) -> None:
        self.status = message.get("status", 101)
        given: Pairs = [(name.lower(), value) for name, value in message.get("headers", ())]
        names = {name for name, _ in given}
        if self.status != 101:
            more = [pair for pair in (*HEADERS, *self._more) if pair[0] not in names or pair[0] == b"vary"]
            message["headers"] = given + more
        if self.status == 101 or dict(given).get(b"content-type", b"").startswith(b"text/event-stream"):
            self._connection.stays = True

    async def refuse(self, error: BaseException) -> None:
        """The error as an answer; where one has begun, it ends without a good ending."""
        if self._complete:
            return
        if self.status:
            if self._socket:
                await self.finish(BROKEN)
            return  # the server closes a connection whose answer is not complete
        problem = answer_to(error)
        body = msgspec.json.encode(problem)
        headers = [(name.encode(), value.encode("latin-1")) for name, value in headers_of(error).items()]
        headers += [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
        await self.respond(problem.status, headers, b"" if self._scope.get("method") == "HEAD" else body)

    async def respond(self, status: int, headers: Pairs, body: bytes = b"") -> None:
        kind = "websocket.http.response" if self._socket else "http.response"
        await self.send({"type": f"{kind}.start", "status": status, "headers": headers})
        await self.send({"type": f"{kind}.body", "body": body, "more_body": False})

    async def finish(self, code: int = GOING_AWAY) -> None:
        """Ends what was begun: a WebSocket by its code, a stream as if it were over, a download broken off."""
        if not self.status and code == LOGGED_OUT:
            await self.refuse(Refusal(401, "this login has ended", "Log in again", {"connection": "close"}))
        if self._complete or not self.status:
            return
        if self._socket:
            await self.send({"type": "websocket.close", "code": code, "reason": REASON.get(code, "")})
        elif self._connection.stays:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})
