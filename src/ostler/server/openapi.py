"""The API as an OpenAPI 3.1 document: routes as they are declared, schemas as msgspec reads and writes them."""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

import msgspec

import ostler as package
from ostler.model import AnyEvent
from ostler.server.live_socket import JournalRequest
from ostler.server.problems import MEDIA_TYPE as PROBLEM
from ostler.server.problems import ProblemAnswer
from ostler.server.replies import EVENT_STREAM, JSON
from ostler.server.routes_events import LIVE_EVENTS
from ostler.server.routing import WEBSOCKET, Route
from ostler.terminal.viewer_protocol import AnyTerminalMessage, AnyViewerMessage

_REF = "#/components/schemas/{name}"
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")  # in this order
_ALWAYS = (400, 401, 403, 421)  # of the gateway
_WITH_BODY = (408, 413, 415)

# Unions with a name of their own, and what they are. Each is told apart by the `kind` of its structs.
_UNIONS = {
    "AnyEvent": (AnyEvent, "One event of a journal, told apart by its `kind`"),
    "AnyTerminalMessage": (AnyTerminalMessage, "One message of a terminal to its viewer, beside frames of output"),
    "AnyViewerMessage": (AnyViewerMessage, "One message of a viewer to its terminal"),
    "JournalRequest": (JournalRequest, "What a page asks of /api/live/ws"),
}

_PROBLEMS = {
    400: "The request is not valid",
    401: "You are not logged in",
    403: "Your rights or the access do not allow it",
    404: "It does not exist",
    408: "The body did not arrive in time",
    409: "It is busy, or exists already",
    413: "The body is too large",
    415: "The body has the wrong type",
    421: "The server does not answer to this host name",
    422: "The agent or terminal cannot do this",
    424: "Something that is needed is not installed, or not logged in",
    429: "Too many requests, or a limit was reached",
    502: "The process that runs it is gone, or did not accept this",
    503: "The server cannot serve requests right now",
    504: "It took longer than the limit",
}


def document(routes: Sequence[Route], cookie: str) -> dict[str, Any]:
    """The whole document. `cookie` is the name of the cookie of this server."""
    documented = sorted(
        (each for each in routes if each.method != WEBSOCKET),
        key=lambda each: (each.path, _METHODS.index(each.method)),
    )
    sockets = [each for each in routes if each.method == WEBSOCKET]
    schemas = Schemas([each.body for each in documented], [each.answer for each in documented if _is_json(each)])
    paths: dict[str, Any] = {}
    for each in documented:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "ostler", "version": package.__version__, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
        "x-websockets": {each.path: _socket(each, schemas) for each in sockets},
        "components": {
            "schemas": schemas.components,
            "responses": {str(status): _problem(text) for status, text in _PROBLEMS.items()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "`ostler link --bearer` makes one"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": cookie, "description": "set by POST /api/login"},
            },
        },
    }


_ABOUT = (
    "Sessions, turns, journals and terminals of ostler. Every error is a problem (RFC 9457) with the kind of error, "
    "what failed and what to do next. Terminals are watched over WebSocket: see `x-websockets`."
)


def routes_table(doc: dict[str, Any]) -> list[list[str]]:
    """Route, right, and what it does: for the documentation."""
    return [
        [f"`{method.upper()} {path}`", f"`{each['x-right']}`" if each["x-right"] else "–", each["summary"]]
        for path, methods in doc["paths"].items()
        for method, each in methods.items()
    ]


def _is_json(route: Route) -> bool:
    return JSON in route.media_types and route.answer is not None


# -- one operation ------------------------------------------------------------------------------------


def _operation(route: Route, schemas: "Schemas") -> dict[str, Any]:
    statuses = {
        *_ALWAYS,
        *((404,) if "{" in route.path else ()),
        *(_WITH_BODY if route.method != "GET" else ()),
        *route.options.get("problems", ()),
    }
    described = inspect.getdoc(route.handler)
    operation: dict[str, Any] = {
        "tags": [route.tag],
        "summary": route.summary,
        **({"description": described} if described else {}),
        "operationId": route.handler.__name__,
        "x-right": route.right,
        "parameters": list(_parameters(route, schemas)),
        "responses": {
            **_good(route, schemas),
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)},
            "5XX": {"$ref": "#/components/responses/503"},
        },
    }
    if route.body is not None or "takes" in route.options:
        schema = schemas.of(route.body) if route.body is not None else {"type": "string", "format": "binary"}
        operation["requestBody"] = {
            "required": True,
            "content": {route.options.get("takes", JSON): {"schema": schema}},
        }
    if not route.right:
        operation["security"] = []
    return operation


def _socket(route: Route, schemas: "Schemas") -> dict[str, Any]:
    """OpenAPI has no word for WebSockets: `hears` and `tells` are the messages that are JSON."""
    found: dict[str, Any] = {"summary": route.summary, "x-right": route.right}
    if "hears" in route.options:
        found["hears"] = schemas.of(route.options["hears"])
    if "tells" in route.options:
        found["tells"] = schemas.of(route.options["tells"])
    return found


def _good(route: Route, schemas: "Schemas") -> dict[str, Any]:
    first: dict[str, Any] = {"description": route.summary}
    if route.answer is not None:
        first["content"] = {media_type: _content(media_type, route, schemas) for media_type in route.media_types}
    also = {str(status): {**first, "description": text} for status, text in route.options.get("also", {}).items()}
    return {str(route.status): first, **also}


def _content(media_type: str, route: Route, schemas: "Schemas") -> dict[str, Any]:
    if media_type == JSON:
        return {"schema": schemas.of(route.answer)}
    content: dict[str, Any] = {"schema": {"type": "string"}}
    if media_type == EVENT_STREAM and "stream_of" in route.options:
        # OpenAPI 3.1 has no word for the events of a stream; 3.2 calls it so.
        content["x-itemSchema"] = schemas.of_event(route.options["stream_of"])
    return content


def _parameters(route: Route, schemas: "Schemas") -> Iterator[dict[str, Any]]:
    for name in route.in_path:
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    for field in msgspec.structs.fields(route.values):
        schema = _without_null(schemas.of(field.type))
        if field.default is not None:
            schema["default"] = field.default
        text = {"description": schema.pop("description")} if "description" in schema else {}
        place = "header" if field.name in route.headers else "query"
        yield {"name": field.encode_name, "in": place, **text, "required": False, "schema": schema}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Nobody can send null in an address or a header: leaving it out is that."""
    schema = next((each for each in schema.get("anyOf", ()) if each != {"type": "null"}), schema)
    return {"type": "string", **schema} if "enum" in schema else schema


def _problem(text: str) -> dict[str, Any]:
    return {"description": text, "content": {PROBLEM: {"schema": {"$ref": _REF.format(name="ProblemAnswer")}}}}


# -- schemas ------------------------------------------------------------------------------------------


class Schemas:
    """The schemas of all bodies and answers, by msgspec, which reads and writes them too."""

    def __init__(self, bodies: Iterable[Any], answers: Iterable[Any]) -> None:
        bodies = [type for type in bodies if type is not None]
        bodies += [AnyViewerMessage, JournalRequest]
        answers = [ProblemAnswer, AnyEvent, AnyTerminalMessage, *LIVE_EVENTS.values(), *answers]
        _, found = msgspec.json.schema_components([*bodies, *answers], ref_template=_REF)
        for struct in _structs(answers) - _structs(bodies):
            _require_written(struct, found[struct.__name__])
        unions, _ = msgspec.json.schema_components([union for union, _ in _UNIONS.values()], ref_template=_REF)
        self._unions = dict(zip(_UNIONS, unions, strict=True))
        self.components = {name: self._corrected(schema) for name, schema in sorted(found.items())}
        for name, union in self._unions.items():
            described = {"title": name, "description": _UNIONS[name][1]}
            self.components[name] = {**described, "oneOf": union["anyOf"], "discriminator": union["discriminator"]}
        self.components["LiveEvent"] = {
            "title": "LiveEvent",
            "description": "One event of /api/live: its name, and its data",
            "oneOf": [self._live_event(name, type) for name, type in LIVE_EVENTS.items()],
        }

    def of(self, type: Any) -> dict[str, Any]:
        (schema,), _ = msgspec.json.schema_components([type], ref_template=_REF)
        corrected: dict[str, Any] = self._corrected(schema)
        return corrected

    def of_event(self, stream_of: Any) -> dict[str, Any]:
        """One event of a stream: named ones differ in their data."""
        if stream_of is LIVE_EVENTS:
            return {"$ref": _REF.format(name="LiveEvent")}
        return {"properties": {"data": self.of(stream_of)}}

    def _live_event(self, name: str, type: Any) -> dict[str, Any]:
        properties = {"event": {"enum": [name]}, "data": self.of(type)}
        return {"type": "object", "properties": properties, "required": [*properties]}

    def _corrected(self, schema: Any) -> Any:
        if isinstance(schema, tuple | list):
            return [self._corrected(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        if schema in self._unions.values():
            name = next(name for name, union in self._unions.items() if union == schema)
            return {"$ref": _REF.format(name=name)}
        corrected = {name: self._corrected(value) for name, value in schema.items()}
        if "discriminator" in corrected:
            corrected["oneOf"] = corrected.pop("anyOf")
        return corrected


def _structs(types: Iterable[Any]) -> set[Any]:
    """All structs that stand anywhere in these types."""
    found: set[Any] = set()
    rest = list(msgspec.inspect.multi_type_info(list(types)))
    while rest:
        info = rest.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls in found:
                continue
            found.add(info.cls)
            rest += [field.type for field in info.fields]
        rest += [
            part for name in ("item_type", "key_type", "value_type", "type") if (part := getattr(info, name, None))
        ]
        rest += [*getattr(info, "types", ()), *getattr(info, "item_types", ())]
    return found


def _require_written(struct: Any, schema: dict[str, Any]) -> None:
    """A field with a default is written all the same, unless the struct leaves defaults out."""
    if struct.__struct_config__.array_like:
        return
    if not struct.__struct_config__.omit_defaults:
        schema["required"] = list(schema["properties"])
    elif struct in get_args(AnyEvent):
        schema["required"] = [*schema["required"], "seq", "at", "turn"]  # given by the journal to each
