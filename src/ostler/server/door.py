"""The door: a plain ASGI function around everything, since a framework's middleware does not see every request.

Whatever comes (HTTP, WebSocket, unknown paths, OPTIONS, methods nobody knows) has to name one of our hosts, come from
one of our origins, and bring a token or a cookie that we signed. Only the page's own files and the login are open.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from ostler.errors import OstlerError
from ostler.server.answer import Answer, Message, Pairs, Receive, Scope, Send
from ostler.server.people import People, Person, Statement, cookies_of, may, require, token_of
from ostler.server.problems import Refusal, tell
from ostler.terminal.viewing import Rights

__all__ = ["ASGI", "Door", "Doorway", "Person", "door_of", "may", "require"]

ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = dict[bytes, list[bytes]]

BODY_LIMIT = 1 << 20
UPLOAD_LIMIT = 32 << 20
BODY_SECONDS = 30.0
LAST_WORD = 1.0  # seconds to say goodbye to somebody who may not be reading
UPLOADS = "/api/uploads/"
LOGIN, LOGOUT = "/api/login", "/api/logout"

# What a method needs whatever its route asks for besides: a new route is covered the day it is added.
RIGHT_OF: dict[str, Rights] = {
    **dict.fromkeys(("GET", "HEAD", "OPTIONS"), "view"),
    **dict.fromkeys(("POST", "PUT", "PATCH"), "type"),
    "DELETE": "admin",
}
_CHANGES = ("POST", "PUT", "PATCH", "DELETE")


class Door(Struct, frozen=True, kw_only=True):
    """The names under which we are reached, exactly as browsers write them."""

    hosts: frozenset[str]
    origins: frozenset[str]
    foreign: frozenset[str] = frozenset()  # those of the origins that were allowed by name: they get CORS headers


def door_of(addresses: Iterable[str], port: int, allowed: Iterable[str] = ()) -> Door:
    """The door of a server that listens on these addresses and may be reached under further URLs too."""
    hosts = {f"[{address}]:{port}" if ":" in address else f"{address}:{port}" for address in addresses}
    if {f"127.0.0.1:{port}", f"[::1]:{port}"} & hosts:
        hosts.add(f"localhost:{port}")
    if port == 80:
        hosts |= {host.removesuffix(":80") for host in hosts}
    foreign = frozenset(origin_of(url) for url in allowed)
    return Door(
        hosts=frozenset(hosts | {origin.partition("://")[2] for origin in foreign}),
        origins=frozenset({f"http://{host}" for host in hosts} | foreign),
        foreign=foreign,
    )


def origin_of(url: str) -> str:
    """`https://ostler.example` of what a person wrote. Raises `bad_request`."""
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.path not in ("", "/"):
        raise OstlerError("bad_request", f"{url!r} is no origin", "Write it as https://host:port")
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, default) else "")


class Doorway:
    """The ASGI application that the world sees. Knows the connections that stay open, to end them."""

    def __init__(
        self,
        app: ASGI,
        door: Door,
        people: People,
        is_open: Callable[[str], bool],
        seen: Callable[[Scope, int], None] = lambda scope, status: None,
    ) -> None:
        self._app, self._door, self._people = app, door, people
        self._is_open, self._seen = is_open, seen
        self._staying: dict[asyncio.Task[Any], str] = {}
        self._dropped: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        task = asyncio.current_task()
        assert task is not None
        answer = Answer(scope, send, self._cors(scope), lambda: self._staying.update({task: scope["type"]}))
        try:
            inner = await self._let_in(scope, receive)
            if inner is None:
                await answer.respond(204, _PREFLIGHT)
            else:
                await self._app(scope, inner, answer.send)
        except asyncio.CancelledError:
            if task not in self._dropped:
                raise
            task.uncancel()
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORD):
                    await answer.finish()
        except Exception as error:
            tell(error, f"{scope.get('method', 'WebSocket')} {scope['path']}")
            await answer.refuse(error)
        finally:
            self._staying.pop(task, None)
            self._dropped.discard(task)
            self._seen(scope, answer.status)

    def drop_all(self) -> None:
        """Ends every WebSocket and every stream: the server stops, or the key has changed."""
        for task in self._staying.keys() - self._dropped:
            self._dropped.add(task)
            task.cancel()

    def staying(self, kind: str) -> int:
        """How many WebSockets (`websocket`) or streams (`http`) are open."""
        return sum(each == kind for each in self._staying.values())

    # -- who comes in ---------------------------------------------------------------------------------

    async def _let_in(self, scope: Scope, receive: Receive) -> Receive | None:
        """How the application may read the request; None: it is a preflight. Raises a Refusal, or `denied`."""
        headers: Headers = defaultdict(list)
        for name, value in scope["headers"]:
            headers[name.lower()].append(value)
        check_host(headers, self._door)
        origin = check_origin(headers, self._door)
        scope.setdefault("state", {})
        if not scope["path"].startswith("/") or "//" in scope["path"]:
            raise Refusal(400, "this is no path")  # the framework would take it for the same with one slash
        if scope["type"] == "websocket":
            # Every browser names its origin here: without one a cookie proves nothing.
            self._known(scope, self._statement(headers, cookie=origin is not None))
            return receive
        return await self._let_in_http(scope, receive, headers, origin)

    async def _let_in_http(
        self, scope: Scope, receive: Receive, headers: Headers, origin: str | None
    ) -> Receive | None:
        method, path = scope["method"], scope["path"]
        if method == "OPTIONS" and origin in self._door.foreign and b"access-control-request-method" in headers:
            return None
        login = method == "POST" and path == LOGIN
        if not login and not (method in ("GET", "HEAD") and self._is_open(path)):
            check_site(headers, origin)
            check_method(method, path, self._known(scope, self._statement(headers, cookie=True)))
        if method in _CHANGES:
            check_content_type(headers, path)
        return await bounded(receive, headers, path)

    def _statement(self, headers: Headers, *, cookie: bool) -> Statement:
        """Raises a Refusal (401). A token that is given decides alone."""
        token = token_of(headers)
        if token is not None:
            said = self._people.read(token, "bearer")
        else:
            values = cookies_of(headers, self._people.cookie) if cookie else []
            said = next(filter(None, (self._people.read(value, "login") for value in values)), None)
        if said is None or said.nonce in self._people.spent:
            hint = "Open a link (ostler link), or send a token (ostler link --bearer)"
            raise Refusal(401, "nobody is logged in", hint, {"www-authenticate": 'Bearer realm="ostler"'})
        return said

    def _known(self, scope: Scope, statement: Statement) -> Person:
        scope["state"]["statement"] = statement
        scope["state"]["person"] = statement.person
        return statement.person

    def _cors(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Headers for a page of an origin that was allowed by name; for others there are none."""
        given = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name.lower() == b"origin"]
        if len(given) != 1 or given[0] not in self._door.foreign:
            return []
        return [(b"access-control-allow-origin", given[0].encode("latin-1")), (b"vary", b"Origin")]


_PREFLIGHT: Pairs = [
    (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, idempotency-key, last-event-id"),
    (b"access-control-max-age", b"600"),
]


# -- what is checked ----------------------------------------------------------------------------------


def check_host(headers: Headers, door: Door) -> None:
    hosts = headers.get(b"host", [])
    if len(hosts) != 1:
        raise Refusal(400, "a request needs exactly one Host")
    if hosts[0].decode("latin-1").lower() not in door.hosts:
        raise Refusal(421, "this server is not known by that name", "Allow it: ostler up --allow-origin URL")


def check_origin(headers: Headers, door: Door) -> str | None:
    """The origin of the page that asks; None when no page does."""
    origins = headers.get(b"origin", [])
    if not origins:
        return None
    origin = origins[0].decode("latin-1")
    if len(origins) != 1 or origin not in door.origins:
        raise Refusal(403, "requests of this origin are refused", "Allow it: ostler up --allow-origin URL")
    return origin


def check_site(headers: Headers, origin: str | None) -> None:
    """A page of another port shares our cookies; its images and scripts come without an Origin, but with this."""
    if origin is None and headers.get(b"sec-fetch-site", [b"none"])[-1] not in (b"none", b"same-origin"):
        raise Refusal(403, "requests of other pages are refused")


def check_method(method: str, path: str, person: Person) -> None:
    if method not in RIGHT_OF:
        raise Refusal(405, f"{method[:20]} means nothing here", headers={"allow": ", ".join(RIGHT_OF)})
    require(person, "view" if path == LOGOUT else RIGHT_OF[method])


def check_content_type(headers: Headers, path: str) -> None:
    """JSON for every change (a form of another page cannot send it), octets for an upload."""
    wanted = b"application/octet-stream" if path.startswith(UPLOADS) else b"application/json"
    given = headers.get(b"content-type", [])
    if not given and not has_body(headers):
        return
    if [value.partition(b";")[0].strip().lower() for value in given] != [wanted]:
        raise Refusal(415, f"the body has to be {wanted.decode()}", f"Send it with Content-Type: {wanted.decode()}")


def has_body(headers: Headers) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", [b"0"]) != [b"0"]


async def bounded(receive: Receive, headers: Headers, path: str) -> Receive:
    """The body, read and replayed if it is small; an upload streams, and is cut off at its limit."""
    if not has_body(headers):
        return receive
    limit = UPLOAD_LIMIT if path.startswith(UPLOADS) else BODY_LIMIT
    if b"content-length" in headers and int(headers[b"content-length"][0]) > limit:
        raise _too_large(limit)
    if limit == UPLOAD_LIMIT:
        return _counted(receive, limit)
    return await _read(receive, limit)


def _counted(receive: Receive, limit: int) -> Receive:
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise _too_large(limit)
        return message

    return counted


async def _read(receive: Receive, limit: int) -> Receive:
    whole, more = bytearray(), True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    raise Refusal(400, "the body did not come whole")
                whole += message.get("body", b"")
                more = message.get("more_body", False)
                if len(whole) > limit:
                    raise _too_large(limit)
    except TimeoutError:
        raise Refusal(408, "the body did not come in time", headers={"connection": "close"}) from None
    body: list[Message] = [{"type": "http.request", "body": bytes(whole), "more_body": False}]

    async def replayed() -> Message:
        return body.pop() if body else await receive()

    return replayed


def _too_large(limit: int) -> Refusal:
    return Refusal(413, f"the body is larger than {limit >> 20} MiB", headers={"connection": "close"})
