"""The four model APIs of the scripted model, asked by a plain HTTP client: whole answers and streams."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ostler.testing import ScriptedModel
from ostler.testing.answers import COMMAND, CONTENT, FINAL, FIRST
from ostler.testing.wire_requests import read_anthropic

PATHS = {
    "anthropic": "/v1/messages",
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
    "gemini": "/v1beta/models/scripted:generateContent",
}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
WRITE = {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}


def body(api: str, said: str, tools: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A request of that API with one user text."""
    tools = tools or {}
    match api:
        case "anthropic":
            found = [{"name": name, "input_schema": schema} for name, schema in tools.items()]
            return {"model": "m", "messages": [{"role": "user", "content": said}], "tools": found, **more}
        case "responses":
            found = [{"type": "function", "name": name, "parameters": schema} for name, schema in tools.items()]
            user = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]}
            return {"model": "m", "input": [user], "tools": found, **more}
        case "chat":
            found = [
                {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in tools.items()
            ]
            return {"model": "m", "messages": [{"role": "user", "content": said}], "tools": found, **more}
    declared = [{"name": name, "parameters": schema} for name, schema in tools.items()]
    user = {"role": "user", "parts": [{"text": said}]}
    return {"contents": [user], "tools": [{"functionDeclarations": declared}], **more}


def said(api: str, whole: Any) -> str:
    match api:
        case "anthropic":
            return "".join(block["text"] for block in whole["content"] if block["type"] == "text")
        case "responses":
            return "".join(item["content"][0]["text"] for item in whole["output"] if item["type"] == "message")
        case "chat":
            return str(whole["choices"][0]["message"]["content"])
    parts = whole["candidates"][0]["content"]["parts"]
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


def called(api: str, whole: Any) -> list[tuple[str, Any]]:
    match api:
        case "anthropic":
            return [(block["name"], block["input"]) for block in whole["content"] if block["type"] == "tool_use"]
        case "responses":
            calls = [item for item in whole["output"] if item["type"] == "function_call"]
            return [(item["name"], json.loads(item["arguments"])) for item in calls]
        case "chat":
            calls = whole["choices"][0]["message"].get("tool_calls", [])
            return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
    parts = whole["candidates"][0]["content"]["parts"]
    return [(p["functionCall"]["name"], p["functionCall"]["args"]) for p in parts if "functionCall" in p]


@pytest.mark.parametrize("api", PATHS)
class TestWhole:
    def test_says_exactly_what_it_is_told(self, api: str, scripted_model: ScriptedModel, post: Any) -> None:
        reply = post(scripted_model.url + PATHS[api], body(api, "please [[say:two  words,\n a line — ü]]"))
        assert (reply.status, said(api, reply.json)) == (200, "two  words,\n a line — ü")

    def test_calls_the_shell_tool(self, api: str, scripted_model: ScriptedModel, post: Any) -> None:
        reply = post(scripted_model.url + PATHS[api], body(api, "[[shell:ls -l]]", {"bash": SCHEMA}))
        assert (said(api, reply.json), called(api, reply.json)) == (FIRST, [("bash", {"command": "ls -l"})])

    def test_calls_the_write_tool(self, api: str, scripted_model: ScriptedModel, post: Any) -> None:
        reply = post(scripted_model.url + PATHS[api], body(api, "[[write:/a/b.txt]]", {"write_file": WRITE}))
        assert called(api, reply.json) == [("write_file", {"path": "/a/b.txt", "content": CONTENT})]

    def test_writes_by_shell_where_there_is_no_other_tool(
        self, api: str, scripted_model: ScriptedModel, post: Any
    ) -> None:
        reply = post(scripted_model.url + PATHS[api], body(api, "[[write:a b.txt]]", {"exec_command": SCHEMA}))
        command = "printf '%s\\n' 'written by the scripted model' > 'a b.txt'"
        assert called(api, reply.json) == [("exec_command", {"command": command})]

    def test_several_calls_in_one_answer(self, api: str, scripted_model: ScriptedModel, post: Any) -> None:
        reply = post(scripted_model.url + PATHS[api], body(api, "[[tools:echo a;;echo b]]", {"bash": SCHEMA}))
        assert called(api, reply.json) == [("bash", {"command": "echo a"}), ("bash", {"command": "echo b"})]

    def test_exactly_that_tool(self, api: str, scripted_model: ScriptedModel, post: Any) -> None:
        reply = post(scripted_model.url + PATHS[api], body(api, '[[tool:grep:{"q": "x"}]]', {"grep": {}}))
        assert called(api, reply.json) == [("grep", {"q": "x"})]

    @pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 503, 529])
    def test_errors(self, api: str, status: int, scripted_model: ScriptedModel, post: Any) -> None:
        reply = post(scripted_model.url + PATHS[api], body(api, f"[[error:{status}]]"))
        message = f"scripted {status} from the scripted model"
        assert (reply.status, reply.json["error"]["message"]) == (status, message)
        assert reply.headers.get("Retry-After") == ("1" if status in (429, 500, 503, 529) else None)


@pytest.mark.parametrize("api", PATHS)
def test_a_schema_is_filled(api: str, scripted_model: ScriptedModel, post: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer", "minimum": 3}, "free": {"type": "string"}},
        "required": ["ok", "n"],
    }
    asks: dict[str, dict[str, Any]] = {
        "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
        "responses": {"text": {"format": {"type": "json_schema", "schema": schema}}},
        "chat": {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}},
        "gemini": {"generationConfig": {"responseMimeType": "application/json", "responseSchema": schema}},
    }
    reply = post(scripted_model.url + PATHS[api], body(api, "fill it", **asks[api]))
    assert json.loads(said(api, reply.json)) == {"ok": True, "n": 3}


def with_tool_results(api: str, text: str, rounds: int) -> dict[str, Any]:
    """The same request after `rounds` rounds of a tool call and its result."""
    asked = body(api, text, {"bash": SCHEMA})
    for n in range(rounds):
        match api:
            case "anthropic":
                use = {"type": "tool_use", "id": f"t{n}", "name": "bash", "input": {}}
                result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "out"}
                asked["messages"] += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
            case "responses":
                asked["input"] += [
                    {"type": "function_call", "call_id": f"t{n}", "name": "bash", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": f"t{n}", "output": "out"},
                ]
            case "chat":
                asked["messages"] += [{"role": "assistant", "content": ""}, {"role": "tool", "content": "out"}]
            case "gemini":
                asked["contents"] += [
                    {"role": "model", "parts": [{"functionCall": {"name": "bash", "args": {}}}]},
                    {"role": "user", "parts": [{"functionResponse": {"name": "bash", "response": {}}}]},
                ]
    return asked


@pytest.mark.parametrize("api", PATHS)
def test_markers_are_played_one_after_the_other(api: str, scripted_model: ScriptedModel, post: Any) -> None:
    text = "[[shell:echo 1]] then [[shell:echo 2]] and [[say:bye]]"
    replies = [post(scripted_model.url + PATHS[api], with_tool_results(api, text, n)).json for n in range(3)]
    assert [called(api, reply) for reply in replies] == [
        [("bash", {"command": "echo 1"})],
        [("bash", {"command": "echo 2"})],
        [],
    ]
    assert said(api, replies[2]) == "bye"


@pytest.mark.parametrize("api", PATHS)
def test_after_the_tool_it_says_the_final_words(api: str, scripted_model: ScriptedModel, post: Any) -> None:
    reply = post(scripted_model.url + PATHS[api], with_tool_results(api, "[[shell]]", 1)).json
    assert (said(api, reply), called(api, reply)) == (FINAL, [])


@pytest.mark.parametrize("api", PATHS)
def test_a_loop_never_ends(api: str, scripted_model: ScriptedModel, post: Any) -> None:
    reply = post(scripted_model.url + PATHS[api], with_tool_results(api, "[[loop]]", 7)).json
    assert called(api, reply) == [("bash", {"command": COMMAND})]


def streamed(post: Callable[..., Any], model: ScriptedModel, api: str, text: str) -> list[tuple[str | None, Any]]:
    path = PATHS[api].replace(":generateContent", ":streamGenerateContent?alt=sse")
    more = {} if api == "gemini" else {"stream": True}
    reply = post(model.url + path, body(api, text, {"bash": SCHEMA}, **more))
    assert reply.status == 200
    return list(reply.events)


class TestStreams:
    def test_anthropic(self, scripted_model: ScriptedModel, post: Any) -> None:
        events = streamed(post, scripted_model, "anthropic", "[[shell:ls]]")
        assert all(name == data["type"] for name, data in events)
        assert [name for name, _ in events] == [
            "message_start",
            "content_block_start",
            *["content_block_delta"] * len(FIRST.split()),
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
        deltas = [data["delta"] for name, data in events if name == "content_block_delta"]
        assert "".join(delta.get("text", "") for delta in deltas) == FIRST
        assert json.loads(deltas[-1]["partial_json"]) == {"command": "ls"}
        assert events[-2][1]["delta"]["stop_reason"] == "tool_use"
        assert events[-2][1]["usage"] == {"output_tokens": 56}

    def test_anthropic_thinking(self, scripted_model: ScriptedModel, post: Any) -> None:
        events = streamed(post, scripted_model, "anthropic", "[[think:hm]]")
        starts = [data["content_block"] for name, data in events if name == "content_block_start"]
        assert starts == [{"type": "thinking", "thinking": "", "signature": ""}, {"type": "text", "text": ""}]
        deltas = [data["delta"] for name, data in events if name == "content_block_delta"]
        assert deltas[:2] == [
            {"type": "thinking_delta", "thinking": "hm"},
            {"type": "signature_delta", "signature": "c2ln"},
        ]

    def test_responses(self, scripted_model: ScriptedModel, post: Any) -> None:
        events = streamed(post, scripted_model, "responses", "[[shell:ls]]")
        assert [data["sequence_number"] for _, data in events] == list(range(1, len(events) + 1))
        assert [name for name, _ in events] == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            *["response.output_text.delta"] * len(FIRST.split()),
            "response.output_text.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.output_item.done",
            "response.completed",
        ]
        done = events[-1][1]["response"]
        assert (done["status"], said("responses", done)) == ("completed", FIRST)
        assert called("responses", done) == [("bash", {"command": "ls"})]
        assert done["usage"]["total_tokens"] == 1290

    def test_chat(self, scripted_model: ScriptedModel, post: Any) -> None:
        events = streamed(post, scripted_model, "chat", "[[tools:ls;;pwd]]")
        assert events[-1] == (None, "[DONE]")
        chunks = [data for _, data in events[:-1]]
        assert chunks[-1]["usage"]["total_tokens"] == 1290
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
        assert "".join(delta.get("content", "") for delta in deltas) == FIRST
        calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
        assert [call["index"] for call in calls] == [0, 0, 1, 1]
        assert [json.loads(call["function"]["arguments"]) for call in calls[1::2]] == [
            {"command": "ls"},
            {"command": "pwd"},
        ]
        assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"

    def test_gemini(self, scripted_model: ScriptedModel, post: Any) -> None:
        events = streamed(post, scripted_model, "gemini", "[[shell:ls]]")
        parts = [part for _, data in events for part in data["candidates"][0]["content"]["parts"]]
        assert "".join(part.get("text", "") for part in parts) == FIRST
        assert [part["functionCall"]["args"] for part in parts if "functionCall" in part] == [{"command": "ls"}]
        assert events[-1][1]["candidates"][0]["finishReason"] == "STOP"

    @pytest.mark.parametrize("api", PATHS)
    def test_malformed_json_inside_the_stream(self, api: str, scripted_model: ScriptedModel, post: Any) -> None:
        with pytest.raises(json.JSONDecodeError):
            streamed(post, scripted_model, api, "[[malformed]]")

    @pytest.mark.parametrize("api", PATHS)
    def test_long_text_arrives_whole(self, api: str, scripted_model: ScriptedModel, post: Any) -> None:
        events = streamed(post, scripted_model, api, "[[long:200000]]")
        assert len(events) < 600
        assert json.dumps(events).count("wo") >= 40_000 - 600


def test_other_paths(scripted_model: ScriptedModel, post: Any) -> None:
    url = scripted_model.url
    assert post(f"{url}/v1/messages/count_tokens", {}).json == {"input_tokens": 1234}
    assert post(f"{url}/v1beta/models/x:countTokens", {}).json == {"totalTokens": 1234}
    assert post(f"{url}/nowhere", {}).status == 404
    assert [exchange.api for exchange in scripted_model.requests] == ["", "", ""]


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("odd", [[], None, 7, {"messages": 3, "input": [None], "contents": "x", "tools": [1]}])
def test_odd_bodies_do_not_break_it(api: str, odd: Any, scripted_model: ScriptedModel, post: Any) -> None:
    status = post(scripted_model.url + PATHS[api], odd).status
    assert status == (200 if isinstance(odd, dict) else 400)
    assert post(scripted_model.url + PATHS[api], b"{no json").status == 200


def test_a_prompt_after_a_refused_tool_stands_beside_its_result() -> None:
    """claude sends both in one message: what is said there is a prompt if it has a marker, and else a remark."""
    result = {"type": "tool_result", "tool_use_id": "1", "content": "refused"}

    def asked(text: str) -> tuple[str, int]:
        said = {"role": "user", "content": [result, {"type": "text", "text": text}]}
        found = read_anthropic({"messages": [{"role": "user", "content": "[[shell:ls]]"}, said]})
        return found.user, found.results

    assert asked("[[say:Next.]]") == ("[[say:Next.]]", 0)
    assert asked("[Request interrupted by user]") == ("[[shell:ls]]", 1)


def test_a_prompt_that_got_no_answer_is_not_played_again() -> None:
    """claude sends it once more, in the same message as the next one."""
    texts = (
        "<system-reminder>[[say:no]]</system-reminder>",
        "[[hold:one]] wait",
        "[Request interrupted]",
        "[[say:Next.]]",
    )
    content = [{"type": "text", "text": text} for text in texts]
    assert read_anthropic({"messages": [{"role": "user", "content": content}]}).user == "[[say:Next.]]"
