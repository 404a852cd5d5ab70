"""The API as an OpenAPI 3.1 document: what the framework finds out of the handlers, corrected.

The framework leaves out the discriminator of unions, takes streams and files for JSON, knows neither our errors nor
the door, and calls fields optional that are always told. What it cannot know stands at the handlers, as options:
`right` (if it is not that of the method), `problems` (statuses beyond those of every route), `answers` (media types),
`answer_type`, `stream_of`, `also` (further good statuses) and `takes` (the media type of a body that is not JSON).
"""

from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute
from litestar.types import ASGIApp
from msgspec import Struct

from ostler.server.door import RIGHT_OF
from ostler.server.problems import MEDIA_TYPE as PROBLEM
from ostler.server.problems import ProblemAnswer
from ostler.server.streams import MEDIA_TYPE as STREAM
from ostler.words import AnyEvent

_REF = "#/components/schemas/{name}"
_JSON = "application/json"
_ALWAYS = (400, 401, 403, 421)  # of the door
_WITH_BODY = (408, 413, 415)

_PROBLEMS = {
    400: "The request is not understood, or cannot be right",
    401: "Nobody is logged in",
    403: "This person, or this access, may not do it",
    404: "There is no such thing",
    408: "The body did not come in time",
    409: "It is busy, or exists already",
    413: "The body is too large",
    415: "The body is of another type",
    421: "The server is not known by this name",
    422: "The agent or terminal cannot do this",
    424: "Something that is needed is not installed, or not logged in",
    429: "Too many, or too much for now",
    502: "The process that did it is gone",
    503: "The server cannot do its work",
}


def document(app: Litestar, cookie: str) -> dict[str, Any]:
    """The whole document. `cookie` is the name of the cookie of this server."""
    made: dict[str, Any] = msgspec.to_builtins(app.openapi_schema.to_schema())
    operations = _operations(app)
    schemas = Schemas([each.sent for each in operations], [each.told for each in operations])
    paths: dict[str, Any] = {}
    for each in operations:
        found = made["paths"][each.path][each.method]
        paths.setdefault(each.path, {})[each.method] = _operation(each, found, schemas)
    return {
        "openapi": "3.1.0",
        "info": {**made["info"], "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
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
    "what failed and what to do next. Terminals are watched over WebSocket: /api/terminals/{terminal}/ws, and "
    "/api/sessions/{session}/terminal/ws for the one that is followed."
)


def routes_table(doc: dict[str, Any]) -> list[list[str]]:
    """Route, right, and what it does: for the documentation."""
    return [
        [f"`{method.upper()} {path}`", f"`{each['x-right']}`" if each["x-right"] else "–", each["summary"]]
        for path, methods in doc["paths"].items()
        for method, each in methods.items()
    ]


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one path, as its handler says."""

    path: str
    method: str
    handler: Any
    sent: Any  # the type of the body; None: there is none
    told: Any  # the type of the answer

    @property
    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = self.handler.opt
        return options

    @property
    def right(self) -> str:
        """What a person has to have the right to; "" for what is open to everybody."""
        right: str = self.options.get("right", RIGHT_OF[self.method.upper()])
        return right


def _operations(app: Litestar) -> list[Operation]:
    found = [
        Operation(
            path=route.path_format,
            method=method.lower(),
            handler=handler,
            sent=handler.parsed_data_field.annotation if handler.parsed_data_field else None,
            told=_told(handler),
        )
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for handler in route.route_handlers
        for method in handler.http_methods
        if handler.include_in_schema and method in RIGHT_OF and method != "OPTIONS"
    ]
    return sorted(found, key=lambda each: (each.path, list(RIGHT_OF).index(each.method.upper())))


def _told(handler: HTTPRouteHandler) -> Any:
    """The type of what is answered: a struct, None, or `bytes` for whatever is not JSON."""
    if "answer_type" in handler.opt:
        return handler.opt["answer_type"]
    told = handler.parsed_fn_signature.return_type
    if told.args and isinstance(told.origin, type) and told.origin.__name__ == "Response":
        return told.args[0]
    plain = told.annotation in (None, type(None), ASGIApp) or msgspec.inspect.is_struct_type(told.annotation)
    return told.annotation if plain and told.annotation is not ASGIApp else _unlike_json(told.annotation)


def _unlike_json(annotation: Any) -> Any:
    return annotation if getattr(annotation, "__origin__", None) is dict else bytes


# -- one operation ------------------------------------------------------------------------------------


def _operation(each: Operation, made: dict[str, Any], schemas: "Schemas") -> dict[str, Any]:
    options = each.options
    statuses = {
        *_ALWAYS,
        *((404,) if "{" in each.path else ()),
        *(_WITH_BODY if each.method != "get" else ()),
        *options.get("problems", ()),
    }
    corrected: dict[str, Any] = {
        **{name: made[name] for name in ("tags", "summary", "description") if name in made},
        "operationId": each.handler.fn.__name__,
        "x-right": each.right,
        "parameters": [_parameter(parameter) for parameter in made.get("parameters", ())],
        "responses": {
            **_good(each, schemas),
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)},
            "5XX": {"$ref": "#/components/responses/503"},
        },
    }
    if each.sent is not None or "takes" in options:
        takes = options.get("takes", _JSON)
        schema = schemas.of(each.sent) if each.sent is not None else {"type": "string", "format": "binary"}
        corrected["requestBody"] = {"required": True, "content": {takes: {"schema": schema}}}
    if not each.right:
        corrected["security"] = []
    return corrected


def _good(each: Operation, schemas: "Schemas") -> dict[str, Any]:
    first = {"description": each.handler.summary or "Done"}
    if each.told not in (None, type(None)):
        first["content"] = _content(each, schemas)
    also = {str(status): {**first, "description": text} for status, text in each.options.get("also", {}).items()}
    return {str(each.handler.status_code): first, **also}


def _content(each: Operation, schemas: "Schemas") -> dict[str, Any]:
    media_types = each.options.get("answers") or (
        str(each.handler.media_type or _JSON) if each.told is bytes else _JSON,
    )
    content = {}
    for media_type in (media_types,) if isinstance(media_types, str) else media_types:
        if media_type == _JSON:
            content[media_type] = {"schema": schemas.of(each.told)}
        elif media_type == STREAM and "stream_of" in each.options:
            content[media_type] = _stream(schemas.of(each.options["stream_of"]))
        else:
            content[media_type] = {"schema": {"type": "string"}}
    return content


def _stream(item: dict[str, Any]) -> dict[str, Any]:
    """OpenAPI 3.1 has no word for the events of a stream; 3.2 calls it so."""
    return {"schema": {"type": "string"}, "x-itemSchema": {"properties": {"data": item}}}


def _parameter(made: dict[str, Any]) -> dict[str, Any]:
    """Without the framework's empty words. Nobody can send null in an address or a header: leaving it out is that."""
    schema = {name: value for name, value in made["schema"].items() if name != "description"}
    choices = [each for each in schema.pop("oneOf", ()) if each != {"type": "null"}]
    if isinstance(schema.get("type"), list):
        schema["type"] = next(kind for kind in schema["type"] if kind != "null")
    if "enum" in schema:
        schema["enum"] = [value for value in schema["enum"] if value is not None]
    for name in ("minimum", "maximum"):
        if schema.get("type") == "integer" and name in schema:
            schema[name] = int(schema[name])
    kept = {name: value for name, value in made.items() if name in ("name", "in", "description", "required")}
    return {**kept, "schema": {**(choices[0] if choices else {}), **schema}}


def _problem(text: str) -> dict[str, Any]:
    return {"description": text, "content": {PROBLEM: {"schema": {"$ref": _REF.format(name="ProblemAnswer")}}}}


# -- schemas ------------------------------------------------------------------------------------------


class Schemas:
    """The schemas of all bodies and answers, by msgspec, which reads and writes them too."""

    def __init__(self, sent: Iterable[Any], told: Iterable[Any]) -> None:
        sent = [type for type in sent if type is not None]
        told = [ProblemAnswer, AnyEvent, *(type for type in told if type not in (None, bytes))]
        _, found = msgspec.json.schema_components([*sent, *told], ref_template=_REF)
        written = _structs(told) - _structs(sent)
        for struct in written:
            _tell_required(struct, found[struct.__name__])
        (union,), _ = msgspec.json.schema_components([AnyEvent], ref_template=_REF)
        self._event = union["discriminator"]
        self.components = {name: self._corrected(schema) for name, schema in sorted(found.items())}
        self.components["AnyEvent"] = {
            "title": "AnyEvent",
            "description": "One event of a journal, told apart by its `kind`",
            "oneOf": union["anyOf"],
            "discriminator": union["discriminator"],
        }

    def of(self, type: Any) -> dict[str, Any]:
        (schema,), _ = msgspec.json.schema_components([type], ref_template=_REF)
        corrected: dict[str, Any] = self._corrected(schema)
        return corrected

    def _corrected(self, schema: Any) -> Any:
        if isinstance(schema, tuple | list):
            return [self._corrected(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        if schema.get("discriminator") == self._event:
            return {"$ref": _REF.format(name="AnyEvent")}
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


def _tell_required(struct: Any, schema: dict[str, Any]) -> None:
    """A field with a default is told all the same, unless the struct leaves defaults out."""
    if not struct.__struct_config__.omit_defaults:
        schema["required"] = list(schema["properties"])
    elif struct in get_args(AnyEvent):
        schema["required"] = [*schema["required"], "seq", "at"]  # given by the journal to each
