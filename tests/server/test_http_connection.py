"""Who says nothing, or almost nothing, is not waited for; who is slow but comes along is."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

from websockets.asyncio.client import connect

from ostler.server.http_connection import DRAIN_SECONDS, HEADER_SECONDS, IDLE_EACH
from ostler.server.request_body import BODY_SECONDS, UPLOAD_RATE
from ostler.testing import Clock
from server.conftest import Yard
from server.streamed import listening
from server.test_sessions import make
from server.wire import read_answer
from waiting import until

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def connected(yard: Yard, source: str = "127.0.0.1") -> AsyncIterator[Line]:
    reader, writer = await asyncio.open_connection("127.0.0.1", yard.port, local_addr=(source, 0))
    try:
        yield reader, writer
    finally:
        writer.close()


async def accepted(yard: Yard) -> None:
    """Whoever came before this request has been let in: they are in one line."""
    assert (await yard.client.get("/api/me")).status_code == 200


def head(yard: Yard, line: str, *more: str, token: bool = True) -> bytes:
    lines = [f"{line} HTTP/1.1", f"Host: 127.0.0.1:{yard.port}", *more]
    if token:
        lines.append(f"Authorization: Bearer {yard.token()}")
    return "".join(f"{each}\r\n" for each in (*lines, "")).encode()


async def rest(line: Line) -> bytes:
    """All that comes until the server hangs up."""
    with contextlib.suppress(ConnectionResetError):
        return await line[0].read()
    return b""


async def heard(yard: Yard, line: Line, data: bytes) -> None:
    """Sends it; returns once the server has read it."""
    line[1].write(data)
    await line[1].drain()
    await accepted(yard)


# -- before a request -----------------------------------------------------------------------------------


async def test_who_asks_nothing_is_hung_up_on(clock: Clock, yard: Yard) -> None:
    async with connected(yard) as line:
        await accepted(yard)
        await clock.turn(HEADER_SECONDS)
        assert await rest(line) == b""


async def test_headers_that_trickle_are_not_waited_for(clock: Clock, yard: Yard) -> None:
    """A byte now and then wins no time; on a connection that was good before neither."""
    async with connected(yard) as new, connected(yard) as used:
        used[1].write(head(yard, "GET /api/me"))
        assert (await read_answer(used[0])).status == 200
        for byte in (b"G", b"E", b"T"):
            await heard(yard, new, byte)
            await heard(yard, used, byte)
            await clock.turn(HEADER_SECONDS / 3)
        for line in (new, used):
            assert (await rest(line)).startswith(b"HTTP/1.1 408 ")


async def test_idle_connections_give_way_to_new_ones(yard: Yard) -> None:
    """The oldest of the same address; others and those who ask are left alone."""
    async with contextlib.AsyncExitStack() as stack:
        enter = stack.enter_async_context
        other = await enter(connected(yard, "127.0.0.6"))
        busy = await enter(connected(yard, "127.0.0.5"))
        busy[1].write(head(yard, "GET /api/live"))
        assert (await read_answer(busy[0])).status == 200
        lines = [await enter(connected(yard, "127.0.0.5")) for _ in range(IDLE_EACH + 2)]
        for line in lines[:2]:
            assert await rest(line) == b""
        for line in (*lines[2:4], lines[-1], other):
            line[1].write(head(yard, "GET /api/me"))
            assert (await read_answer(line[0])).status == 200
        assert yard.site.gateway.staying("http") == 1


# -- bodies ---------------------------------------------------------------------------------------------


async def test_an_upload_that_trickles_is_cut_off(clock: Clock, yard: Yard) -> None:
    uploads = yard.ostler.store.folder / "uploads"
    octets = "Content-Type: application/octet-stream"
    async with connected(yard) as line:
        line[1].write(head(yard, "PUT /api/uploads/x", octets, "Content-Length: 1000000"))
        await until(lambda: uploads.is_dir() and os.listdir(uploads))
        for _ in range(3):
            await heard(yard, line, b"x")
            await clock.turn(BODY_SECONDS / 3)
        answer = await read_answer(line[0])
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert await rest(line) == b""
    assert os.listdir(uploads) == []


async def test_a_slow_upload_that_comes_along_is_taken(clock: Clock, yard: Yard) -> None:
    """As many bytes a second as it has to have, for longer than it takes to be cut off without."""
    size = UPLOAD_RATE * 60
    octets = "Content-Type: application/octet-stream"
    async with connected(yard) as line:
        line[1].write(head(yard, "PUT /api/uploads/x", octets, f"Content-Length: {size}"))
        for _ in range(6):
            await heard(yard, line, bytes(size // 6))
            await clock.turn(10)
        answer = await read_answer(line[0])
        assert answer.status == 201


async def test_a_body_that_nobody_wants_is_not_waited_for(clock: Clock, yard: Yard) -> None:
    """A stranger is told so at once, and may not hold the line with what is left of the request."""
    async with connected(yard) as line:
        json = "Content-Type: application/json"
        line[1].write(head(yard, "POST /api/sessions", json, "Content-Length: 1000", token=False) + b"{")
        assert (await read_answer(line[0])).status == 401
        for _ in range(4):
            await heard(yard, line, b" ")
            await clock.turn(DRAIN_SECONDS / 4)
        assert await rest(line) == b""


# -- what may take its time -----------------------------------------------------------------------------


async def test_streams_sockets_and_the_next_request_are_left_alone(clock: Clock, yard: Yard) -> None:
    session = (await make(yard))["id"]
    socket = connect(f"{yard.ws}/api/sessions/{session}/terminal/ws", additional_headers=yard.bearer())
    async with socket as viewer, listening(yard.client, "/api/live") as live, connected(yard) as line:
        await viewer.recv()
        await live.until(lambda told: any(each.kind == "ready" for each in told))
        await clock.turn(HEADER_SECONDS + 1)
        await make(yard, name="another")
        await live.until(lambda told: any(each.data.get("name") == "another" for each in told))
        assert await (await viewer.ping()) >= 0
        assert await rest(line) == b""  # the one that asked nothing meanwhile
        assert yard.site.gateway.staying("websocket") == 1
