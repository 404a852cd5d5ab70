"""What Python callers give is of the types that the structs name."""

from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import Attachment, Limits, McpServer, TurnOptions
from ostler.work.turns.checked_types import check_types


def test_what_fits_is_taken() -> None:
    attached = (Attachment(name="a", content="b"), "notes.txt")
    servers = (McpServer(name="db", command="db-server"), "other")
    check_types(TurnOptions(access="write", model="m", limits=Limits(total=3), attachments=attached, mcp=servers))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": 5}, "model: Expected str | null, got int"),
        ({"access": "rite"}, "access: Invalid enum value 'rite'"),
        ({"transport": "pigeon"}, "transport: Invalid enum value 'pigeon'"),
        ({"limits": 5}, "limits: Expected object | null, got int"),
        ({"model": object()}, "Encoding objects of type object is unsupported"),
    ],
)
def test_what_does_not_fit_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OstlerError) as raised:
        check_types(TurnOptions(**given))
    assert (raised.value.kind, raised.value.message) == ("bad_request", said)
