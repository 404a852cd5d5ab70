"""The small endpoint: takes hooks, and nothing that anybody sends stops it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ostler.testing.clock import Clock
from ostler.work.hooks import listener
from ostler.work.hooks.hook_turn import HookReply
from ostler.work.hooks.listener import Listener, bearer, event_in


class Endpoint:
    def __init__(self) -> None:
        self.heard: list[tuple[str, str, bytes]] = []
        self.listener: Listener | None = None

    async def take(self, token: str, event: str, body: bytes) -> HookReply:
        self.heard.append((token, event, body))
        return HookReply(status=200, body=b'{"a":1}') if token == "t" else HookReply(status=401)

    async def send(self, data: bytes) -> bytes:
        assert self.listener is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        writer.write(data)
        try:
            return await reader.read()
        finally:
            writer.close()


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    made = Endpoint()
    made.listener = await Listener.open(made.take)
    yield made
    await made.listener.close()


GOOD = b"POST /api/hooks?event=Stop HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nContent-Length: 2\r\n\r\n{}"


async def test_a_hook_is_taken(endpoint: Endpoint) -> None:
    said = await endpoint.send(GOOD)
    assert said.startswith(b"HTTP/1.1 200") and said.endswith(b'\r\n\r\n{"a":1}')
    assert endpoint.heard == [("t", "Stop", b"{}")]
    assert (await endpoint.send(GOOD.replace(b"Bearer t", b"Basic t"))).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff" * 100 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nzz",
        b"POST / HTTP/1.1\r\nHost: x\r\nOrigin: http://evil.example\r\nContent-Length: 2\r\n\r\n{}",
        b"POST / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
    ],
)
async def test_nonsense_is_no_hook_and_the_next_one_is_taken(data: bytes, endpoint: Endpoint) -> None:
    try:
        said = await endpoint.send(data)
    except ConnectionError:
        said = b""  # it hung up while we were still speaking
    assert not said.startswith(b"HTTP/1.1 2")
    assert (await endpoint.send(GOOD)).startswith(b"HTTP/1.1 200")
    assert [body for _, _, body in endpoint.heard] == [b"{}"]


async def test_who_says_nothing_is_hung_up_on(endpoint: Endpoint, clock: Clock) -> None:
    waiting = asyncio.create_task(endpoint.send(GOOD[:-1]))
    while not waiting.done():
        await clock.turn(listener.REQUEST_TAKES)
        await asyncio.sleep(0.02)
    assert await waiting == b"" and endpoint.heard == []


async def test_closing_ends_what_is_open() -> None:
    started = asyncio.Event()

    async def think(token: str, event: str, body: bytes) -> HookReply:
        started.set()
        await asyncio.Event().wait()
        return HookReply()

    made = Endpoint()
    made.listener = await Listener.open(think)
    waiting = asyncio.create_task(made.send(GOOD))
    await started.wait()
    await made.listener.close()
    assert await waiting == b""
    with pytest.raises(OSError):
        await made.send(GOOD)


def test_headers_and_queries() -> None:
    assert [bearer(header) for header in (b"Bearer a", b"bearer  a ", b"Basic a", b"")] == ["a", "a", "", ""]
    assert [event_in(query) for query in ("event=Stop&event=x", "", "e=1")] == ["Stop", "", ""]
