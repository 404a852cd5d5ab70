"""Values as TOML in one line, for `--config=`."""

import json
from typing import Any


def toml(value: Any) -> str:
    """A value as TOML in one line."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}={toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else str(value)
