"""The door, over every route there is: whoever adds one has it tested here the same day."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from ostler.errors import OstlerError
from ostler.server.app import ROUTES
from ostler.server.auth import Authenticator
from ostler.server.gateway import addresses_of, origin_of
from ostler.server.request_body import BODY_LIMIT, UPLOAD_LIMIT
from ostler.server.responses import HEADERS
from server.conftest import Yard, yard_at
from server.wire import UPGRADE, Got, Pairs, ask, read_answer, send
from waiting import PATIENCE, until

CHANGES = ("POST", "PUT", "PATCH", "DELETE")


class Way(NamedTuple):
    """A method and a path; WS is a WebSocket."""

    method: str
    path: str


UNKNOWN = [
    *(Way(method, path) for method in ("GET", "HEAD", "POST", "PUT", "DELETE") for path in ("/nope", "/api/nope")),
    *(Way("OPTIONS", path) for path in ("/api/me", "/nope", "/")),
    *(Way(method, "/api/me") for method in ("TRACE", "PATCH", "CONNECT", "BREW", "get")),
    Way("POST", "/"),
    Way("GET", "/assets/nope.js"),
    Way("GET", "/api/me/"),
    Way("GET", "/api/../api/me"),
    Way("GET", "/%2e%2e/%2e%2e/etc/passwd"),
    Way("GET", "/..%2fdoor.py"),
    Way("GET", "/api/me%00"),
    Way("GET", "/api/login"),
    Way("WS", "/api/me"),
    Way("WS", "/nope"),
    Way("WS", "/"),
]
OPEN = [Way("GET", "/"), Way("HEAD", "/"), Way("POST", "/api/login")]


WAYS = [
    Way("WS" if route.method == "WEBSOCKET" else route.method, re.sub(r"\{[^}]*\}", "x", route.path))
    for route in ROUTES
]  # every route of the application, its parameters filled in


class Caller:
    """Sends requests that are right in all but what a test makes wrong."""

    def __init__(self, yard: Yard) -> None:
        self.yard, self.port = yard, yard.port
        self.bearer = yard.token()
        self.login = yard.auth.sign("login", "admin", "tester", 3600)

    async def ask(
        self,
        way: Way,
        *,
        host: str | None = None,
        origin: str | None = None,
        bearer: str | None = "",
        cookie: str | None = None,
        kind: str | None = "",
        body: bytes = b"",
        more: Pairs | None = None,
    ) -> Got:
        headers: Pairs = [("Host", host if host is not None else f"127.0.0.1:{self.port}")]
        headers += [("Origin", origin)] if origin is not None else []
        headers += [("Authorization", f"Bearer {bearer or self.bearer}")] if bearer is not None else []
        headers += [("Cookie", f"{self.yard.auth.cookie}={cookie}")] if cookie is not None else []
        if way.method == "WS":
            return await ask(self.port, "GET", way.path, [*headers, *UPGRADE, *(more or [])])
        kind = type_of(way) if kind == "" else kind
        headers += [("Content-Type", kind)] if kind and way.method in CHANGES else []
        headers += [("Content-Length", str(len(body)))] if way.method in CHANGES and not more else []
        return await ask(self.port, way.method, way.path, [*headers, *(more or [])], body)


def type_of(way: Way) -> str:
    return "application/octet-stream" if way.path.startswith("/api/uploads/") else "application/json"


@pytest.fixture
async def caller(yard: Yard) -> AsyncIterator[Caller]:
    yield Caller(yard)


def check(got: Got, way: Way, status: int | Iterable[int]) -> list[str]:
    """What is wrong with an answer that should be a refusal with our headers."""
    wanted = (status,) if isinstance(status, int) else tuple(status)
    wrong = [] if got.status in wanted else [f"{way.method} {way.path}: {got.status}, not {status}"]
    if way.method != "HEAD" and got.problem["status"] != got.status:
        wrong.append(f"{way.method} {way.path}: {got.problem}")
    wrong += [f"{way.method} {way.path}: no {name!r}" for name, _ in HEADERS if name.decode() not in got.headers]
    wrong += [f"{way.method} {way.path}: {name}" for name in got.headers if name.startswith("access-control")]
    return wrong


# -- every route --------------------------------------------------------------------------------------


async def test_hostile_hosts(caller: Caller) -> None:
    """DNS rebinding: a foreign name that leads to our address."""
    port = caller.port
    hosts = [
        *("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", f"127.0.0.1:{port}.", ""),
        *("127.0.0.1", "localhost", f"localhost:{port + 1}", f"localhost.:{port}", f"127.0.0.2:{port}"),
        *(f"0.0.0.0:{port}", f"127.0.0.1:{port}@evil.example", f"http://127.0.0.1:{port}", f"127.0.0.1:{port}, evil"),
    ]
    wrong = []
    for way in [*WAYS, *UNKNOWN, *OPEN]:
        for host in hosts:
            got = await caller.ask(way, host=host)
            wrong += check(got, way, 421)
    assert wrong == []


async def test_hostile_origins(caller: Caller) -> None:
    port = caller.port
    origins = [
        *("https://evil.example", "null", f"http://localhost.evil.example:{port}", f"http://127.0.0.1:{port + 1}", ""),
        *(f"https://127.0.0.1:{port}", "http://127.0.0.1", f"http://127.0.0.1:{port}/", f"HTTP://127.0.0.1:{port}"),
        *("file://", f"http://127.0.0.1:{port}.evil.example", f"http://127.0.0.1:{port} https://evil.example"),
    ]
    wrong = []
    for way in [*WAYS, *UNKNOWN, *OPEN]:
        for origin in origins:
            wrong += check(await caller.ask(way, origin=origin), way, 403)
            wrong += check(await caller.ask(way, origin=origin, bearer=None, cookie=caller.login), way, 403)
    assert wrong == []


async def test_nobody_comes_in_without_a_token(caller: Caller, tmp_path: Path) -> None:
    auth = caller.yard.auth
    other = tmp_path / "other"
    other.mkdir()
    body, _, mac = caller.bearer.partition(".")
    tokens = [
        "x",
        "x.y",
        ".",
        "é" * 20,
        "a" * 5000,
        f"{body}.{mac[:-1]}",
        f"{body}.{mac[:-1]}{'a' if mac[-1] != 'a' else 'b'}",
        f"{body[:-1]}.{mac}",
        f"{body}.",
        f"{caller.bearer}=",
        auth.sign("bearer", "admin", "late", -1),
        auth.sign("link", "admin", "link", 3600),
        caller.login,
        Authenticator(other).sign("bearer", "admin", "stranger", 3600),
    ]
    spent = auth.sign("bearer", "admin", "spent", 3600)
    said = auth.read(spent, "bearer")
    assert said is not None
    await auth.end(said)
    wrong = []
    for way in [*WAYS, *UNKNOWN]:
        if way in OPEN:
            continue
        wrong += check(await caller.ask(way, bearer=None), way, 401)
        wrong += check(await caller.ask(way, bearer=None, origin=caller.yard.url), way, 401)
        for token in [*tokens, spent]:
            wrong += check(await caller.ask(way, bearer=token), way, 401)
        for cookie in ("", "x.y", caller.bearer, auth.sign("login", "admin", "late", -1), "a;b"):
            got = await caller.ask(way, bearer=None, cookie=cookie, origin=caller.yard.url)
            wrong += check(got, way, 401)
        basic = [("Authorization", "Basic YWRtaW46YWRtaW4=")]
        wrong += check(await caller.ask(way, bearer=None, cookie=caller.login, more=basic), way, 401)
    assert wrong == []


async def test_rights(caller: Caller) -> None:
    """`view` changes nothing; `type` deletes nothing and lets nobody in."""
    view, typing = caller.yard.token("view"), caller.yard.token("type")
    wrong = []
    for way in [*WAYS, Way("POST", "/api/nope"), Way("DELETE", "/api/nope")]:
        if way in OPEN or way.path == "/api/logout":
            continue
        if way.method in CHANGES or way.path == "/api/folders":
            wrong += check(await caller.ask(way, bearer=view, body=b"{}"), way, 403)
        if way.method == "DELETE" or way.path == "/api/links":
            wrong += check(await caller.ask(way, bearer=typing, body=b"{}"), way, 403)
    assert wrong == []


async def test_content_types(caller: Caller) -> None:
    """A form of another page can send anything but JSON."""
    kinds = [
        *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json5"),
        *("text/plain;application/json", "application/json, text/plain", "application/jso", "", "*/*"),
    ]
    wrong = []
    for way in [*WAYS, *UNKNOWN, *OPEN]:
        if way.method not in CHANGES:
            continue
        for kind in kinds:
            wrong += check(await caller.ask(way, kind=kind or None, body=b'{"a":1}'), way, 415)
        wrong += check(await caller.ask(way, kind="text/plain"), way, 415)
        other = "application/json" if type_of(way) != "application/json" else "application/octet-stream"
        wrong += check(await caller.ask(way, kind=other, body=b"{}"), way, 415)
        chunked = [("Transfer-Encoding", "chunked")]
        wrong += check(await caller.ask(way, kind=None, more=chunked, body=b"2\r\n{}\r\n0\r\n\r\n"), way, 415)
    assert wrong == []


async def test_bodies_are_refused_before_they_come(caller: Caller) -> None:
    wrong = []
    for way in [*WAYS, *UNKNOWN, *OPEN]:
        if way.method in ("WS", "CONNECT"):
            continue
        limit = UPLOAD_LIMIT if way.path.startswith("/api/uploads/") else BODY_LIMIT
        # Nothing of the body is ever sent: an answer can only come from who does not wait for it.
        announced = [("Content-Length", str(limit + 1))]
        status = {"/api/me": (413, 405)}.get(way.path, (413,))
        got = await caller.ask(way, more=announced)
        wrong += check(got, way, status)
        if got.status == 413 and got.headers.get("connection") != "close":
            wrong.append(f"{way}: the connection stays open")
    assert wrong == []


@pytest.mark.parametrize(("path", "limit"), [("/api/links", BODY_LIMIT), ("/api/uploads/x", UPLOAD_LIMIT)])
async def test_a_body_of_unknown_length_is_cut_off(caller: Caller, path: str, limit: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", caller.port)
    way = Way("PUT" if "uploads" in path else "POST", path)
    head = f"{way.method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{caller.port}\r\nAuthorization: Bearer {caller.bearer}\r\n"
    writer.write(f"{head}Content-Type: {type_of(way)}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    answer = asyncio.create_task(read_answer(reader))
    sent, chunk = 0, b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    try:
        while not answer.done():  # for ever, if nobody stops us
            writer.write(chunk)
            sent += 0x10000
            assert sent < limit + (64 << 20)
            await asyncio.wait({answer}, timeout=0.001)
            await writer.drain()
    except ConnectionError:
        pass
    got = await answer
    assert (got.status, got.headers["connection"]) == (413, "close")
    assert sent > limit
    writer.close()
    uploads = caller.yard.ostler.store.folder / "uploads"
    assert not uploads.exists() or list(uploads.iterdir()) == []


async def test_who_is_right_comes_in(caller: Caller) -> None:
    """The other side of the table: each route is reached with a token, and with a cookie."""
    wrong = []
    for way in WAYS:
        if way in OPEN or way.path == "/api/logout":
            continue
        for given in ({}, {"bearer": None, "cookie": caller.login, "origin": caller.yard.url}):
            got = await caller.ask(way, body=b"{}", **given)
            if got.status in (401, 403, 405, 413, 415, 421, 500):
                wrong.append(f"{way.method} {way.path}: {got}")
            if way.path.endswith("x") and got.status == 404 and way.method == "WS":
                assert got.problem["kind"] == "not_found"
    assert wrong == []


async def test_unknown_ways_are_problems_too(caller: Caller) -> None:
    wrong = []
    for way in UNKNOWN:
        if way == Way("GET", "/api/me/"):
            continue  # the same as without the slash
        got = await caller.ask(way)
        status = (204,) if way == Way("OPTIONS", "/api/me") else (400, 404, 405, 415)
        wrong += [] if got.status == 204 and way.method == "OPTIONS" else check(got, way, status)
    assert wrong == []


# -- what only a socket can say -----------------------------------------------------------------------


async def test_missing_and_doubled_hosts(caller: Caller) -> None:
    ours = f"127.0.0.1:{caller.port}"
    for hosts in ([], [ours, "evil.example"], [ours, ours], ["evil.example", ours]):
        for version, upgrade in (("1.0", []), ("1.1", []), ("1.1", UPGRADE)):
            headers = [*(("Host", host) for host in hosts), ("Authorization", f"Bearer {caller.bearer}"), *upgrade]
            got = await ask(caller.port, "GET", "/api/me", headers, version=version)
            assert got.status == 400, (hosts, version, upgrade)


async def test_targets_that_are_no_path(caller: Caller) -> None:
    for target in ("http://evil.example/api/me", "*", "evil.example:443", "api/me", "//api/me", "/api//me"):
        for method in ("GET", "OPTIONS"):
            assert (await caller.ask(Way(method, target))).status == 400, target


async def test_doubled_headers(caller: Caller) -> None:
    me, url = Way("GET", "/api/me"), caller.yard.url
    assert (await caller.ask(me, origin=url, more=[("Origin", url)])).status == 403
    assert (await caller.ask(me, more=[("Authorization", f"Bearer {caller.bearer}")])).status == 401
    assert (await caller.ask(Way("POST", "/api/links"), more=[("Content-Type", "text/plain")])).status == 415


async def test_garbage_ends_with_400(caller: Caller) -> None:
    for data in (
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n" * 5 + b"{}\r\n\r\n",
    ):
        assert (await send(caller.port, data + b"\r\n\r\n")).status == 400


async def test_a_slow_body_is_not_waited_for_for_ever(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ostler.server.request_body.BODY_SECONDS", 0.05)
    got = await caller.ask(Way("POST", "/api/links"), more=[("Content-Length", "10")], body=b"{")
    assert (got.status, got.problem["kind"]) == (408, "timed_out")


async def test_two_tokens_a_cookie_of_another_port_and_no_body(caller: Caller) -> None:
    """What is right although it looks odd."""
    name, url = caller.yard.auth.cookie, caller.yard.url
    twice = [("Cookie", f"other=1; {name}=forged; {name}={caller.login}")]
    assert (await caller.ask(Way("GET", "/api/me"), bearer=None, more=twice)).status == 200
    other = [("Cookie", f"ostler_000000000000={caller.login}")]
    assert (await caller.ask(Way("GET", "/api/me"), bearer=None, more=other)).status == 401
    assert (await caller.ask(Way("POST", "/api/logout"), kind=None, origin=url)).status == 204
    kind = "Application/JSON; charset=utf-8"
    assert (
        await caller.ask(Way("POST", "/api/links"), bearer=caller.yard.token(), kind=kind, body=b"{}")
    ).status == 201


async def test_every_name_of_this_machine(caller: Caller) -> None:
    names = [f"127.0.0.1:{caller.port}", f"localhost:{caller.port}", f"LOCALHOST:{caller.port}"]
    for host in (*names, *([f"[::1]:{caller.port}"] if len(caller.yard.listening.addresses) == 2 else [])):
        got = await caller.ask(Way("GET", "/api/me"), host=host, origin=f"http://{host.lower()}")
        assert got.status == 200, host


# -- pages of others ----------------------------------------------------------------------------------


async def test_a_page_of_another_port_cannot_use_our_cookie(caller: Caller) -> None:
    """It is the same site for the browser, which sends the cookie: with images, scripts and links of that page."""
    for site, status in (("same-site", 403), ("cross-site", 403), ("same-origin", 200), ("none", 200)):
        got = await caller.ask(Way("GET", "/api/me"), bearer=None, cookie=caller.login, more=[("Sec-Fetch-Site", site)])
        assert got.status == status, site
    assert (await caller.ask(Way("GET", "/"), bearer=None, more=[("Sec-Fetch-Site", "cross-site")])).status in (
        200,
        503,
    )


async def test_a_socket_needs_an_origin_or_a_token(caller: Caller) -> None:
    way, url = next(way for way in WAYS if way.method == "WS"), caller.yard.url
    assert (await caller.ask(way, bearer=None, cookie=caller.login)).status == 401
    assert (await caller.ask(way, bearer=None, cookie=caller.login, origin=url)).status == 404
    assert (await caller.ask(way)).status == 404


async def test_allowed_origins(tmp_path: Path) -> None:
    allowed = ["https://ostler.example", "http://127.0.0.1:5173/"]
    async with yard_at(tmp_path, door=lambda at: addresses_of(at.addresses, at.port, allowed)) as yard:
        caller, me = Caller(yard), Way("GET", "/api/me")
        assert (await caller.ask(me, host="ostler.example", origin="https://ostler.example")).status == 200
        assert (await caller.ask(me, host="evil.ostler.example")).status == 421
        link = b'{"token": "%s"}' % yard.auth.sign("link", "view", "x", 60).encode()
        login = Way("POST", "/api/login")
        got = await caller.ask(login, host="ostler.example", origin="https://ostler.example", bearer=None, body=link)
        assert got.status == 200 and "secure" in got.headers["set-cookie"].lower()
        assert (await caller.ask(me, origin="http://ostler.example")).status == 403
        got = await caller.ask(me, origin="http://127.0.0.1:5173")
        assert got.headers["access-control-allow-origin"] == "http://127.0.0.1:5173"
        assert (got.headers["vary"], got.headers.get("access-control-allow-credentials")) == ("Origin", None)
        preflight = [("Access-Control-Request-Method", "PUT"), ("Access-Control-Request-Headers", "content-type")]
        options = Way("OPTIONS", "/api/sessions")
        got = await caller.ask(options, origin="http://127.0.0.1:5173", bearer=None, more=preflight)
        assert (got.status, got.headers["access-control-allow-methods"]) == (204, "GET, POST, PUT, DELETE")
        assert (await caller.ask(options, origin="http://evil.example", bearer=None, more=preflight)).status == 403
        got = await caller.ask(options, origin=yard.url, bearer=None, more=preflight)
        assert got.status == 401 and "access-control-allow-methods" not in got.headers


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Ostler.Example", "https://ostler.example"),
        ("https://ostler.example:443/", "https://ostler.example"),
        ("http://ostler.example:80", "http://ostler.example"),
        ("http://localhost:9000", "http://localhost:9000"),
        ("http://[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_origin_of(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    "url", ["*", "null", "ostler.example", "ftp://x", "http://", "http://a/b", "http://u@a", "http://a:x", "http://[a"]
)
def test_what_is_no_origin(url: str) -> None:
    with pytest.raises(OstlerError) as caught:
        origin_of(url)
    assert caught.value.kind == "bad_request"


# -- faults of our own --------------------------------------------------------------------------------


async def test_a_fault_tells_nothing(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> int:
        raise RuntimeError("a secret of ours")

    monkeypatch.setattr(caller.yard.ostler.store, "data_version", broken)
    got = await caller.ask(Way("GET", "/healthz"))
    assert got.status == 500 and b"secret" not in got.body and b"Traceback" not in got.body
    assert got.problem["kind"] == "crashed"
    assert "GET /healthz failed" in caplog.text and "a secret of ours" in caplog.text


async def test_no_token_is_ever_logged(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    link = caller.yard.auth.sign("link", "admin", "x", 60)
    login = Way("POST", "/api/login")
    body = b'{"token": "%s"}' % link.encode()
    assert (await caller.ask(login, bearer=None, body=body, origin=caller.yard.url)).status == 200
    assert (await caller.ask(login, bearer=None, body=body)).status == 401
    assert (await caller.ask(login, bearer=None, body=body[:-1])).status == 400
    for way in WAYS:
        if way.path != "/api/logout":
            await caller.ask(way, cookie=caller.login, bearer=None, origin=caller.yard.url, body=b"{")
            await caller.ask(way, body=b"{")
    assert [token for token in (link, caller.bearer, caller.login) if token in caplog.text] == []


async def test_a_socket_ends_when_everybody_is_put_out(caller: Caller) -> None:
    yard = caller.yard
    made = await yard.client.post("/api/sessions", json={"agent": "claude", "folder": str(yard.folder)})
    url = f"{yard.ws}/api/sessions/{made.json()['id']}/terminal/ws"
    async with connect(url, additional_headers=yard.bearer("view")) as viewer:
        await viewer.recv()
        assert yard.site.gateway.staying("websocket") == 1
        yard.auth.revoke_all()
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await asyncio.wait_for(viewer.recv(), 30)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401
    await until(lambda: yard.site.gateway.staying("websocket") == 0)


async def test_a_stream_ends_when_everybody_is_put_out(caller: Caller) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", caller.port)
    head = f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{caller.port}\r\nAuthorization: Bearer {caller.bearer}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode())
    assert (await read_answer(reader)).status == 200
    await until(lambda: caller.yard.site.gateway.staying("http") == 1)
    caller.yard.auth.revoke_all()
    async with asyncio.timeout(PATIENCE):
        assert (await reader.read()).endswith(b"0\r\n\r\n")  # a good end, not a connection that broke
    assert caller.yard.site.gateway.staying("http") == 0
    writer.close()
