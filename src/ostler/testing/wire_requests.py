"""Requests of the four wire formats, each read into one `ModelRequest`. Tolerant: anything odd is left out."""

import re
from collections.abc import Iterable
from typing import Any

from ostler.testing.answers import MARKER, ModelRequest, Tool

Json = dict[str, Any]
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.S)
_CONTEXT = ("<environment_context>", "# AGENTS.md", "<user_instructions>")


def read_anthropic(body: Json) -> ModelRequest:
    asked = ModelRequest(tools={t["name"]: Tool(schema=t.get("input_schema") or {}) for t in _named(body.get("tools"))})
    after_result = False
    for message in _objects(body.get("messages")):
        if message.get("role") == "assistant":
            after_result = False
        if message.get("role") != "user":
            continue
        content = message.get("content")
        text = _newest(content)
        if any(part.get("type") == "tool_result" for part in _objects(content)):
            asked.results, after_result = asked.results + 1, True
            if MARKER.search(text):  # a prompt after a tool that was refused
                asked.user, asked.results = text, 0
        elif text and (MARKER.search(text) or not after_result):
            # A text without a marker right after a tool result is only a remark of the CLI.
            asked.user, asked.results = text, 0
    format = _object(_object(body.get("output_config")).get("format")) or _object(body.get("output_format"))
    asked.schema = format.get("schema")
    return asked


def _newest(content: Any) -> str:
    """The text of a message. claude sends a prompt that got no answer again, in a block before the next one."""
    blocks = [_REMINDER.sub("", text_of([part])).strip() for part in _objects(content)]
    marked = [block for block in blocks if MARKER.search(block)]
    return marked[-1] if marked else _REMINDER.sub("", text_of(content)).strip()


def read_responses(body: Json) -> ModelRequest:
    asked = ModelRequest(tools=dict(_responses_tools(_objects(body.get("tools")))))
    items = body.get("input", [])
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": items}]
    in_results = False
    for item in _objects(items):
        is_result = str(item.get("type", "")).endswith("_output")
        asked.results += is_result and not in_results
        in_results = is_result
        text = text_of(item.get("content"))
        if item.get("role") == "user" and text and not text.lstrip().startswith(_CONTEXT):
            asked.user, asked.results = text, 0
    format = _object(_object(body.get("text")).get("format"))
    asked.schema = format.get("schema") if format.get("type") == "json_schema" else None
    return asked


def _responses_tools(tools: Iterable[Json], namespace: str | None = None) -> Iterable[tuple[str, Tool]]:
    for tool in tools:
        kind = tool.get("type", "function")
        if kind == "namespace":
            yield from _responses_tools(_objects(tool.get("tools")), tool.get("name"))
            continue
        yield (
            tool.get("name") or kind,
            Tool(
                schema=tool.get("parameters") or {},
                namespace=namespace,
                kind=kind if kind in ("custom", "local_shell") else "function",
            ),
        )


def read_chat(body: Json) -> ModelRequest:
    functions = _named(_object(tool.get("function")) for tool in _objects(body.get("tools")))
    asked = ModelRequest(tools={f["name"]: Tool(schema=f.get("parameters") or {}) for f in functions})
    in_results = False
    for message in _objects(body.get("messages")):
        is_result = message.get("role") == "tool"
        asked.results += is_result and not in_results
        in_results = is_result
        text = _REMINDER.sub("", text_of(message.get("content"))).strip()
        if message.get("role") == "user" and text:
            asked.user, asked.results = text, 0
    format = _object(body.get("response_format"))
    if format.get("type") == "json_schema":
        asked.schema = _object(format.get("json_schema")).get("schema") or {}
    return asked


def read_gemini(body: Json) -> ModelRequest:
    functions = [f for tool in _objects(body.get("tools")) for f in _named(tool.get("functionDeclarations"))]
    asked = ModelRequest(
        tools={f["name"]: Tool(schema=f.get("parametersJsonSchema") or f.get("parameters") or {}) for f in functions}
    )
    for content in _objects(body.get("contents")):
        if content.get("role", "user") != "user":
            continue
        parts = _objects(content.get("parts"))
        text = text_of(parts)
        if any("functionResponse" in part for part in parts):
            asked.results += 1
        elif text.strip():
            asked.user, asked.results = text, 0
    config = _object(body.get("generationConfig"))
    if "json" in str(config.get("responseMimeType", "")):
        asked.schema = config.get("responseJsonSchema") or config.get("responseSchema") or {"type": "object"}
    return asked


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in _objects(content) if isinstance(part.get("text"), str))


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _named(tools: Any) -> list[Json]:
    return [t for t in _objects(list(tools or ())) if isinstance(t.get("name"), str)]
