"""The parts of codex's records: what an item, a usage or an error says."""

import json
import re
import shlex
from typing import Any, Literal

from ostler.agents.adapter import Record, kind_of, title_of
from ostler.agents.values import number, table, tables, text
from ostler.errors import ErrorKind
from ostler.words import FileChange, ToolStarted, Usage

_CHANGES: dict[str, Literal["add", "delete"]] = {"add": "add", "delete": "delete"}


def tool(item: Record) -> ToolStarted | None:
    """The tool call that an item is about, or None where it is no tool that we know."""
    id = text(item.get("id"))
    match item.get("type"):
        case "command_execution":
            input: Any = {"command": text(item.get("command"))}
            return ToolStarted(id=id, name="command_execution", title=_typed(input["command"]), input=input)
        case "file_change":
            files = tuple(_change(c) for c in tables(item.get("changes")))
            return ToolStarted(id=id, name="file_change", title=", ".join(f.path for f in files)[:200], files=files)
        case "mcp_tool_call":
            name, input = f"{text(item.get('server'))}.{text(item.get('tool'))}", item.get("arguments")
        case "collab_tool_call":
            name, input = text(item.get("tool")) or "agent", {"prompt": item.get("prompt")}
        case "web_search":
            name, input = "web_search", {"query": item.get("query")}
        case _:
            return None
    return ToolStarted(id=id, name=name, title=title_of(name, input), input=input)


def output(item: Record) -> str:
    if item.get("type") == "command_execution":
        return text(item.get("aggregated_output"))
    said = [text(c.get("text")) for c in tables(table(item.get("result")).get("content"))]
    return "\n".join(part for part in said if part) or message(item.get("error"))


def usage(counts: Record) -> Usage:
    return Usage(
        input_tokens=number(counts.get("input_tokens")),
        output_tokens=number(counts.get("output_tokens")),
        cached_tokens=number(counts.get("cached_input_tokens")),
        reasoning_tokens=number(counts.get("reasoning_output_tokens")),
    )


def kind(said: str) -> ErrorKind:
    kind = kind_of(None, said)
    if kind == "crashed" and re.search(r"disconnected|connection|network|timed? ?out", said, re.I):
        return "overloaded"
    return kind


def message(error: Any) -> str:
    return text(error) or text(table(error).get("message"))


def inner(said: str) -> str:
    """The words inside a model server's JSON error body, which codex passes on whole."""
    try:
        return message(table(json.loads(said)).get("error")) or said
    except (ValueError, RecursionError):
        return said


def _change(change: Record) -> FileChange:
    return FileChange(path=text(change.get("path")), change=_CHANGES.get(text(change.get("kind")), "update"))


def _typed(command: str) -> str:
    """`/bin/bash -lc 'touch x'` as people would type it, its first line."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if len(words) == 3 and words[1] in ("-c", "-lc"):
        command = words[2]
    return title_of("", {"command": command})
