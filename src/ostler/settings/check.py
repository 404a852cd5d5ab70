"""Checks plain values against the settings' types; what is wrong is told with file, line and path."""

import contextlib
import math
import re
from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from ostler.errors import OstlerError, quoted
from ostler.model import Limits, PlainAgent
from ostler.settings.keys import NOT_IN_FILES, positive, seconds

KeyPath = tuple[str, ...]
DURATIONS = ("ask_limit", "dialog_idle", "dialog_receipt", "tui_idle", "tui_start", "tui_receipt")
_ABOVE_ZERO = ("ttl_days", "terminals", "recording_mb")


class Where(Struct, frozen=True):
    """Says where a key stands: in a file with its line, or in a variable or flag."""

    name: str
    text: str = ""

    def at(self, path: KeyPath) -> str:
        return f"{self.name}:{line_of(self.text, path)}: " if self.text else f"{self.name}: "


def checked(value: Any, kind: Any, where: Where, path: KeyPath) -> Any:
    """The value as plain data of that type; raises bad_request that names file, line and path."""
    if path[0] in DURATIONS or path == ("forward", "wait"):
        return checked_limit(value, where, path)
    if get_origin(kind) is tuple and _is_struct(get_args(kind)[0]):
        return _checked_tables(value, get_args(kind)[0], where, path)
    if get_origin(kind) is not dict:
        parts = (part for part in get_args(kind) if _is_struct(part) or get_origin(part) is dict)
        kind = next(parts, kind)  # Limits of `Limits | None`
    if _is_struct(kind):
        return _checked_struct(value, kind, where, path)
    if get_origin(kind) is dict:
        table = _table(value, where, path)
        return {name: checked(item, get_args(kind)[1], where, (*path, name)) for name, item in table.items()}
    if _is_command(path) and isinstance(value, str):
        value = [value]
    return _leaf(value, kind, where, path)


def checked_limit(value: Any, where: Where, path: KeyPath) -> float | None:
    """Seconds (or dollars): a number, "5m", or "none"."""
    needed = path[-1] in ("linger", "wait", *DURATIONS[1:])
    if value is None or (value == "none" and not needed):
        return None
    try:
        if path[-1] != "cost_usd":
            return seconds(value)
        if not isinstance(value, bool):
            return positive(float(value))
    except (ValueError, TypeError):
        pass  # said below, with what it could be
    known = "dollars, more than 0," if path[-1] == "cost_usd" else 'a number, "5m"'
    none = "" if needed else ' or "none"'
    raise wrong(where, path, f"{quoted(value)} is not a valid limit: expected {known}{none}")


def _checked_tables(value: Any, kind: type[Struct], where: Where, path: KeyPath) -> list[dict[str, Any]]:
    """A list of tables, each written as `[[key]]`; the path counts them from 1."""
    if not isinstance(value, list | tuple):
        raise wrong(where, path, f"expected a list of tables: [[{'.'.join(path)}]]")
    return [_checked_struct(item, kind, where, (*path, str(n))) for n, item in enumerate(value, 1)]


def _checked_struct(value: Any, kind: type[Struct], where: Where, path: KeyPath) -> dict[str, Any]:
    fields = msgspec.structs.fields(kind)
    types = {field.name: field.type for field in fields}
    table = _table(value, where, path)
    for name in table:
        if name not in types:
            raise unknown(where, (*path, name), types)
    if missing := next((field.name for field in fields if field.required and field.name not in table), None):
        raise wrong(where, path, f"{missing} is required")
    if kind is PlainAgent:
        _check_proof(table, where, path)
    if kind is Limits:
        return {name: checked_limit(item, where, (*path, name)) for name, item in table.items()}
    return {name: checked(item, types[name], where, (*path, name)) for name, item in table.items()}


def _check_proof(table: dict[str, Any], where: Where, path: KeyPath) -> None:
    """A proof by pattern and the pattern go together."""
    if table.get("proof") == "pattern" and not table.get("done_pattern"):
        raise wrong(where, path, 'proof = "pattern" needs done_pattern')
    if table.get("proof") == "exit" and table.get("done_pattern"):
        raise wrong(where, path, 'done_pattern needs proof = "pattern"')


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _table(value: Any, where: Where, path: KeyPath) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    names: dict[type, str] = {str: "a string", bool: "true or false", int: "a number", float: "a number"}
    raise wrong(where, path, f"expected a table, got {names.get(type(value), 'a list')}")


def _leaf(value: Any, kind: Any, where: Where, path: KeyPath) -> Any:
    try:
        converted = msgspec.to_builtins(msgspec.convert(value, kind))
    except msgspec.ValidationError as error:
        raise wrong(where, path, _mismatch(value, kind, error)) from error
    if problem := _unsound(converted, path):
        raise wrong(where, path, problem)
    return converted


def _mismatch(value: Any, kind: Any, error: msgspec.ValidationError) -> str:
    literal = next((part for part in (kind, *get_args(kind)) if get_origin(part) is Literal), None)
    if literal is not None and isinstance(value, str):
        return f"{quoted(value)} is not one of {', '.join(get_args(literal))}"
    return re.sub(r"^Expected", "expected", str(error).split(" - at ")[0]).replace("`", "")


def _unsound(value: Any, path: KeyPath) -> str:
    """What the types do not say: '' when the value is sound."""
    strings = [value] if isinstance(value, str) else value if isinstance(value, tuple | list) else []
    if any("\0" in item for item in strings):
        return "it contains a NUL character"
    if "env" in path[:-1] and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", path[-1]):
        return f"{quoted(path[-1])} cannot be the name of a variable"
    if _is_command(path) and not (value and value[0]):
        return "a command needs a program"
    if path[0] == "port" and not 0 <= value <= 65535:
        return "a port is a number from 1 to 65535, or 0 for any"
    if path[0] in ("acp", "agents") and not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", path[1]):
        return f"{quoted(path[1])} cannot be the name of an agent: write a-z, 0-9 and -"
    if path[0] == "mcp" and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", path[1]):
        return f"{quoted(path[1])} cannot be the name of an MCP server: write A-Z, a-z, 0-9, _ and -"
    if path[0] in ("forward", "notify") and path[-1] == "url" and (problem := _unsound_url(value)):
        return problem
    if path[0] == "state" and not value:
        return "it is empty"
    if path[0] == "delegation_depth" and value < 0:
        return "it must be 0 or more"
    if path[0] in _ABOVE_ZERO and not (math.isfinite(value) and value > 0):
        return "it must be more than 0"
    if path[0] in ("pool", "spending") and (problem := _unsound_bound(value, path)):
        return problem
    if path[-1] == "done_pattern" and not _compiles(value):
        return "this is not a valid regular expression"
    return ""


def _unsound_url(url: str) -> str:
    """'' when it can be posted to."""
    from urllib.parse import urlsplit  # few settings name one

    if not re.match(r"https?://[^/\s]+", url):
        return "a URL is expected: https://…"
    try:
        _ = urlsplit(url).port  # it is looked at when it is asked for
    except ValueError as error:
        return f"this is not a valid URL: {error}"
    return ""


def _unsound_bound(value: Any, path: KeyPath) -> str:
    """Of the pool and of spending: '' when the bound is sound. 0 is refused: it would forbid every turn."""
    least = 0 if path[-1] in ("retries", "free_memory_mb") else 1 if path[0] == "pool" else 0.01
    if value is None or (math.isfinite(value) and value >= least):
        return ""
    return f"it must be at least {least}"


def _is_command(path: KeyPath) -> bool:
    if path[0] in ("forward", "notify"):
        return path[-1] in ("command", "token_command")
    return path[0] in ("commands", "acp") or (path[0] == "agents" and path[2:] == ("command",))


def _compiles(pattern: str) -> bool:
    with contextlib.suppress(re.error, OverflowError, RecursionError):  # all that a wrong pattern can raise
        re.compile(pattern)
        return True
    return False


# -- what to say ------------------------------------------------------------------------------------


def unknown(where: Where, path: KeyPath, known: Iterable[str]) -> OstlerError:
    if len(path) == 1 and path[0] in NOT_IN_FILES:
        hint = f"Set OSTLER_{path[0].upper()} in the environment instead"
    elif guess := nearest(path[-1], known):
        hint = f"Did you mean {guess}?"
    else:
        hint = f"Known here: {', '.join(known)}"
    return OstlerError("bad_request", f"{where.at(path)}unknown setting {'.'.join(path)}", hint)


def wrong(where: Where, path: KeyPath, what: str) -> OstlerError:
    return OstlerError("bad_request", f"{where.at(path)}{'.'.join(path)}: {what}")


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The known name that comes nearest, or ''."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(names), n=1, cutoff=cutoff)), "")


# -- lines of keys ----------------------------------------------------------------------------------

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
# Not compiled here: they are needed only where a file has a mistake.
_KEY_LINE = rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*="
_TABLE_LINE = rf"\s*\[\[?\s*({_PART}(?:\s*\.\s*{_PART})*)\s*\]"
_LONG_STRING = r'(?s:"""(?:\\.|[^\\])*?"""' + r"|'''.*?''')"


def line_of(text: str, path: KeyPath) -> int:
    """The line where a key stands, else where the nearest table around it begins; 1 if nowhere."""
    text = re.sub(_LONG_STRING, lambda found: '""' + "\n" * found[0].count("\n"), text)
    table: KeyPath = ()
    best, depth = 1, 0
    counts: dict[KeyPath, int] = {}  # of `[[tables]]` of one name
    for number, line in enumerate(text.split("\n"), 1):
        if found := re.match(_TABLE_LINE, line):
            table = key = _parts(found[1])
            if line.lstrip().startswith("[["):
                counts[key] = counts.get(key, 0) + 1
                table = key = (*key, str(counts[key]))
        elif found := re.match(_KEY_LINE, line):
            key = (*table, *_parts(found[1]))
        else:
            continue
        shared = len(path) if key[: len(path)] == path else len(key) if path[: len(key)] == key else 0
        if shared > depth:
            best, depth = number, shared
    return best


def _parts(dotted: str) -> KeyPath:
    import tomllib

    value: Any = tomllib.loads(f"{dotted} = 0")
    parts = []
    while isinstance(value, dict):
        name, value = next(iter(value.items()))
        parts.append(name)
    return tuple(parts)
