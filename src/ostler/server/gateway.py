"""The gateway: a plain ASGI application around everything, so that no request passes it by.

Whatever comes (HTTP, WebSocket, unknown paths, OPTIONS, methods nobody knows) has to name one of our hosts, come from
one of our origins, and bring a token or a cookie that we signed. Only the page's own files and the login are open;
hooks bring the token of their turn.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from urllib.parse import urlsplit

from msgspec import Struct
from uvicorn.protocols.utils import ClientDisconnected

from ostler.errors import OstlerError, quoted
from ostler.server.auth import RIGHT_OF, Authenticator, Person, SignedLogin, cookies_of, may, require, token_of
from ostler.server.compression import compressing
from ostler.server.open_connections import OpenConnection, OpenConnections
from ostler.server.problems import Refusal, log_error
from ostler.server.request_body import UPLOADS, Headers, bounded, has_body
from ostler.server.responses import Pairs, Receive, Scope, Send, WatchedResponse

__all__ = ["ASGI", "Gateway", "OwnAddresses", "Person", "addresses_of", "may", "require"]

ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]

LAST_WORD = 1.0  # seconds to say goodbye to somebody who may not be reading
LOGIN, LOGOUT, HOOKS = "/api/login", "/api/logout", "/api/hooks"

_DEFAULT_PORTS = {"http": 80, "https": 443}
_CHANGES = ("POST", "PUT", "PATCH", "DELETE")


class OwnAddresses(Struct, frozen=True, kw_only=True):
    """The names under which we are reached, exactly as browsers write them."""

    hosts: frozenset[str]
    origins: frozenset[str]
    foreign: frozenset[str] = frozenset()  # those of the origins that were allowed by name: they get CORS headers


def addresses_of(
    addresses: Iterable[str], port: int, allowed: Iterable[str] = (), scheme: str = "http"
) -> OwnAddresses:
    """Those of a server that listens on these addresses and may be reached under further URLs too."""
    hosts = {f"[{address}]:{port}" if ":" in address else f"{address}:{port}" for address in addresses}
    if {f"127.0.0.1:{port}", f"[::1]:{port}"} & hosts:
        hosts.add(f"localhost:{port}")
    if port == _DEFAULT_PORTS[scheme]:
        hosts |= {host.removesuffix(f":{port}") for host in hosts}
    foreign = frozenset(origin_of(url) for url in allowed)
    return OwnAddresses(
        hosts=frozenset(hosts | {origin.partition("://")[2] for origin in foreign}),
        origins=frozenset({f"{scheme}://{host}" for host in hosts} | foreign),
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
        raise OstlerError("bad_request", f"{quoted(url)} is not a valid origin", "Write it as https://host:port")
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, _DEFAULT_PORTS[parts.scheme]) else "")


class Gateway:
    """The ASGI application that the world sees. Knows who has which connection open, to end it with the login."""

    def __init__(
        self,
        app: ASGI,
        own: OwnAddresses,
        auth: Authenticator,
        is_open: Callable[[str], bool],
        seen: Callable[[Scope, int], None] = lambda scope, status: None,
    ) -> None:
        self._app, self._own, self._auth = app, own, auth
        self._is_open, self._seen = is_open, seen
        self._open = OpenConnections()
        auth.on_logout = self.end_logins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        task = asyncio.current_task()
        assert task is not None
        connection = self._open.add(task, scope["type"])
        answer = WatchedResponse(scope, compressing(scope, send), self._cors(scope), connection)
        try:
            inner = await self._let_in(scope, receive, connection)
            if inner is None:
                await answer.respond(204, _PREFLIGHT)
            else:
                await self._app(scope, inner, answer.send)
        except asyncio.CancelledError:
            if connection.ended is None:
                raise
            task.uncancel()
            with suppress(TimeoutError):  # who does not take the last word goes without it
                async with asyncio.timeout(LAST_WORD):
                    await answer.finish(connection.ended)
        except ClientDisconnected:
            pass  # nobody is left to be told anything
        except Exception as error:
            log_error(error, f"{scope.get('method', 'WebSocket')} {scope['path']}")
            await answer.refuse(error)
        finally:
            self._open.remove(task)
            self._seen(scope, answer.status)

    def drop_all(self) -> None:
        """Ends every WebSocket and every stream: the server stops."""
        self._open.end_all()

    def end_logins(self) -> None:
        """Ends whatever was opened by logins that are over: ended, expired, or signed by a key that is gone."""
        self._open.end_logins(self._auth.is_good)

    def staying(self, kind: str) -> int:
        """How many WebSockets (`websocket`) or streams (`http`) are open."""
        return self._open.count(kind)

    @property
    def under_way(self) -> int:
        """How many connections there are of people who are logged in."""
        return self._open.logged_in

    # -- who comes in ---------------------------------------------------------------------------------

    async def _let_in(self, scope: Scope, receive: Receive, connection: OpenConnection) -> Receive | None:
        """How the application may read the request; None: it is a preflight. Raises a Refusal, or `denied`."""
        headers: Headers = defaultdict(list)
        for name, value in scope["headers"]:
            headers[name.lower()].append(value)
        check_host(headers, self._own)
        origin = check_origin(headers, self._own)
        scope.setdefault("state", {})
        if not scope["path"].startswith("/") or "//" in scope["path"]:
            raise Refusal(400, "this is not a valid path")
        if scope["type"] == "websocket":
            # Every browser names its origin here: without one a cookie proves nothing.
            self._known(scope, await self._login(headers, cookie=origin is not None), connection)
            return receive
        inner = await self._let_in_http(scope, receive, headers, origin, connection)
        connection.is_change = scope["method"] in _CHANGES and not scope["path"].startswith(UPLOADS)
        return inner

    async def _let_in_http(
        self, scope: Scope, receive: Receive, headers: Headers, origin: str | None, connection: OpenConnection
    ) -> Receive | None:
        method, path = scope["method"], scope["path"]
        if method == "OPTIONS" and origin in self._own.foreign and b"access-control-request-method" in headers:
            return None
        login = method == "POST" and path == LOGIN
        hook = method == "POST" and path == HOOKS  # the token of a turn is looked at behind the door
        if hook and origin is not None:
            raise Refusal(403, "hooks cannot be called from web pages")
        if not login and not hook and not (method in ("GET", "HEAD") and self._is_open(path)):
            check_site(headers, origin)
            check_method(method, path, self._known(scope, await self._login(headers, cookie=True), connection))
        if method in _CHANGES:
            check_content_type(headers, path)
        return await bounded(receive, headers, path)

    async def _login(self, headers: Headers, *, cookie: bool) -> SignedLogin:
        """Raises a Refusal (401). A token that is given decides alone."""
        token = token_of(headers)
        if token is not None:
            found = self._auth.login(token, "bearer") or await self._auth.passed_on(token)
        else:
            values = cookies_of(headers, self._auth.cookie) if cookie else []
            found = next(filter(None, (self._auth.login(value, "login") for value in values)), None)
        if found is None:
            hint = "Open a link (ostler link), or send a token (ostler link --bearer)"
            raise Refusal(401, "you are not logged in", hint, {"www-authenticate": 'Bearer realm="ostler"'})
        return found

    def _known(self, scope: Scope, login: SignedLogin, connection: OpenConnection) -> Person:
        connection.login = login
        scope["state"]["claims"] = login.claims
        scope["state"]["person"] = login.person
        return login.person

    def _cors(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Headers for a page of an origin that was allowed by name; for others there are none."""
        given = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name.lower() == b"origin"]
        if len(given) != 1 or given[0] not in self._own.foreign:
            return []
        return [(b"access-control-allow-origin", given[0].encode("latin-1")), (b"vary", b"Origin")]


_PREFLIGHT: Pairs = [
    (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, idempotency-key, last-event-id"),
    (b"access-control-max-age", b"600"),
]


# -- what is checked ----------------------------------------------------------------------------------


def check_host(headers: Headers, own: OwnAddresses) -> None:
    hosts = headers.get(b"host", [])
    if len(hosts) != 1:
        raise Refusal(400, "a request needs exactly one Host header")
    if hosts[0].decode("latin-1").lower() not in own.hosts:
        raise Refusal(421, "this server does not answer to that host name", "Allow it: ostler up --allow-origin URL")


def check_origin(headers: Headers, own: OwnAddresses) -> str | None:
    """The origin of the page that asks; None when no page does."""
    origins = headers.get(b"origin", [])
    if not origins:
        return None
    origin = origins[0].decode("latin-1")
    if len(origins) != 1 or origin not in own.origins:
        raise Refusal(403, "requests from this origin are not allowed", "Allow it: ostler up --allow-origin URL")
    return origin


def check_site(headers: Headers, origin: str | None) -> None:
    """A page of another port shares our cookies; its images and scripts come without an Origin, but with this."""
    if origin is None and headers.get(b"sec-fetch-site", [b"none"])[-1] not in (b"none", b"same-origin"):
        raise Refusal(403, "requests from other sites are not allowed")


def check_method(method: str, path: str, person: Person) -> None:
    if method not in RIGHT_OF:
        raise Refusal(405, f"{method[:20]} is not supported", headers={"allow": ", ".join(RIGHT_OF)})
    require(person, "view" if path == LOGOUT else RIGHT_OF[method])


def check_content_type(headers: Headers, path: str) -> None:
    """JSON for every change (a form of another page cannot send it), octets for an upload."""
    wanted = b"application/octet-stream" if path.startswith(UPLOADS) else b"application/json"
    given = headers.get(b"content-type", [])
    if not given and not has_body(headers):
        return
    if [value.partition(b";")[0].strip().lower() for value in given] != [wanted]:
        raise Refusal(415, f"the body must be {wanted.decode()}", f"Send it with Content-Type: {wanted.decode()}")
