"""The body of a request, read once and strictly: JSON of the very type that the handler asks for."""

from typing import Any

import msgspec
from litestar import Request

from ostler.errors import OstlerError


class JsonRequest(Request[Any, Any, Any]):
    """The framework would take "false" for false and "80" for 80, and fall over JSON that is nested too deeply."""

    async def json(self) -> Any:
        field = getattr(self.route_handler, "parsed_data_field", None)
        return read(await self.body(), field.annotation if field is not None else Any)


def read(body: bytes, type: Any) -> Any:
    """Raises `bad_request` that says what is wrong, and where."""
    try:
        return msgspec.json.decode(body, type=type)
    except RecursionError:
        raise OstlerError("bad_request", "the body is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        hint = "See /api/openapi.json for what is understood here"
        raise OstlerError("bad_request", f"the body is not understood: {error}", hint) from None
