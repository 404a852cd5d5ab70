"""Routes by themselves: how a request finds its handler, what this is given, and what is sent of what it returns."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from ostler.errors import OstlerError
from ostler.server.app import ROUTES
from ostler.server.auth import Person
from ostler.server.problems import Refusal
from ostler.server.replies import Reply
from ostler.server.routing import Header, Request, Router, Routes, WebSocket

routes = Routes("tests")
Limit = Annotated[int, Meta(ge=1, le=100)]


class Wanted(Struct):
    name: str


@routes("GET /things", "All of them")
async def list_things(
    store: dict[str, int],
    limit: Limit = 10,
    state: Literal["new", "old"] | None = None,
    key: Annotated[str | None, Header("X-Key")] = None,
) -> list[Any]:
    return [store, limit, state, key]


@routes("POST /things", "A new one")
async def add_thing(person: Person, data: Wanted) -> list[str]:
    return [person.name, data.name]


@routes("GET /things/{thing}/text", "As text", media_types=("text/plain",))
async def text(thing: str) -> str:
    return f"ü {thing}"


@routes("DELETE /things/{thing}", "Gone")
async def remove(thing: str) -> None:
    pass


@routes("GET /others/{other}/parts/{part}", "A part", right="admin")
async def part(part: str, other: str) -> Reply:
    return Reply([other, part], status=203, headers=[(b"x-extra", b"1")])


@routes("PUT /files/{name}", "A file")
async def upload(name: str, request: Request) -> list[Any]:
    return [request.header("X-Kind"), request.header("x-none"), [chunk async for chunk in request.chunks()]]


@routes("WEBSOCKET /things/{thing}/ws")
async def watch(thing: str, socket: WebSocket, offset: int = 0) -> None:
    await socket.accept()
    await socket.close(4000, f"{thing} {offset}")


ROUTER = Router(routes.all, {"store": {"a": 1}})


async def ask(
    what: str, body: bytes = b"", rights: Any = "admin", headers: dict[bytes, bytes] | None = None
) -> tuple[int, dict[bytes, bytes], bytes]:
    method, _, target = what.partition(" ")
    path, _, query = target.partition("?")
    sent: list[Any] = []
    received = [
        {"type": "http.request", "body": body[:1], "more_body": True},
        {"type": "http.request", "body": body[1:]},
    ]

    async def receive() -> Any:
        return received.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": list((headers or {}).items()),
        "state": {"person": Person(id="1", name="ada", rights=rights)},
    }
    await ROUTER(scope, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


@pytest.mark.parametrize(
    ("query", "limit", "state"),
    [("", 10, None), ("?limit=7&state=new", 7, "new"), ("?limit=1&limit=2", 2, None), ("?unknown=1", 10, None)],
)
async def test_what_the_query_says(query: str, limit: int, state: str | None) -> None:
    status, headers, body = await ask(f"GET /things{query}")
    assert (status, msgspec.json.decode(body)) == (200, [{"a": 1}, limit, state, None])
    assert headers == {b"content-type": b"application/json", b"content-length": b"%d" % len(body)}


async def test_a_header_may_be_a_parameter() -> None:
    assert msgspec.json.decode((await ask("GET /things", headers={b"x-key": b"k"}))[2]) == [{"a": 1}, 10, None, "k"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=0", "limit: Expected `int` >= 1"),
        ("limit=", "limit: Expected `int`, got `str`"),
        ("state=odd", "state: Invalid enum value 'odd'"),
        ("&".join(["a=1"] * 101), "the query has more than 100 values"),
    ],
)
async def test_what_is_wrong_with_a_query_is_said(query: str, message: str) -> None:
    with pytest.raises(OstlerError) as refused:
        await ask(f"GET /things?{query}")
    assert (refused.value.kind, refused.value.message) == ("bad_request", message)


async def test_a_body_is_json_of_the_type_that_is_asked_for() -> None:
    status, _, body = await ask("POST /things", b'{"name": "x"}')
    assert (status, body) == (201, b'["ada","x"]')
    with pytest.raises(OstlerError, match=r"the body is not valid: .* - at `\$.name`"):
        await ask("POST /things", b'{"name": 5}')


async def test_what_is_returned_is_sent() -> None:
    status, headers, body = await ask("GET /things/a/text")
    assert (status, headers[b"content-type"], body.decode()) == (200, b"text/plain; charset=utf-8", "ü a")
    assert await ask("DELETE /things/a") == (204, {}, b"")
    status, headers, body = await ask("GET /others/1/parts/{}/")
    assert (status, headers[b"x-extra"], body) == (203, b"1", b'["1","{}"]')


async def test_a_request_has_headers_and_a_body_that_comes_in_pieces() -> None:
    _, _, body = await ask("PUT /files/a", b"xyz", headers={b"x-kind": b"odd"})
    assert body == b'["odd","",["eA==","eXo="]]'


@pytest.mark.parametrize("path", ["/", "/thing", "/things/a/b", "/things/a/b/c", "/things/a/text/x", "/others/1/parts"])
async def test_a_path_that_leads_nowhere(path: str) -> None:
    with pytest.raises(Refusal) as refused:
        await ask(f"GET {path}")
    assert (refused.value.status, refused.value.detail) == (404, f"there is nothing at {path}")


async def test_a_method_that_a_path_does_not_know() -> None:
    for what, allowed in (("PUT /things", "GET, POST, OPTIONS"), ("GET /things/a/ws", "OPTIONS")):
        with pytest.raises(Refusal) as refused:
            await ask(what)
        assert (refused.value.status, refused.value.headers) == (405, {"allow": allowed})
    assert await ask("OPTIONS /things") == (204, {b"allow": b"GET, POST, OPTIONS"}, b"")


async def test_a_right_is_needed_before_anything_is_read() -> None:
    with pytest.raises(OstlerError) as refused:
        await ask("POST /things", b"nonsense", rights="view")
    assert refused.value.kind == "denied"
    with pytest.raises(OstlerError, match="this needs admin rights; your link has type rights"):
        await ask("GET /others/1/parts/2", rights="type")


async def websocket(path: str, query: bytes = b"") -> list[Any]:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    state = {"person": Person(id="1", name="ada", rights="view")}
    scope = {"type": "websocket", "path": path, "query_string": query, "headers": [], "state": state}
    await ROUTER(scope, receive, send)
    return sent


async def test_a_websocket() -> None:
    assert await websocket("/things/a/ws", b"offset=7") == [
        {"type": "websocket.accept", "headers": []},
        {"type": "websocket.close", "code": 4000, "reason": "a 7"},
    ]
    for path in ("/things", "/nothing"):
        with pytest.raises(Refusal) as refused:
            await websocket(path)
        assert refused.value.status == 404


def test_every_handler_is_given_what_it_asks_for() -> None:
    """The names of what `build` provides; a handler that asks for anything else would fail at its first request."""
    known = {"ostler", "auth", "metrics", "about", "uploads", "watcher", "reports", "terminal_commands", "routes"}
    known |= {"run_processes", "membership", "remote_sessions"}
    asked = {name for route in ROUTES for name in route.provided}
    assert asked == known | {"person", "request", "socket"}
