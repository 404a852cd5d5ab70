"""A login ends with everything that it opened: sockets, streams, uploads, bodies that are still to come."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from ostler.server.auth import Authenticator
from server.conftest import Yard
from server.streamed import listening
from server.test_sessions import make, run
from server.wire import read_answer
from waiting import until

LATER = 400 * 86400.0
Ending = Callable[[Yard, str], Awaitable[None]]


async def log_out(yard: Yard, token: str) -> None:
    async with yard.as_(None, headers={"authorization": f"Bearer {token}"}) as client:
        assert (await client.post("/api/logout")).status_code == 204  # it ends all but itself


async def expire(yard: Yard, token: str) -> None:
    yard.auth._now = lambda: time.time() + LATER


async def revoke_all(yard: Yard, token: str) -> None:
    """By another process, as `ostler link --revoke-all` does."""
    Authenticator(yard.ostler.store.folder).revoke_all()


async def lose_the_key(yard: Yard, token: str) -> None:
    (yard.ostler.store.folder / "server.key").chmod(0o644)


ENDINGS = [log_out, expire, revoke_all, lose_the_key]


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def session_of(yard: Yard) -> str:
    live = await yard.ostler.session("script", folder=str(yard.folder))
    return (await live.keep()).id


async def closed_with(socket: ClientConnection) -> tuple[int, str]:
    async with asyncio.timeout(60):
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await socket.recv()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


@contextlib.asynccontextmanager
async def half_sent(yard: Yard, request: str, token: str) -> AsyncIterator[asyncio.StreamReader]:
    """A request whose body has begun to come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", yard.port)
    head = f"{request} HTTP/1.1\r\nHost: 127.0.0.1:{yard.port}\r\nAuthorization: Bearer {token}\r\n"
    kind = "application/octet-stream" if "uploads" in request else "application/json"
    writer.write(f"{head}Content-Type: {kind}\r\nContent-Length: 1000\r\n\r\n{{".encode())
    yield reader
    writer.close()


@pytest.mark.parametrize("end", ENDINGS, ids=lambda end: end.__name__)
async def test_everything_ends_with_its_login(yard: Yard, end: Ending) -> None:
    """A viewer of a terminal, one of a session, both streams, and an upload and a request that are still coming."""
    session, token = await session_of(yard), yard.token()
    terminal = await yard.ostler.terminals.open(session, ["cat"])
    uploads = yard.ostler.store.folder / "uploads"
    paths = f"/api/terminals/{terminal.row.id}/ws", f"/api/sessions/{session}/terminal/ws"
    async with contextlib.AsyncExitStack() as stack:
        enter = stack.enter_async_context
        viewers = [await enter(connect(yard.ws + path, additional_headers=bearer(token))) for path in paths]
        client = await enter(yard.as_(None, headers=bearer(token)))
        streams = [await enter(listening(client, path)) for path in ("/api/live", f"/api/sessions/{session}/events")]
        coming = [await enter(half_sent(yard, what, token)) for what in ("PUT /api/uploads/x", "POST /api/sessions")]
        await until(lambda: yard.site.gateway.under_way == 6 and uploads.is_dir() and os.listdir(uploads))
        await end(yard, token)
        for viewer in viewers:
            assert await closed_with(viewer) == (4401, "this login has ended")
        for stream in streams:
            await stream.until_over()
        for reader in coming:
            await refused(reader)
        again = await client.get("/api/live")
        assert again.status_code == (500 if end is lose_the_key else 401)
        await until(lambda: yard.site.gateway.under_way == 0)
        assert terminal.live.viewers == 0 and os.listdir(uploads) == []


async def refused(reader: asyncio.StreamReader) -> None:
    """Answered, and the connection is closed."""
    async with asyncio.timeout(60):
        answer = await read_answer(reader)
        assert (answer.status, answer.problem["kind"]) == (401, "unauthenticated")
        assert await reader.read() == b""


async def test_the_connections_of_others_stay(yard: Yard) -> None:
    """Also those of the same person by another login."""
    session = await session_of(yard)
    first, second = yard.token(name="Ada"), yard.token(name="Ada")
    url = f"{yard.ws}/api/sessions/{session}/terminal/ws"
    async with yard.as_(None, headers=bearer(second)) as client, listening(client, "/api/live") as live:
        one, other = (connect(url, additional_headers=bearer(token)) for token in (first, second))
        async with one as goes, other as stays:
            await goes.recv(), await stays.recv()
            await log_out(yard, first)
            assert (await closed_with(goes))[0] == 4401
            await yard.ostler.terminals.open(session, ["echo", "still here"])
            await until_told(stays, b"still here")
            await live.until(lambda told: any(each.kind == "terminal" for each in told))


async def until_told(socket: ClientConnection, words: bytes) -> None:
    async with asyncio.timeout(60):
        while True:
            frame = await socket.recv()
            if words in (frame.encode() if isinstance(frame, str) else frame):
                return


async def test_a_cookie_ends_what_it_opened_in_every_window(yard: Yard) -> None:
    session = await session_of(yard)
    browser = await yard.browser()
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    headers: dict[str, Any] = {"cookie": cookie, "origin": yard.url}
    async with connect(f"{yard.ws}/api/sessions/{session}/terminal/ws", additional_headers=headers) as window:
        await window.recv()
        assert (await browser.post("/api/logout")).status_code == 204
        assert (await closed_with(window))[0] == 4401
    await browser.aclose()


async def test_a_download_that_nobody_reads_ends_with_its_login(yard: Yard) -> None:
    """Broken off, not ended as if it were whole."""
    token, session = yard.token(), await make(yard)
    turn = (await run(yard, session["id"]))["id"]
    Path(yard.ostler.find_turn(turn).envelope.artifacts["prompt"]).write_bytes(b"x" * (32 << 20))
    reader, writer = await asyncio.open_connection("127.0.0.1", yard.port, limit=1024)
    head = f"GET /api/turns/{turn}/artifacts/prompt HTTP/1.1\r\nHost: 127.0.0.1:{yard.port}\r\n"
    writer.write(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
    assert b"200" in await reader.readline()
    await until(lambda: yard.site.gateway.under_way == 1)
    await log_out(yard, token)
    await until(lambda: yard.site.gateway.under_way == 0)
    writer.close()
