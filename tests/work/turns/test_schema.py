"""Schemas of results: checked, asked for, extracted, held against the answer."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.errors import OstlerError
from ostler.work.turns.schema import check_schema, extract, instruction, load_schema, problem, repair

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}}},
    "required": ["name"],
    "$defs": {"tag": {"type": "string", "pattern": "^[a-z]+$"}},
}


@pytest.mark.parametrize(
    "schema",
    [
        PERSON,
        {},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "$ref": "#/definitions/a"},
        {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True},
        {"$id": "https://example.com/a", "$ref": "#/$defs/x", "$defs": {"x": {"type": "string"}}},
        {"$defs": {"x": {"$id": "inner", "$ref": "#/$defs/y", "$defs": {"y": {}}}}, "$ref": "inner"},
        {"properties": {"$ref": {"type": "string"}}, "const": {"$ref": "https://example.com/data"}},
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    ],
)
def test_schemas_that_are_ones(schema: dict[str, Any]) -> None:
    check_schema(schema)
    assert problem({"not": {}}, 1) is not None


DEEP: dict[str, Any] = {}
for _ in range(5000):
    DEEP = {"not": DEEP}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (None, "the schema is not a JSON object"),
        ([1], "the schema is not a JSON object"),
        (True, "the schema is not a JSON object"),
        ({"type": "objekt"}, "not a JSON schema: $.type: 'objekt' is not valid under any of the given schemas"),
        (
            {"properties": {"a": {"minimum": "x"}}},
            "not a JSON schema: $.properties.a.minimum: 'x' is not of type 'number'",
        ),
        ({"pattern": "("}, "not a JSON schema: $.pattern: '(' is not a 'regex'"),
        ({"$schema": "https://example.com/own"}, "unknown kind of schema: https://example.com/own"),
        ({"$schema": ["x"]}, "unknown kind of schema: ['x']"),
        ({"$ref": "#/$defs/none"}, "the schema refers to '#/$defs/none', which it does not contain"),
        (
            {"items": {"$ref": "https://example.com/x.json"}},
            "the schema refers to 'https://example.com/x.json', which it does not contain",
        ),
        ({"$ref": "file:///etc/passwd"}, "the schema refers to 'file:///etc/passwd', which it does not contain"),
        ({"$ref": "#"}, "the schema is nested too deeply or refers to itself without end"),
        (DEEP, "the schema is nested too deeply or refers to itself without end"),
    ],
)
def test_schemas_that_are_none(schema: Any, said: str) -> None:
    with pytest.raises(OstlerError) as caught:
        check_schema(schema)
    assert (caught.value.kind, caught.value.message) == ("bad_request", said)


def test_remote_references_are_never_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        schema = {"$ref": f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"}
        with pytest.raises(OstlerError):
            check_schema(schema)
        assert problem(schema, 1) == f"the schema refers to {schema['$ref']!r}, which it does not contain"
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(PERSON))
    assert load_schema(str(path)) == PERSON


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        (None, "not_found", "no such schema file: FILE"),
        (b"{", "bad_request", "the schema is not JSON: FILE (Input data was truncated)"),
        (b'{"a": "\xff"}', "bad_request", "the schema is not JSON: FILE ("),
        (b"[]", "bad_request", "the schema is not a JSON object"),
        (b" " * (1024 * 1024 + 1), "bad_request", "the schema is over 1 MiB: FILE"),
    ],
)
def test_from_a_bad_file(tmp_path: Path, content: bytes | None, kind: str, said: str) -> None:
    path = tmp_path / "schema.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OstlerError) as caught:
        load_schema(str(path))
    assert caught.value.kind == kind
    assert caught.value.message.startswith(said.replace("FILE", str(path)))


def test_from_a_folder(tmp_path: Path) -> None:
    with pytest.raises(OstlerError, match=r"the schema cannot be read: .* \(Is a directory\)"):
        load_schema(str(tmp_path))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"name": "a", "tags": ["b"]}, None),
        ({"name": 5}, "$.name: 5 is not of type 'string'"),
        ({"name": "a", "tags": ["b", "C"]}, "$.tags[1]: 'C' does not match '^[a-z]+$'"),
        ({}, "$: 'name' is a required property"),
        ([], "$: [] is not of type 'object'"),
    ],
)
def test_problems_name_the_place(value: Any, said: str | None) -> None:
    assert problem(PERSON, value) == said


def test_problems_are_short() -> None:
    said = problem({"type": "string"}, ["x" * 10_000]) or ""
    assert (len(said) < 220, said.startswith("$: ['xxx"), said.endswith("is not of type 'string'")) == (
        True,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', (True, {"a": 1})),
        ("  [1, 2]\n", (True, [1, 2])),
        ("42", (True, 42)),
        ("null", (True, None)),
        ('Here:\n```json\n{"a": 1}\n```\nthen\n```json\n{"a": 2}\n```\nDone {"a": 3}.', (True, {"a": 2})),
        ('```json\nnot json\n```\n```\n{"plain": true}\n```', (True, {"plain": True})),
        ('```JSON\r\n{"a": "``` inside"}\r\n```', (True, {"a": "``` inside"})),
        ('```python\nx = {1: 2}\n```\nThe answer is {"a": {"b": "}"}} as asked.', (True, {"a": {"b": "}"}})),
        ("a [b] {c} [1] rest", (True, [1])),
        ("{NaN} [NaN] nothing", (False, None)),
        ("", (False, None)),
        ("no json at all", (False, None)),
        ("[" * 100_000, (False, None)),
        ('{"a":' * 100_000, (False, None)),
    ],
)
def test_extract(text: str, expected: tuple[bool, Any]) -> None:
    assert extract(text) == expected


def test_extract_prefers_what_the_schema_wants() -> None:
    text = 'As [1] says:\n```json\n{"other": 1}\n```\nso {"name": "b"}'
    assert extract(text) == (True, {"other": 1})
    assert extract(text, PERSON) == (True, {"name": "b"})
    assert extract("only [1] here", PERSON) == (True, [1])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(JSON.filter(lambda value: isinstance(value, dict | list)))
def test_extract_finds_any_value(value: Any) -> None:
    text = json.dumps(value)
    found = [extract(text), extract(f"Sure:\n```json\n{text}\n```"), extract(f"It is {text}, I think.")]
    assert found == [(True, value)] * 3


@settings(deadline=None)
@given(st.text())
def test_extract_takes_any_text(text: str) -> None:
    found, value = extract(text)
    assert found or value is None


def test_prompts_hold_the_schema() -> None:
    assert instruction({"type": "string"}).splitlines()[1:] == ['{"type":"string"}']
    assert repair({"type": "string"}, "$: 5 is not of type 'string'").splitlines() == [
        "Your last answer is not valid by the JSON schema: $: 5 is not of type 'string'",
        "Answer again with the corrected JSON value alone: no other text, no code fence. Use no tools.",
        'The schema: {"type":"string"}',
    ]
