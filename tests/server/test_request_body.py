"""Bodies of requests: JSON of the very type that is asked for, or an error that says what is wrong."""

from typing import Any

import pytest
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.server.request_body import decode_body


class Wanted(Struct, forbid_unknown_fields=True):
    name: str
    on: bool = False
    size: int = 80


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"name": "a"}', Wanted("a")),
        (b' {"name":"a","on":true,"size":5} ', Wanted("a", True, 5)),
    ],
)
def test_what_is_understood(body: bytes, value: Wanted) -> None:
    assert decode_body(body, Wanted) == value


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"name": "a", "on": "false"}', "Expected `bool`, got `str` - at `$.on`"),
        (b'{"name": "a", "size": "80"}', "Expected `int`, got `str` - at `$.size`"),
        (b'{"name": "a", "size": 80.5}', "$.size"),
        (b'{"name": "a", "sise": 5}', "unknown field `sise`"),
        (b"{}", "missing required field `name`"),
        (b'{"name": "a"} x', "trailing"),
        (b'{"name": "a"', "truncated"),
        (b"\xff", ""),
        (b'{"name": "\xff"}', ""),
        (b'{"name": "\\ud800"}', ""),
        (b"null", "Expected `object`, got `null`"),
    ],
)
def test_what_is_not_is_said(body: bytes, said: str) -> None:
    with pytest.raises(OstlerError) as refused:
        decode_body(body, Wanted)
    error = refused.value
    assert (error.kind, error.hint) == ("bad_request", "GET /api/openapi.json describes what each route takes")
    assert error.message.startswith("the body is not valid: ") and said in error.message


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000])
def test_a_body_that_is_nested_too_deeply(body: bytes) -> None:
    with pytest.raises(OstlerError) as refused:
        decode_body(body, Any)
    assert (refused.value.kind, refused.value.message) == ("bad_request", "the body is nested too deeply")


def test_a_body_that_is_missing() -> None:
    with pytest.raises(OstlerError) as refused:
        decode_body(b"", Wanted)
    assert (refused.value.kind, refused.value.message) == ("bad_request", "the body is empty")
