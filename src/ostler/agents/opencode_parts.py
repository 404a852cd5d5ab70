"""Parts of opencode's records and log lines as ostler's words. Pure functions, one per part."""

import re
from typing import Any, Literal

from ostler.agents.adapter import Record, kind_of
from ostler.errors import ErrorKind
from ostler.words import AnyEvent, FileChange, Limited, Plan, PlanStep

EDITS = ("write", "edit", "apply_patch", "multiedit")


def kind(name: str, status: Any, message: str) -> ErrorKind:
    if name == "ProviderAuthError":
        return "unauthenticated"
    if name in ("BadRequest", "ContextOverflowError") or "ModelNotFound" in message:
        return "bad_request"
    return kind_of(status if isinstance(status, int) else None, message)


def limited(message: str) -> Limited:
    kind = kind_of(None, message)
    error: Literal["limited", "overloaded", "unauthenticated"] = "overloaded"
    if kind == "limited" or kind == "unauthenticated":
        error = kind
    return Limited(error=error, message=message.removeprefix("AI_APICallError: "))


def tokens(told: Any) -> dict[str, int]:
    """opencode counts cached input and reasoning apart; elsewhere they are parts of input and output."""
    if not isinstance(told, dict):
        return {}
    cache = told["cache"] if isinstance(told.get("cache"), dict) else {}
    read, reasoning = _int(cache.get("read")), _int(told.get("reasoning"))
    return {
        "input_tokens": _int(told.get("input")) + read + _int(cache.get("write")),
        "output_tokens": _int(told.get("output")) + reasoning,
        "cached_tokens": read,
        "reasoning_tokens": reasoning,
    }


def _int(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and abs(value) < 2**53 else 0


def duration(time: Any) -> int | None:
    if isinstance(time, dict) and isinstance(time.get("start"), int) and isinstance(time.get("end"), int):
        return int(time["end"] - time["start"])
    return None


def files(name: str, input: Any, meta: Record) -> tuple[FileChange, ...]:
    if isinstance(meta.get("files"), list):
        kinds: dict[Any, Any] = {"add": "add", "delete": "delete", "move": "move"}
        changed = [f for f in meta["files"] if isinstance(f, dict) and isinstance(f.get("filePath"), str)]
        return tuple(FileChange(path=f["filePath"], change=kinds.get(f.get("type"), "update")) for f in changed)
    if name in EDITS and isinstance(input, dict) and isinstance(input.get("filePath"), str):
        return (FileChange(path=input["filePath"], change="add" if meta.get("exists") is False else "update"),)
    return ()


def plan(name: str, input: Any) -> list[AnyEvent]:
    if name != "todowrite" or not isinstance(input, dict) or not isinstance(input.get("todos"), list):
        return []
    states: dict[Any, Any] = {"in_progress": "active", "completed": "done", "cancelled": "done"}
    todos = [t for t in input["todos"] if isinstance(t, dict)]
    steps = [PlanStep(text=str(t.get("content", "")), status=states.get(t.get("status"), "pending")) for t in todos]
    return [Plan(steps=tuple(steps))]


_FIELD = re.compile(r'([\w.]+)=("(?:[^"\\]|\\.)*"|\S*)')


def log_fields(line: str) -> dict[str, str]:
    """The fields of a line of opencode's log: `key=value key="quoted value"`."""
    if not line.startswith("timestamp="):
        return {}
    return {key: value[1:-1] if value[:1] == '"' else value for key, value in _FIELD.findall(line)}


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).strip()
