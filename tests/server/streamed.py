"""A client of server-sent events, as a client author would write it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import msgspec

from waiting import PATIENCE


class Told(NamedTuple):
    kind: str
    data: Any
    id: int | None = None


class Listener:
    """What one stream has told. Nothing is read but while somebody waits: between, it is a slow reader."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.told: list[Told] = []
        self.comments = 0
        self.over = False
        self._chunks = answer.aiter_bytes()
        self._rest = b""

    async def until(self, condition: Callable[[list[Told]], Any], seconds: float = PATIENCE) -> Any:
        """Reads until it holds. Fails when the stream ends before, or in `seconds`."""
        async with asyncio.timeout(seconds):
            while not (value := condition(self.told)):
                assert not self.over, f"the stream ended after {self.told[-3:]}"
                await self.step()
        return value

    async def until_over(self, seconds: float = PATIENCE) -> None:
        async with asyncio.timeout(seconds):
            while not self.over:
                await self.step()

    async def step(self) -> None:
        try:
            self._rest += await anext(self._chunks)
        except (StopAsyncIteration, httpx.TransportError):
            self.over = True
            return
        *blocks, self._rest = self._rest.split(b"\n\n")
        for block in blocks:
            self._take(block)

    def _take(self, block: bytes) -> None:
        if block.startswith(b":"):
            self.comments += 1
            return
        fields = dict(line.split(b": ", 1) for line in block.split(b"\n"))
        id = int(fields[b"id"]) if b"id" in fields else None
        self.told.append(Told(fields[b"event"].decode(), msgspec.json.decode(fields[b"data"]), id))

    def of(self, kind: str, **fields: Any) -> list[Any]:
        """What was told of this kind, with these values in its fields."""
        found = [told.data for told in self.told if told.kind == kind]
        return [data for data in found if fields.items() <= data.items()]


@asynccontextmanager
async def listening(client: httpx.AsyncClient, path: str, **headers: str) -> AsyncIterator[Listener]:
    timeout = httpx.Timeout(30, read=None)
    sent = {"accept": "text/event-stream", **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with client.stream("GET", path, headers=sent, timeout=timeout) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"] == "text/event-stream"
        yield Listener(answer)
