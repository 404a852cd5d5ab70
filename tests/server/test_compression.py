"""What goes out compressed, to whom, and that a stream of events tells each of them at once all the same."""

import contextlib
import gzip
import zlib
from pathlib import Path

import httpx
import pytest

from ostler.server.compression import LEAST, compressing, takes_gzip
from ostler.server.pages import Pages
from ostler.server.responses import Message
from server.conftest import Yard, yard_at
from server.streamed import listening

SCRIPT = "let horse = 'oats'; " * 500
PLAIN = {"accept-encoding": "identity"}
PACKED = {"accept-encoding": "gzip"}


@pytest.mark.parametrize(
    ("given", "takes"),
    [
        (b"gzip", True),
        (b"deflate, GZip ; q=0.5, br", True),
        (b"br, gzip;q=1.0", True),
        (b"", False),
        (b"br", False),
        (b"gzip;q=0", False),
        (b"gzip; q=0.000, br", False),
        (b"not-gzip", False),
    ],
)
def test_who_takes_gzip(given: bytes, takes: bool) -> None:
    assert takes_gzip([(b"Accept-Encoding", given)]) is takes
    assert not takes_gzip([(b"accept", given)])


async def raw(client: httpx.AsyncClient, path: str, headers: dict[str, str]) -> tuple[httpx.Headers, bytes]:
    """An answer's headers, and its bytes as they came."""
    async with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        return answer.headers, b"".join([piece async for piece in answer.aiter_raw()])


async def test_the_pages_files(tmp_path: Path) -> None:
    page = tmp_path / "page"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text("<!doctype html><p>ostler")
    (page / "assets/index-1.js").write_text(SCRIPT)
    async with yard_at(tmp_path, pages=Pages(page)) as yard, yard.as_(None) as nobody:
        path = "/assets/index-1.js"
        headers, packed = await raw(nobody, path, PACKED)
        assert headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed).decode() == SCRIPT
        assert int(headers["content-length"]) == len(packed) < len(SCRIPT) / 5
        assert headers["content-type"] == "text/javascript; charset=utf-8"
        assert "script-src 'self'" in headers["content-security-policy"]
        plain, data = await raw(nobody, path, PLAIN)
        assert "content-encoding" not in plain
        assert data.decode() == SCRIPT
        assert headers["vary"] == plain["vary"] == "Accept-Encoding"
        assert headers["etag"] != plain["etag"], "other bytes"
        for tag, wish, status in (
            (headers["etag"], PACKED, 304),
            (plain["etag"], PLAIN, 304),
            (plain["etag"], PACKED, 200),
        ):
            again = await nobody.get(path, headers={**wish, "if-none-match": tag})
            assert again.status_code == status
            assert again.headers["vary"] == "Accept-Encoding"
        small, data = await raw(nobody, "/", PACKED)
        assert "content-encoding" not in small, "it would not be smaller"
        assert data == b"<!doctype html><p>ostler"


async def test_answers_of_the_api(yard: Yard) -> None:
    path = "/api/openapi.json"
    headers, packed = await raw(yard.client, path, PACKED)
    plain, data = await raw(yard.client, path, PLAIN)
    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
    assert "content-encoding" not in plain
    assert gzip.decompress(packed) == data
    assert LEAST < len(packed) < len(data) / 4
    for small in ("/api/me", "/healthz"):
        assert "content-encoding" not in (await raw(yard.client, small, PACKED))[0]


async def test_an_answer_to_a_change_is_never_compressed() -> None:
    """Tokens are handed out in such answers: whatever is chosen to stand beside one, the length tells nothing of it."""

    async def send(message: Message) -> None:
        raise AssertionError

    for method, is_left_alone in (("GET", False), ("HEAD", True), ("POST", True), ("PUT", True), ("DELETE", True)):
        scope = {"type": "http", "method": method, "headers": [(b"accept-encoding", b"gzip")]}
        assert (compressing(scope, send) is send) is is_left_alone


async def test_events_come_at_once_and_the_end_of_a_login_is_a_whole_end(yard: Yard) -> None:
    browser = await yard.browser()
    async with contextlib.aclosing(browser), listening(browser, "/api/live", accept_encoding="gzip") as live:
        assert live.answer.headers["content-encoding"] == "gzip"
        await live.until(lambda told: [each for each in told if each.kind == "ready"])
        body = {"agent": "claude", "folder": str(yard.folder), "name": "alone"}
        assert (await browser.post("/api/sessions", json=body)).status_code == 201
        await live.until(lambda told: live.of("session", name="alone"))  # nothing else follows that would push it out
        assert (await browser.post("/api/logout", json={})).status_code == 204
        await live.until_over()
    async with yard.as_(None, headers={"origin": yard.url, **PACKED}) as other:
        token = yard.auth.sign("link", "view", "tester", 3600)
        assert (await other.post("/api/login", json={"token": token})).status_code == 200
        async with other.stream("GET", "/api/live") as answer:
            unpacked, text, pieces = zlib.decompressobj(31), b"", answer.aiter_raw()
            while b"event: ready" not in text:
                text += unpacked.decompress(await anext(pieces))
            assert (await other.post("/api/logout", json={})).status_code == 204
            async for piece in pieces:
                text += unpacked.decompress(piece)
    assert unpacked.eof
