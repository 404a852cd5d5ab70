"""The scripted model as a server: what it keeps, how tests wait for it, how it stops."""

import gzip
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.testing import ScriptedModel, serve
from ostler.testing.answers import FINAL, TITLE, working_folder


def ask(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


def text_of(reply: Any) -> str:
    return str(reply.json["content"][0]["text"])


def begin(model: ScriptedModel, text: str) -> http.client.HTTPConnection:
    """Sends a streaming request and does not read the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=60)
    connection.request("POST", "/v1/messages", json.dumps(ask(text, stream=True)))
    return connection


def test_it_listens_on_loopback_alone(scripted_model: ScriptedModel) -> None:
    assert scripted_model.server_address == ("127.0.0.1", scripted_model.port)
    assert scripted_model.url == f"http://127.0.0.1:{scripted_model.port}"
    assert scripted_model.environment["ANTHROPIC_BASE_URL"] == scripted_model.url


def test_markers_then_rules_then_the_scenario(post: Any) -> None:
    with ScriptedModel("say:scenario", rules=[("b+c", "say:first rule"), ("c", "say:second rule")]) as model:
        url = f"{model.url}/v1/messages"
        texts = ["nothing", "c", "abbc", "abbc [[say:marker]]"]
        assert [text_of(post(url, ask(text))) for text in texts] == [
            "scenario",
            "second rule",
            "first rule",
            "marker",
        ]


def test_requests_without_tools_get_a_title_where_tools_are_played(post: Any) -> None:
    with ScriptedModel("shell") as model:
        assert text_of(post(f"{model.url}/v1/messages", ask("name this"))) == TITLE


def test_an_error_can_pass(scripted_model: ScriptedModel, post: Any) -> None:
    url = f"{scripted_model.url}/v1/messages"
    replies = [post(url, ask("[[error:429:2:come back later]]")) for _ in range(3)]
    assert [reply.status for reply in replies] == [429, 429, 200]
    assert replies[0].json == {"type": "error", "error": {"type": "rate_limit_error", "message": "come back later"}}
    assert text_of(replies[2]) == FINAL


def test_every_request_is_kept_without_credentials(tmp_path: Path, post: Any) -> None:
    log = tmp_path / "requests.ndjson"
    with ScriptedModel(log=log) as model:
        body = ask("hello", system=[{"type": "text", "text": "be kind"}])
        post(f"{model.url}/v1/messages?key=abc&x=1", body, {"X-Api-Key": "secret-1", "Authorization": "secret-2"})
        (exchange,) = model.asked
    assert (exchange.method, exchange.path, exchange.body) == ("POST", "/v1/messages?x=1", body)
    assert exchange.credentials == ("authorization", "x-api-key")
    assert (exchange.api, exchange.user, exchange.system) == ("anthropic", "hello", "be kind")
    assert (exchange.status, exchange.ended, exchange.aborted) == (200, True, False)
    assert [json.loads(line) for line in log.read_text().splitlines()] == [exchange.row()]
    assert "secret" not in log.read_text() and "abc" not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("body", "system"),
    [
        ({"instructions": "i", "input": [{"role": "developer", "content": "d"}]}, "i\nd"),
        ({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}, "s"),
        ({"systemInstruction": {"parts": [{"text": "g"}]}, "contents": []}, "g"),
    ],
)
def test_the_system_prompt_of_each_format(
    body: dict[str, Any], system: str, scripted_model: ScriptedModel, post: Any
) -> None:
    post(f"{scripted_model.url}/v1/responses", body)
    assert scripted_model.asked[0].system == system


def test_compressed_and_chunked_bodies(scripted_model: ScriptedModel, post: Any) -> None:
    url = f"{scripted_model.url}/v1/messages"
    packed = gzip.compress(json.dumps(ask("[[say:packed]]")).encode())
    assert text_of(post(url, packed, {"Content-Encoding": "gzip"})) == "packed"
    connection = http.client.HTTPConnection("127.0.0.1", scripted_model.port, timeout=60)
    raw = json.dumps(ask("[[say:chunked]]")).encode()
    connection.request("POST", "/v1/messages", iter([raw[:10], raw[10:]]), encode_chunked=True)
    assert json.loads(connection.getresponse().read())["content"][0]["text"] == "chunked"
    connection.close()


def test_one_connection_serves_many_requests(scripted_model: ScriptedModel) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", scripted_model.port, timeout=60)
    for number in range(3):
        connection.request("POST", "/v1/messages", json.dumps(ask(f"[[say:{number}]]", stream=True)))
        assert f'"text": "{number}"' in connection.getresponse().read().decode()
    connection.close()


def test_hold_begins_and_waits_for_release(scripted_model: ScriptedModel) -> None:
    connection = begin(scripted_model, "[[hold:here]]")
    exchange = scripted_model.wait_for(lambda x: x.held)
    assert (exchange.began, exchange.ended) == (True, False)
    response = connection.getresponse()
    assert b"message_start" in response.read1(100_000)
    scripted_model.release("here")
    assert b"message_stop" in response.read()
    assert scripted_model.wait_for(lambda x: x.ended) is exchange
    connection.close()


def test_it_notices_a_client_that_goes_away(scripted_model: ScriptedModel) -> None:
    for text in ("[[hang]]", "[[slow:600]]", "[[hold]]"):
        connection = begin(scripted_model, text)
        scripted_model.wait_for(lambda x, text=text: x.user == text)
        connection.close()
        assert scripted_model.wait_for(lambda x, text=text: x.user == text and x.aborted).ended


def test_slow_comes_word_by_word(scripted_model: ScriptedModel, post: Any) -> None:
    reply = post(f"{scripted_model.url}/v1/messages", ask("[[slow:0.2]]", stream=True))
    deltas = [data["delta"]["text"] for name, data in reply.events if name == "content_block_delta"]
    assert deltas[:2] == ["word0", " word1"] and len(deltas) == 200


def test_cut_ends_in_the_middle(scripted_model: ScriptedModel, post: Any) -> None:
    connection = begin(scripted_model, "[[cut]]")
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)) as caught:
        connection.getresponse().read()
    if isinstance(caught.value, http.client.IncompleteRead):
        assert b"message_stop" not in caught.value.partial
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        post(f"{scripted_model.url}/v1/messages", ask("[[cut]]"))
    connection.close()


def test_wait_for_says_what_it_saw(scripted_model: ScriptedModel, post: Any) -> None:
    post(f"{scripted_model.url}/v1/messages", ask("x"))
    with pytest.raises(TimeoutError, match=r"seen: POST /v1/messages"):
        scripted_model.wait_for(lambda x: x.user == "y", timeout=0.05)


def test_stop_returns_with_open_requests_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    model = ScriptedModel().start()
    idle = http.client.HTTPConnection("127.0.0.1", model.port, timeout=60)
    idle.connect()
    open_ones = [idle] + [begin(model, text) for text in ("[[hang]]", "[[slow:600]]", "[[hold]]")]
    model.wait_for(lambda x: x.held)
    model.wait_for(lambda x: "slow" in x.user and x.began)
    model.wait_for(lambda x: "hang" in x.user)
    model.stop()
    model.stop()
    assert set(threading.enumerate()) == before
    assert [exchange.aborted for exchange in model.requests] == [True, True, True]
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", model.port), timeout=5).close()
    for connection in open_ones:
        connection.close()


def test_stop_without_start_and_no_descriptor_leaks() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        ScriptedModel().stop()
        with ScriptedModel() as model:
            model.release("x")
    assert len(os.listdir("/proc/self/fd")) == before


def test_serve_until_interrupted(tmp_path: Path, post: Any) -> None:
    program = (
        "from ostler.testing import serve\n"
        f"serve(0, 'say:served', {str(tmp_path / 'log')!r}, ready=lambda m: print(m.url, flush=True))\n"
        "print('bye')\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert text_of(post(f"{url}/v1/messages", ask("x"))) == "served"
        process.send_signal(2)
        assert (process.stdout.read(), process.wait(60)) == ("bye\n", 0)
    assert json.loads((tmp_path / "log").read_text())["path"] == "/v1/messages"


def test_serve_says_why_it_cannot(scripted_model: ScriptedModel, tmp_path: Path) -> None:
    with pytest.raises(OstlerError, match=f"cannot use port {scripted_model.port} of 127.0.0.1") as caught:
        serve(scripted_model.port)
    assert caught.value.kind == "bad_request"
    with pytest.raises(OstlerError, match="cannot use the log"):
        serve(0, log=tmp_path / "missing" / "log")


@pytest.mark.parametrize(
    "text",
    [
        "Primary working directory: /a/b-c",
        "<cwd>/a/b-c</cwd>",
        "I'm currently working in the directory: /a/b-c\nHere is",
        "- **Workspace Directories:**\n  - /a/b-c\n",
        "Working directory: /a/b-c.",
    ],
)
def test_the_folder_is_found_in_what_agents_tell_their_model(text: str) -> None:
    assert working_folder(f"first\n{text}") == "/a/b-c"
    assert working_folder("nothing of the kind: /a/b") == ""
