"""HTTP by hand: what no proper client would send."""

import asyncio
from typing import NamedTuple

import msgspec


class Got(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> dict[str, object]:
        assert self.headers["content-type"] == "application/problem+json", self
        found: dict[str, object] = msgspec.json.decode(self.body)
        return found


Pairs = list[tuple[str, str]]


async def ask(port: int, method: str, path: str, headers: Pairs, body: bytes = b"", version: str = "1.1") -> Got:
    """One request exactly as given, on a connection of its own, and the answer to it."""
    lines = [f"{method} {path} HTTP/{version}", *(f"{name}: {value}" for name, value in headers), "", ""]
    return await send(port, "\r\n".join(lines).encode("latin-1") + body, bare=method == "HEAD")


async def send(port: int, data: bytes, bare: bool = False) -> Got:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(60):
            writer.write(data)
            return await read_answer(reader, bare)
    finally:
        writer.close()


async def read_answer(reader: asyncio.StreamReader, bare: bool = False) -> Got:
    """Status, headers, and the body as far as its length is told; `bare`: to a HEAD, without one."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return Got(
        int(head[0].split()[1]), headers, await reader.readexactly(0 if bare else int(headers.get("content-length", 0)))
    )


UPGRADE: Pairs = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
]
