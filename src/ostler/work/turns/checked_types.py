"""What Python callers give is of the types that the structs name: msgspec checks what it reads, not what is made."""

import msgspec

from ostler.errors import OstlerError


def check_types(given: msgspec.Struct) -> None:
    """Raises bad_request for a field of another type than its own: once stored, nobody could read it again."""
    try:
        msgspec.convert(msgspec.to_builtins(given, builtin_types=(bytes,)), type(given), builtin_types=(bytes,))
    except (msgspec.ValidationError, TypeError, UnicodeEncodeError) as error:
        what, _, where = str(error).replace("`", "").partition(" - at $.")
        raise OstlerError("bad_request", f"{where}: {what}" if where else what) from error
