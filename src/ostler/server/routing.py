"""Routes: a method and a path lead to a handler, which is given by name what it asks for.

A handler is an async function. A parameter without a default is a part of the path, `data` (the JSON body), `person`,
`request`, `socket`, or something that the server provides. One with a default comes from the query, or from the
header that its annotation names.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar, Unpack, get_args
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from ostler.access import Rights
from ostler.errors import OstlerError
from ostler.server.auth import RIGHT_OF, require
from ostler.server.problems import Refusal
from ostler.server.replies import JSON, Reply
from ostler.server.request_body import decode_body
from ostler.server.responses import Receive, Scope, Send

WEBSOCKET = "WEBSOCKET"  # instead of a method
MOST_VALUES = 100  # of one query

Handler = Callable[..., Awaitable[Any]]
AnyHandler = TypeVar("AnyHandler", bound=Handler)

_STATUS_OF = {"POST": 201, "DELETE": 204}


class Header(NamedTuple):
    """In the annotation of a parameter: it is the value of this header."""

    name: str


class RouteOptions(TypedDict, total=False):
    """What a route says beside its path and its summary."""

    status: int  # of a good answer
    right: Rights | Literal[""]  # where it is not that of the method; "" is open to everybody
    answer: Any  # the type of the answer, where the handler returns a Reply or a stream
    media_types: tuple[str, ...]  # of the answer
    stream_of: Any  # the type of the data of a stream's events; by their names, where these differ
    hears: Any  # the type of the messages that a WebSocket takes
    tells: Any  # the type of those that it sends, where each is one
    takes: str  # the media type of a body that is not JSON
    problems: tuple[int, ...]  # statuses beyond those of every route
    also: Mapping[int, str]  # further good statuses, and what they mean


class Route:
    def __init__(self, method: str, path: str, handler: Handler, summary: str, tag: str, options: RouteOptions) -> None:
        self.method, self.path, self.handler = method, path, handler
        self.summary, self.tag, self.options = summary, tag, options
        self.status = options.get("status", _STATUS_OF.get(method, 200))
        self.right: Rights | Literal[""] = options.get("right", RIGHT_OF["GET" if method == WEBSOCKET else method])
        self.media_types = options.get("media_types", (JSON,))
        self.in_path = [part[1:-1] for part in path.split("/") if part.startswith("{")]

    @property
    def body(self) -> Any:
        """The type of the JSON that is sent to it; None if there is none."""
        return self.handler.__annotations__.get("data")

    @property
    def answer(self) -> Any:
        """The type of what is answered."""
        return self.options.get("answer", self.handler.__annotations__["return"])

    @cached_property
    def provided(self) -> list[str]:
        """The names of what the server has to give to the handler."""
        others = {*self.in_path, *self.values.__struct_fields__, "data", "return"}
        return [name for name in self.handler.__annotations__ if name not in others]

    @cached_property
    def headers(self) -> dict[str, str]:
        """The headers that are parameters, by the names of these."""
        return {
            name: header.name
            for name, annotation in self.handler.__annotations__.items()
            for header in get_args(annotation)
            if isinstance(header, Header)
        }

    @cached_property
    def values(self) -> type[Struct]:
        """The parameters of query and headers as a struct: msgspec reads, checks and describes them."""
        annotations, defaults = self.handler.__annotations__, self.handler.__defaults__ or ()
        names = [name for name in annotations if name != "return"][-len(defaults) :] if defaults else []
        fields = [(name, annotations[name], default) for name, default in zip(names, defaults, strict=True)]
        return msgspec.defstruct(self.handler.__name__, fields, rename=self.headers)

    def read(self, query: bytes, headers: Iterable[tuple[bytes, bytes]]) -> dict[str, Any]:
        """The parameters of query and headers, by name. Raises `bad_request`."""
        try:
            given = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_VALUES))
        except ValueError:
            raise OstlerError("bad_request", f"the query has more than {MOST_VALUES} values") from None
        public_names = {name.lower().encode(): name for name in self.headers.values()}
        given |= {public_names[name]: value.decode("latin-1") for name, value in headers if name in public_names}
        try:
            return msgspec.structs.asdict(msgspec.convert(given, self.values, strict=False))
        except msgspec.ValidationError as error:
            reason, _, where = str(error).partition(" - at `$.")
            raise OstlerError("bad_request", f"{where.rstrip('`')}: {reason}") from None


class Routes:
    """The routes of one file, as a decorator of their handlers: `@routes("GET /api/me", "Who one is")`."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.all: list[Route] = []

    def __call__(
        self, what: str, summary: str = "", **options: Unpack[RouteOptions]
    ) -> Callable[[AnyHandler], AnyHandler]:
        method, path = what.split()

        def add(handler: AnyHandler) -> AnyHandler:
            self.all.append(Route(method, path, handler, summary, self.tag, options))
            return handler

        return add


class Request:
    """What a handler may want to know of an HTTP request beside its parameters."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope, self._receive = scope, receive

    def header(self, name: str) -> str:
        """Empty if it was not sent."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1") for name, value in self.scope["headers"] if name.lower() == wanted), "")

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes; the gateway has bounded it."""
        more = True
        while more:
            message = await self._receive()
            more = message.get("more_body", False)
            yield message.get("body", b"")


class WebSocket:
    """A WebSocket that may be accepted. Whatever is raised before that is the answer to its handshake."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self.receive, self.send = scope, receive, send

    async def accept(self) -> None:
        message = await self.receive()
        assert message["type"] == "websocket.connect"
        await self.send({"type": "websocket.accept", "headers": []})

    async def close(self, code: int, reason: str) -> None:
        await self.send({"type": "websocket.close", "code": code, "reason": reason})


class Router:
    """The ASGI application behind the gateway, which has checked who asks and turns what is raised into an answer."""

    def __init__(self, routes: Sequence[Route], provided: Mapping[str, Any]) -> None:
        self._provided = dict(provided)
        self._tree: dict[str | None, Any] = {}  # None: any part
        for route in routes:
            node = self._tree
            for part in route.path.split("/"):
                node = node.setdefault(None if part.startswith("{") else part, {})
            node.setdefault("/", {})[route.method] = route  # a key that no part of a path can be

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        methods, in_path = self._find(scope["path"])
        socket = scope["type"] == "websocket"
        route = methods.get(WEBSOCKET if socket else scope["method"])
        if not methods or (socket and route is None):
            raise Refusal(404, f"there is nothing at {scope['path']}", "GET /api/openapi.json lists what there is")
        if route is None:
            await _other_method(scope["method"], methods)(scope, receive, send)
            return
        scope["path_template"] = route.path
        if route.right:
            require(scope["state"]["person"], route.right)
        given = dict(zip(route.in_path, in_path, strict=True)) | route.read(scope["query_string"], scope["headers"])
        answer = await route.handler(**given, **await self._provide(route, scope, receive, send))
        if not socket:
            reply = answer if callable(answer) else Reply(answer, status=route.status, media_type=route.media_types[0])
            await reply(scope, receive, send)

    def _find(self, path: str) -> tuple[dict[str, Route], list[str]]:
        """The routes of this path by method, and the values in it. A slash at the end changes nothing."""
        node, values = self._tree, []
        for part in path.rstrip("/").split("/"):
            if part not in node:
                values.append(part)
            node = node.get(part) or node.get(None, {})
        return node.get("/", {}), values

    async def _provide(self, route: Route, scope: Scope, receive: Receive, send: Send) -> dict[str, Any]:
        request, socket = Request(scope, receive), WebSocket(scope, receive, send)
        known = {**self._provided, "request": request, "socket": socket, "person": scope["state"].get("person")}
        provided = {name: known[name] for name in route.provided}
        if route.body is not None:
            provided["data"] = decode_body(b"".join([chunk async for chunk in request.chunks()]), route.body)
        return provided


def _other_method(method: str, known: Iterable[str]) -> Reply:
    """For a path that is known, but not by this method."""
    allowed = ", ".join((*(each for each in known if each != WEBSOCKET), "OPTIONS"))
    if method != "OPTIONS":
        raise Refusal(405, f"{method} is not supported here", headers={"allow": allowed})
    return Reply(None, status=204, headers=[(b"allow", allowed.encode())])
