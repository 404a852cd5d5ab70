"""Answers in the four wire formats: as a stream of (event name, data), and whole."""

import json
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from ostler.testing import wire_requests
from ostler.testing.answers import ModelAnswer, ModelCall, ModelRequest
from ostler.testing.wire_requests import Json

INPUT, OUTPUT, CACHED, REASONING = 1234, 56, 1000, 8
WireStream = Iterator[tuple[str | None, Any]]


class Wire(Struct, frozen=True, kw_only=True):
    """One model API: how a request is read, an answer streamed or given whole, an error told."""

    name: str
    read: Callable[[Json], ModelRequest]
    stream: Callable[[ModelAnswer, str], WireStream]
    whole: Callable[[ModelAnswer, str], Json]
    error: Callable[[int, str], Json]


def wire_of(path: str) -> Wire | None:
    """The format that this request path belongs to."""
    if path.endswith("/messages"):
        return WIRES["anthropic"]
    if path.endswith("/responses"):
        return WIRES["responses"]
    if path.endswith("/chat/completions"):
        return WIRES["chat"]
    if path.endswith((":streamGenerateContent", ":generateContent")):
        return WIRES["gemini"]
    return None


def _id(prefix: str) -> str:
    return prefix + secrets.token_hex(10)


def _pieces(text: str) -> list[str]:
    """Words with the blanks before them: they join to the text, byte for byte."""
    parts = text.split(" ")
    pieces = [parts[0], *(" " + part for part in parts[1:])]
    if len(pieces) <= 500:
        return pieces if text else []
    size = -(-len(text) // 500)  # a long text is not worth a hundred thousand events
    return [text[i : i + size] for i in range(0, len(text), size)]


# -- Anthropic Messages -----------------------------------------------------------------------------


def _anthropic_blocks(answer: ModelAnswer) -> list[Json]:
    blocks: list[Json] = []
    if answer.thinking:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": "c2ln"})
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    blocks += [{"type": "tool_use", "id": _id("toolu_"), "name": c.name, "input": c.args} for c in answer.calls]
    return blocks


def _anthropic_message(answer: ModelAnswer, model: str, blocks: list[Json], stop: str | None, output: int) -> Json:
    return {
        "id": _id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": INPUT,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": CACHED,
            "output_tokens": output,
        },
    }


def _anthropic_deltas(block: Json) -> list[Json]:
    match block["type"]:
        case "thinking":
            return [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "text":
            return [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    return [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]


def _anthropic_empty(block: Json) -> Json:
    empty: Json = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}}.get(
        block["type"], {"input": {}}
    )
    return {**block, **empty}


def stream_anthropic(answer: ModelAnswer, model: str) -> WireStream:
    def event(type: str, **fields: Any) -> tuple[str, Json]:
        return type, {"type": type, **fields}

    yield event("message_start", message=_anthropic_message(answer, model, [], None, 1))
    for index, block in enumerate(_anthropic_blocks(answer)):
        yield event("content_block_start", index=index, content_block=_anthropic_empty(block))
        for delta in _anthropic_deltas(block):
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    stop = "tool_use" if answer.calls else "end_turn"
    yield event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": OUTPUT})
    yield event("message_stop")


def whole_anthropic(answer: ModelAnswer, model: str) -> Json:
    stop = "tool_use" if answer.calls else "end_turn"
    return _anthropic_message(answer, model, _anthropic_blocks(answer), stop, OUTPUT)


# -- OpenAI Responses -------------------------------------------------------------------------------


def _responses_items(answer: ModelAnswer) -> list[Json]:
    items: list[Json] = []
    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        items.append({"type": "reasoning", "id": _id("rs_"), "summary": summary})
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        items.append(
            {"type": "message", "id": _id("msg_"), "role": "assistant", "status": "completed", "content": content}
        )
    return items + [_responses_call(call) for call in answer.calls]


def _responses_call(call: ModelCall) -> Json:
    common = {"call_id": _id("call_"), "name": call.name, "status": "completed"}
    if call.freeform is not None:
        return {"type": "custom_tool_call", "id": _id("ctc_"), **common, "input": call.freeform}
    item = {"type": "function_call", "id": _id("fc_"), **common, "arguments": json.dumps(call.args)}
    return {**item, "namespace": call.namespace} if call.namespace else item


def _responses_inside(item: Json, index: int) -> WireStream:
    """What is streamed between an item's `added` and its `done`."""
    at = {"item_id": item["id"], "output_index": index}
    if item["type"] == "reasoning":
        text = item["summary"][0]["text"]
        yield "response.reasoning_summary_text.delta", {**at, "summary_index": 0, "delta": text}
    if item["type"] == "message":
        text = item["content"][0]["text"]
        part = {"type": "output_text", "text": "", "annotations": []}
        yield "response.content_part.added", {**at, "content_index": 0, "part": part}
        for piece in _pieces(text):
            yield "response.output_text.delta", {**at, "content_index": 0, "delta": piece}
        yield "response.output_text.done", {**at, "content_index": 0, "text": text}


def _responses_events(answer: ModelAnswer, model: str) -> WireStream:
    base = {"id": _id("resp_"), "object": "response", "created_at": int(time.time()), "model": model}
    begun = {"response": {**base, "status": "in_progress", "output": []}}
    yield "response.created", begun
    yield "response.in_progress", begun
    items = _responses_items(answer)
    for index, item in enumerate(items):
        empty: Json = {"reasoning": {"summary": []}, "message": {"content": []}}.get(item["type"], {})
        added = {**item, **empty, **({"status": "in_progress"} if "status" in item else {})}
        yield "response.output_item.added", {"output_index": index, "item": added}
        yield from _responses_inside(item, index)
        yield "response.output_item.done", {"output_index": index, "item": item}
    usage = {
        "input_tokens": INPUT,
        "input_tokens_details": {"cached_tokens": CACHED},
        "output_tokens": OUTPUT,
        "output_tokens_details": {"reasoning_tokens": REASONING},
        "total_tokens": INPUT + OUTPUT,
    }
    yield "response.completed", {"response": {**base, "status": "completed", "output": items, "usage": usage}}


def stream_responses(answer: ModelAnswer, model: str) -> WireStream:
    for number, (name, data) in enumerate(_responses_events(answer, model), 1):
        yield name, {"type": name, "sequence_number": number, **data}


def whole_responses(answer: ModelAnswer, model: str) -> Json:
    *_, (_, last) = _responses_events(answer, model)
    response: Json = last["response"]
    return response


# -- OpenAI Chat Completions ------------------------------------------------------------------------

_CHAT_USAGE = {
    "prompt_tokens": INPUT,
    "completion_tokens": OUTPUT,
    "total_tokens": INPUT + OUTPUT,
    "prompt_tokens_details": {"cached_tokens": CACHED},
    "completion_tokens_details": {"reasoning_tokens": REASONING},
}


def _chat_call(call: ModelCall, arguments: str) -> Json:
    return {"id": _id("call_"), "type": "function", "function": {"name": call.name, "arguments": arguments}}


def stream_chat(answer: ModelAnswer, model: str) -> WireStream:
    base = {"id": _id("chatcmpl-"), "object": "chat.completion.chunk", "created": int(time.time()), "model": model}

    def chunk(delta: Json, finish: str | None = None) -> tuple[None, Json]:
        return None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    if answer.thinking:
        yield chunk({"reasoning_content": answer.thinking})
    for piece in _pieces(answer.text):
        yield chunk({"content": piece})
    for index, call in enumerate(answer.calls):
        yield chunk({"tool_calls": [{"index": index, **_chat_call(call, "")}]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": json.dumps(call.args)}}]})
    yield chunk({}, "tool_calls" if answer.calls else "stop")
    yield None, {**base, "choices": [], "usage": _CHAT_USAGE}
    yield None, "[DONE]"


def whole_chat(answer: ModelAnswer, model: str) -> Json:
    message: Json = {"role": "assistant", "content": answer.text}
    if answer.thinking:
        message["reasoning_content"] = answer.thinking
    if answer.calls:
        message["tool_calls"] = [_chat_call(call, json.dumps(call.args)) for call in answer.calls]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if answer.calls else "stop"}
    return {
        "id": _id("chatcmpl-"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "usage": _CHAT_USAGE,
    }


# -- Gemini -----------------------------------------------------------------------------------------


def _gemini_part(parts: list[Json], model: str, finish: str | None = None) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = {
        "promptTokenCount": INPUT,
        "candidatesTokenCount": OUTPUT,
        "cachedContentTokenCount": CACHED,
        "totalTokenCount": INPUT + OUTPUT,
    }
    return {"candidates": [candidate], "modelVersion": model, "responseId": _id("resp-"), "usageMetadata": usage}


def _gemini_thought(answer: ModelAnswer) -> list[Json]:
    return [{"text": "**Planning**\n" + answer.thinking, "thought": True}] if answer.thinking else []


def _gemini_calls(answer: ModelAnswer) -> list[Json]:
    return [
        {"functionCall": {"id": _id("fc-"), "name": c.name, "args": c.args}, "thoughtSignature": "c2ln"}
        for c in answer.calls
    ]


def stream_gemini(answer: ModelAnswer, model: str) -> WireStream:
    texts = [{"text": piece} for piece in _pieces(answer.text)]
    for part in [*_gemini_thought(answer), *texts, *_gemini_calls(answer)]:
        yield None, _gemini_part([part], model)
    yield None, _gemini_part([{"text": ""}], model, "STOP")


def whole_gemini(answer: ModelAnswer, model: str) -> Json:
    texts = [{"text": answer.text}] if answer.text or not answer.calls else []
    return _gemini_part([*_gemini_thought(answer), *texts, *_gemini_calls(answer)], model, "STOP")


# -- errors -----------------------------------------------------------------------------------------

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_STATES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def error_anthropic(status: int, message: str) -> Json:
    return {"type": "error", "error": {"type": _KINDS.get(status, "api_error"), "message": message}}


def error_openai(status: int, message: str) -> Json:
    kind = _KINDS.get(status, "api_error")
    return {"error": {"message": message, "type": kind, "code": kind, "param": None}}


def error_gemini(status: int, message: str) -> Json:
    return {"error": {"code": status, "message": message, "status": _STATES.get(status, "INTERNAL")}}


def _wire(name: str, read: Any, stream: Any, whole: Any, error: Any) -> Wire:
    return Wire(name=name, read=read, stream=stream, whole=whole, error=error)


WIRES = {
    wire.name: wire
    for wire in (
        _wire("anthropic", wire_requests.read_anthropic, stream_anthropic, whole_anthropic, error_anthropic),
        _wire("responses", wire_requests.read_responses, stream_responses, whole_responses, error_openai),
        _wire("chat", wire_requests.read_chat, stream_chat, whole_chat, error_openai),
        _wire("gemini", wire_requests.read_gemini, stream_gemini, whole_gemini, error_gemini),
    )
}
