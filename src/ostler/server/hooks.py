"""Hooks of the turns that this server runs: they come in by its own port, with the token of their turn."""

from typing import TYPE_CHECKING

from ostler.server.responses import Receive, Scope, Send

if TYPE_CHECKING:
    from ostler.work.hooks.callbacks import Callbacks


async def take_hook(callbacks: "Callbacks", scope: Scope, receive: Receive, send: Send) -> None:
    """The body has been read by the gateway, and is no larger than it may be."""
    from ostler.work.hooks.listener import bearer, event_in  # no hook comes before the first answer

    given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    body = (await receive()).get("body", b"")
    query = scope.get("query_string", b"").decode("latin-1")
    reply = await callbacks.take(bearer(given[0]) if len(given) == 1 else "", event_in(query), body)
    headers = [(b"content-type", b"application/json")] if reply.body else []
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
