"""What records hold, taken leniently: a null or a wrong type must not cost the line."""

import re
from typing import Any

Record = dict[str, Any]  # one line of an agent's output
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def number(value: Any) -> int | None:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if plain and abs(value) < 1e15 else None


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def tables(value: Any) -> list[dict[str, Any]]:
    return [item for item in items(value) if isinstance(item, dict)]
