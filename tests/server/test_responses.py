"""One answer as it goes out: our headers on all of them, refusals in the words of HTTP, an end for what was begun."""

from typing import Any

import msgspec
import pytest

from ostler.errors import OstlerError
from ostler.server.open_connections import LOGGED_OUT, OpenConnection
from ostler.server.problems import Refusal
from ostler.server.responses import HEADERS, WatchedResponse

EXTRA = [(b"x-extra", b"1"), (b"cache-control", b"never told")]


class Wire:
    """Keeps what was sent."""

    def __init__(self, kind: str = "http", method: str = "GET", **state: Any) -> None:
        self.sent: list[Any] = []
        self.connection = OpenConnection(kind)
        self.answer = WatchedResponse(
            {"type": kind, "method": method, "state": state}, self._send, EXTRA, self.connection
        )

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    async def start(self, status: int = 200, *headers: tuple[bytes, bytes]) -> None:
        await self.answer.send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def body(self, data: bytes, more: bool = False) -> None:
        await self.answer.send({"type": "http.response.body", "body": data, "more_body": more})

    @property
    def kinds(self) -> list[str]:
        return [message["type"] for message in self.sent]


async def test_our_headers_are_on_everything_and_those_of_the_route_count_more() -> None:
    wire = Wire()
    await wire.start(200, (b"Cache-Control", b"max-age=5"), (b"content-type", b"text/html"))
    given = wire.sent[0]["headers"]
    assert given == [
        (b"cache-control", b"max-age=5"),
        (b"content-type", b"text/html"),
        *(pair for pair in HEADERS if pair[0] != b"cache-control"),
        EXTRA[0],
    ]


@pytest.mark.parametrize(
    ("type", "stays"),
    [(b"text/event-stream", True), (b"text/event-stream; charset=utf-8", True), (b"text/html", False)],
)
async def test_a_stream_stays(type: bytes, stays: bool) -> None:
    wire = Wire()
    await wire.start(200, (b"Content-Type", type))
    assert wire.connection.stays is stays


async def test_a_refusal_is_a_problem() -> None:
    wire = Wire()
    await wire.answer.refuse(OstlerError("not_found", "no session 'x'", "Look again"))
    start, body = wire.sent
    headers = dict(start["headers"])
    assert start["status"] == wire.answer.status == 404
    assert headers[b"content-type"] == b"application/problem+json"
    assert headers[b"content-length"] == str(len(body["body"])).encode()
    assert headers[b"x-frame-options"] == b"DENY"
    assert msgspec.json.decode(body["body"])["detail"] == "no session 'x'"
    assert body["more_body"] is False


async def test_a_refusal_of_head_has_no_body() -> None:
    wire = Wire(method="HEAD")
    await wire.answer.refuse(Refusal(429, "too fast", headers={"retry-after": "5"}))
    assert wire.sent[1]["body"] == b""
    assert dict(wire.sent[0]["headers"])[b"retry-after"] == b"5"


async def test_what_has_begun_is_broken_off_and_what_is_whole_is_left_alone() -> None:
    begun = Wire()
    await begun.start()
    await begun.body(b"half", more=True)
    await begun.answer.refuse(ValueError("boom"))
    await begun.answer.finish()
    assert begun.kinds == ["http.response.start", "http.response.body"]  # no good ending: the server closes it
    whole = Wire()
    await whole.start()
    await whole.body(b"all")
    await whole.answer.refuse(ValueError("boom"))
    await whole.answer.finish()
    assert whole.kinds == ["http.response.start", "http.response.body"]


async def test_a_stream_ends_as_if_it_were_over() -> None:
    wire = Wire()
    await wire.start(200, (b"content-type", b"text/event-stream"))
    await wire.body(b"data: 1\n\n", more=True)
    await wire.answer.finish()
    assert wire.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    await wire.answer.finish()
    assert len(wire.sent) == 3


async def test_a_login_that_is_over_before_the_answer_began() -> None:
    wire = Wire()
    await wire.answer.finish(LOGGED_OUT)
    assert wire.answer.status == 401 and dict(wire.sent[0]["headers"])[b"connection"] == b"close"
    silent = Wire()
    await silent.answer.finish()
    assert silent.sent == []


# -- WebSockets -------------------------------------------------------------------------------------


async def test_a_websocket_that_is_accepted_has_no_headers_of_ours_and_stays() -> None:
    wire = Wire("websocket")
    await wire.answer.send({"type": "websocket.accept", "headers": []})
    assert wire.sent == [{"type": "websocket.accept", "headers": []}]
    assert (wire.answer.status, wire.connection.stays) == (101, True)
    await wire.answer.finish(LOGGED_OUT)
    assert wire.sent[-1] == {"type": "websocket.close", "code": 4401, "reason": "this login has ended"}
    await wire.answer.finish()
    assert len(wire.sent) == 2


async def test_a_websocket_that_breaks() -> None:
    wire = Wire("websocket")
    await wire.answer.send({"type": "websocket.accept"})
    await wire.answer.refuse(ValueError("boom"))
    assert wire.sent[-1] == {"type": "websocket.close", "code": 1011, "reason": ""}


async def test_a_websocket_that_is_not_accepted_is_refused_in_words() -> None:
    wire = Wire("websocket")
    await wire.answer.refuse(OstlerError("not_found", "no"))
    assert wire.kinds == ["websocket.http.response.start", "websocket.http.response.body"]
    assert wire.sent[0]["status"] == 404
