"""What no proper client would send, to a real server: it answers or hangs up and goes on, and its log stays empty."""

import asyncio
import contextlib
import os
import random
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from server.served import Served, serving
from server.wire import UPGRADE

SEED = int(os.environ.get("OSTLER_FUZZ_SEED", "1"))
SWITCHED = b"<after the handshake>"
KEEP_QUIET = 0.3  # seconds in which an answer may come to what is not finished


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as served:
        yield served


def head(served: Served, line: str, *more: str, token: bool = True) -> bytes:
    lines = [line, f"Host: 127.0.0.1:{served.port}", *more]
    if token:
        lines.append(f"Authorization: Bearer {served.token}")
    return "".join(f"{each}\r\n" for each in (*lines, "")).encode("latin-1")


def requests(served: Served) -> Iterator[bytes]:
    """Requests that are wrong in their first line, their headers, their target or their body."""
    yield from (b"", b"\0", b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1", b"\xff" * 200, b"{}" * 4000, b"A" * 100_000)
    yield from (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000, b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n")
    yield from (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 50)
    for token in (True, False):
        for target in (
            *(
                "/%ff%fe",
                "/%c0%af",
                "/api/sessions/%ed%a0%80",
                "/%00",
                "/%0a%0d%1b]0;x",
                "/a%20b" * 500,
                "*",
                "//",
                "/../..",
            ),
            *(
                "/api/sessions/%ff/events",
                "/api/turns/%f0%9f/artifacts/%ff",
                "/?%ff=%ff",
                "/api/folders?at=%00%ff",
                "/%",
            ),
            *("http://[::1", "http://x:99999999/", "/api/sessions?limit=%ff", "/api/terminals/%80/snapshot"),
        ):
            for method in ("GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT", "TRACE", "X" * 200):
                yield head(served, f"{method} {target} HTTP/1.1", token=token)
        yield head(served, "GET /api/me HTTP/1.1", "Content-Length: -5", token=token)
        yield head(served, "POST /api/links HTTP/1.1", "Content-Length: 5", "Content-Length: 6", token=token)
        yield head(served, "GET /api/me HTTP/1.1", "Cookie: " + "a=b;" * 10_000, token=token)
        yield head(served, "GET /api/me HTTP/1.1", "Cookie: \xff\xfe=\x80", "Accept: \xff", token=token)
        yield head(served, "GET /api/me HTTP/1.1", "Expect: 100-continue", "Content-Length: 10", token=token)
        yield head(served, "POST /api/links HTTP/1.1", "Upgrade: h2c", "Connection: Upgrade", token=token)
        for body in (
            b"zz\r\n{}\r\n0\r\n\r\n",
            b"-2\r\n",
            b"2\r\n{}xx",
            b"ffffffffffffffffff\r\n",
            b"2;" + b"x" * 70_000,
            b"0\r\nA",
        ):
            for line in ("POST /api/links HTTP/1.1", "PUT /api/uploads/x HTTP/1.1", "GET /api/live HTTP/1.1"):
                kind = "octet-stream" if "uploads" in line else "json"
                yield (
                    head(served, line, f"Content-Type: application/{kind}", "Transfer-Encoding: chunked", token=token)
                    + body
                )
        for line in ("POST /api/links HTTP/1.1", "PUT /api/uploads/x HTTP/1.1", "POST /api/login HTTP/1.1"):
            kind = "octet-stream" if "uploads" in line else "json"
            for body in (b"", b"{", b'{"rights": "\xff"}', b"[" * 20_000, b'{"rights": 1e999999}', b"\0" * 50):
                sent = head(served, line, f"Content-Type: application/{kind}", "Content-Length: 50000", token=token)
                yield sent + body  # the rest never comes
                yield sent.replace(b"50000", b"%d" % len(body)) + body
        good = head(served, "GET /api/me HTTP/1.1", token=token)
        yield from (
            good + b"\0garbage\r\n\r\n",
            good * 20,
            good + head(served, "GET /api/live HTTP/1.1") + b"xx\r\n\r\n",
        )


def frames(served: Served, terminal: str) -> Iterator[bytes]:
    """A good handshake, then frames that are wrong; and handshakes that are."""
    upgrade = [f"{name}: {value}" for name, value in UPGRADE]
    path = f"GET /api/terminals/{terminal}/ws HTTP/1.1"
    good = head(served, path, *upgrade)
    masked = b"\x81\x82\0\0\0\0"
    wrong = (
        *(b"\x81\x02hi", masked + b"\xff\xfe", b"\xf1\x80\0\0\0\0", b"\x83\x80\0\0\0\0", b"\x81\xff" + b"\xff" * 12),
        *(b"\x80\x80\0\0\0\0", b"\x89\xfe\x10\x00\0\0\0\0", b"\x88\x81\0\0\0\0x", b"\x88\x82\0\0\0\0\xff\xff"),
        *(
            b"\x88\x84\0\0\0\0\x03\xe8\xff\xff",
            b"\x01\x81\0\0\0\0x\x81\x81\0\0\0\0y",
            b"\x81\xfe\xff\xff\0\0\0\0" + b"x" * 65535,
        ),
        *(
            b"\x82\x80\0\0\0\0" * 2000,
            masked + b"{}",
            masked + b"no",
            b"\x81",
            b"",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\xc1\x80\0\0\0\0",
        ),
        b"\x01\x81\0\0\0\0\xff\x80\x81\0\0\0\0\xfe",
    )
    yield from (good + SWITCHED + each for each in wrong)
    for change in (
        *(("Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 99"), ("dGhlIHNhbXBsZSBub25jZQ==", "no")),
        *(("dGhlIHNhbXBsZSBub25jZQ==", "\xff"), ("Upgrade: websocket", "Upgrade: websocket\r\nUpgrade: x")),
        *((terminal, "nobody"), (terminal, "%ff"), (terminal, "x" * 9000), ("?", "?"), ("HTTP/1.1", "HTTP/1.0")),
        *(("/ws", "/ws?viewer=%ff&offset=-1"), ("/ws", "/ws?offset=" + "9" * 400), ("GET", "POST")),
        ("Upgrade: websocket", "Upgrade: websocket\r\n" + "A: b\r\n" * 200 + "B: c"),
    ):
        yield good.replace(change[0].encode("latin-1"), change[1].encode("latin-1"))
    for more in ("Sec-WebSocket-Protocol: a,,b", "Sec-WebSocket-Extensions: x; y=\xff", "Origin: \xff"):
        yield head(served, path, *upgrade, more)
    yield head(served, path, *upgrade, token=False)


async def send(served: Served, data: bytes, leave: str) -> None:
    """Sends it, and goes: after a while, by closing one side, or by resetting the connection at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    end: socket.socket = writer.get_extra_info("socket")
    with contextlib.suppress(OSError, TimeoutError, EOFError):
        async with asyncio.timeout(KEEP_QUIET):
            first, _, then = data.partition(SWITCHED)
            writer.write(first)
            if then:
                await reader.readuntil(b"\r\n\r\n")
            writer.write(then)
            await writer.drain()
            if leave == "half":
                writer.write_eof()
            while leave != "reset" and await reader.read(65536):
                pass
    if leave == "reset":
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()


async def test_nothing_that_a_client_does_wrong_is_in_the_log(served: Served) -> None:
    terminal = await served.open(await served.session(), ["cat"])
    cases = [*requests(served), *frames(served, terminal)]
    chance = random.Random(SEED)
    cases += [damaged(each, chance) for each in cases if each]
    room = asyncio.Semaphore(40)

    async def one(data: bytes, leave: str) -> None:
        async with room:
            await send(served, data, leave)

    ways = ("stay", "half", "reset")
    await asyncio.gather(*(one(each, ways[n % 3]) for n, each in enumerate(cases)))
    await asyncio.gather(*(one(each, ways[(n + 1) % 3]) for n, each in enumerate(cases)))
    assert (await served.http.get("/api/me")).status_code == 200
    assert (await served.row(terminal))["state"] == "live"
    assert told(served) == ""


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Cut off, or with some bytes that are others."""
    if chance.random() < 0.5:
        return data[: chance.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 6)):
        changed[chance.randrange(len(changed))] = chance.choice(b'\0\r\n :;,%?/{}[]"\x7f\x80\xff\xc3A0-9')
    return bytes(changed)


def told(served: Served) -> str:
    """What the server has said since it was up."""
    lines = served.log.read_text().splitlines()
    return "\n".join(lines[next(n for n, line in enumerate(lines) if "stop" in line) + 1 :])
