"""JSON schemas of results: checked before a turn, asked for in the prompt, held against the answer."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ostler.errors import OstlerError, quoted

MAX_SCHEMA = 1024 * 1024
_ATTEMPTS = 1000  # places in a text at which a JSON value is looked for
_FENCE = r"(?ms)^[ \t]*```[ \t]*(\w*)[^\n]*\n(.*?)^[ \t]*```[ \t]*$"
_DATA_KEYS = ("const", "enum", "default", "examples")


def load_schema(path: str) -> dict[str, Any]:
    """The schema in a file, checked. Raises not_found or bad_request."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_SCHEMA + 1)
    except FileNotFoundError as error:
        raise OstlerError("not_found", f"no such schema file: {path}") from error
    except OSError as error:
        raise OstlerError("bad_request", f"the schema cannot be read: {path} ({error.strerror})") from error
    if len(text) > MAX_SCHEMA:
        raise OstlerError("bad_request", f"the schema is over {MAX_SCHEMA >> 20} MiB: {path}")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise OstlerError("bad_request", f"the schema is not JSON: {path} ({error})") from error
    check_schema(value)
    schema: dict[str, Any] = value
    return schema


def check_schema(schema: Any) -> None:
    """Raises bad_request for what is no JSON schema, or refers to something outside itself."""
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, dict):
        raise OstlerError("bad_request", "the schema is not a JSON object", 'For example {"type": "object"}')
    try:
        kind = _kind(schema)
        kind.check_schema(schema, format_checker=kind.FORMAT_CHECKER)
        _check_references(schema)
        _first_error(schema, {})
    except SchemaError as error:
        message = f"not a JSON schema: {_place(error.absolute_path)}: {_short(error.message)}"
        raise OstlerError("bad_request", message) from error
    except RecursionError as error:
        raise OstlerError("bad_request", "the schema is nested too deeply or refers to itself without end") from error


def problem(schema: dict[str, Any], value: Any) -> str | None:
    """What is wrong with a value by the schema, in one short line; None where it is valid."""
    from referencing.exceptions import Unresolvable

    try:
        error = _first_error(schema, value)
    except Unresolvable as failure:
        return f"the schema refers to {quoted(failure.ref)}, which it does not contain"
    except (RecursionError, re.error):
        return "the schema cannot be applied"
    return None if error is None else f"{_place(error.absolute_path)}: {_short(error.message)}"


def extract(text: str, schema: dict[str, Any] | None = None) -> tuple[bool, Any]:
    """The JSON value in an answer: all of it, the last fenced block, or the first object or array within.

    With a schema, the first of these that is valid; where none is, the first.
    """
    first: tuple[bool, Any] = (False, None)
    for value in _values(text):
        if schema is None or problem(schema, value) is None:
            return True, value
        if not first[0]:
            first = (True, value)
    return first


def instruction(schema: dict[str, Any]) -> str:
    """What is put after a prompt for an agent that knows no schemas."""
    return (
        "Your final answer must be one JSON value that is valid by the JSON schema below: "
        "no other text, no explanation, no code fence.\n" + _compact(schema)
    )


def repair(schema: dict[str, Any], problem: str) -> str:
    """The follow-up when an answer was not valid."""
    return (
        f"Your last answer is not valid by the JSON schema: {problem}\n"
        "Answer again with the corrected JSON value alone: no other text, no code fence. Use no tools.\n"
        f"The schema: {_compact(schema)}"
    )


# -- values in a text -------------------------------------------------------------------------------


def _values(text: str) -> Iterator[Any]:
    """Every JSON value that may be meant, the likeliest first."""
    found, value = _decoded(text)
    if found:
        yield value
        return
    blocks = [(match[1].lower(), match[2]) for match in re.finditer(_FENCE, text)]
    named = [body for language, body in blocks if language.startswith("json")]
    plain = [body for language, body in blocks if not language]
    for body in (*reversed(named), *reversed(plain)):
        found, value = _decoded(body)
        if found:
            yield value
    yield from _embedded(text)


def _embedded(text: str) -> Iterator[Any]:
    """Objects and arrays that stand in other text, in order."""
    import json

    decoder = json.JSONDecoder(parse_constant=_refuse)
    at = 0
    for _ in range(_ATTEMPTS):
        start = min((i for i in (text.find("{", at), text.find("[", at)) if i >= 0), default=-1)
        if start < 0:
            return
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            at = start + 1
            continue
        yield value


def _decoded(text: str) -> tuple[bool, Any]:
    try:
        return True, msgspec.json.decode(text.strip().encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False, None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


# -- the schema itself ------------------------------------------------------------------------------


def _first_error(schema: dict[str, Any], value: Any) -> Any:
    from jsonschema.exceptions import best_match
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    # The registry ends references at the schema and the drafts: without one jsonschema would fetch them.
    return best_match(_kind(schema)(schema, registry=REGISTRY).iter_errors(value))


def _kind(schema: dict[str, Any]) -> Any:
    """The validator class of the draft that `$schema` names; 2020-12 without one. Raises bad_request."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    named = schema.get("$schema")
    if named is None:
        return Draft202012Validator
    nothing: Any = None
    kind = validator_for(schema, default=nothing) if isinstance(named, str) else nothing
    if kind is None:
        raise OstlerError("bad_request", f"unknown kind of schema: {_short(str(named))}", _DRAFTS)
    return kind


_DRAFTS = 'Leave out "$schema", or name https://json-schema.org/draft/2020-12/schema'


def _check_references(schema: dict[str, Any]) -> None:
    """Raises bad_request for a reference that leads out of the schema."""
    from jsonschema_specifications import REGISTRY
    from referencing import Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    base = resource.id() or ""
    resolver = REGISTRY.with_resource(base, resource).crawl().resolver(base)
    inner = any(id != base for id in _named(schema, "$id"))
    for reference in _named(schema, "$ref"):
        try:
            resolver.lookup(reference)
        except (Unresolvable, ValueError) as error:
            if inner and not re.match(r"[a-z]+:", reference, re.I):
                continue  # relative to an inner $id; `problem` tells when it leads nowhere
            message = f"the schema refers to {quoted(_short(reference))}, which it does not contain"
            raise OstlerError("bad_request", message, "Put it under $defs: nothing is fetched") from error


def _named(schema: Any, key: str) -> Iterator[str]:
    """Every string under `key` in the schema and the schemas within it."""
    waiting = [schema]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            if isinstance(here.get(key), str):
                yield here[key]
            waiting += [value for name, value in here.items() if name not in _DATA_KEYS]
        elif isinstance(here, list):
            waiting += here


def _place(path: Any) -> str:
    """Where in a value: $.items[2].name"""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= 200 else line[:120] + " … " + line[-70:]


def _compact(schema: dict[str, Any]) -> str:
    return msgspec.json.encode(schema).decode()
