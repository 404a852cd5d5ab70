"""One WebSocket for all that a page follows: rows and journals, each its own stream, and their ends."""

import asyncio
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ostler.server import live_socket
from ostler.terminal.viewer_protocol import Rights
from server.conftest import Yard
from server.streamed import PATIENCE
from server.test_events import wire, write
from server.test_sessions import make, run
from waiting import until

Told = tuple[str, Any]


class Follower:
    """What came on each stream. Nothing is read but while somebody waits."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.told: dict[int, list[Told]] = defaultdict(list)
        self.packed: list[int] = []  # bytes of the messages that came packed

    async def say(self, **wish: Any) -> None:
        await self.socket.send(msgspec.json.encode(wish).decode())

    async def until(self, n: int, kind: str, **fields: Any) -> Any:
        """The data of the first such event, once it has come."""
        async with asyncio.timeout(PATIENCE):
            while not (found := self.of(n, kind, **fields)):
                await self._step()
        return found[0]

    def of(self, n: int, kind: str, **fields: Any) -> list[Any]:
        return [data for name, data in self.told[n] if name == kind and fields.items() <= data.items()]

    async def _step(self) -> None:
        message = await self.socket.recv()
        if isinstance(message, bytes):
            self.packed.append(len(message))
            message = zlib.decompress(message).decode()
        number, _, piece = message.partition("\n")
        for block in filter(None, piece.split("\n\n")):
            if not block.startswith(":"):
                fields = dict(line.split(": ", 1) for line in block.split("\n"))
                self.told[int(number)].append((fields["event"], msgspec.json.decode(fields["data"])))


@asynccontextmanager
async def following(yard: Yard, rights: Rights = "view") -> AsyncIterator[Follower]:
    async with connect(f"{yard.ws}/api/live/ws", additional_headers=yard.bearer(rights), proxy=None) as socket:
        yield Follower(socket)


async def test_rows_and_journals_come_over_one_connection(yard: Yard) -> None:
    first, second = (await make(yard, name="barn"))["id"], (await make(yard))["id"]
    await write(yard, first, 3)
    async with following(yard) as page:
        assert (await page.until(0, "hello"))["rights"] == "view"
        await page.until(0, "ready")
        assert {row["id"] for row in page.of(0, "session")} == {first, second}
        await page.say(kind="follow", n=1, session="barn", after=1)
        await page.say(kind="follow", n=2, session=second)
        await run(yard, second, "[[say:hello]]")
        await page.until(2, "ended")
        assert [data for _, data in page.told[2]] == wire(yard, second)
        assert [data["seq"] for _, data in page.told[1]] == [2, 3]
        await page.until(0, "session", id=second, state="idle", turns=1)


async def test_what_is_long_comes_packed(yard: Yard) -> None:
    session = (await make(yard))["id"]
    await write(yard, session, 200, "the same words again")
    async with following(yard) as page:
        await page.say(kind="follow", n=1, session=session)
        await page.until(1, "text", seq=200)
        assert [data["seq"] for _, data in page.told[1]] == list(range(1, 201))
        assert sum(page.packed) < 4_000, "a tenth of it"


async def test_what_is_left_is_not_told_any_more(yard: Yard) -> None:
    session = (await make(yard))["id"]
    async with following(yard) as page:
        await page.say(kind="follow", n=1, session=session)
        await write(yard, session, 1)
        await page.until(1, "text", seq=1)
        await page.say(kind="leave", n=1)
        await page.say(kind="leave", n=77)  # never followed: nothing happens
        await page.say(kind="follow", n=2, session=session)
        await page.until(2, "text", seq=1)  # what was said before has been heard, too
        await write(yard, session, 1)
        await page.until(2, "text", seq=2)
        assert page.of(1, "text", seq=2) == []


async def test_a_journal_that_cannot_be_followed_or_is_gone(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_socket, "MOST", 2)
    session = (await make(yard))["id"]
    async with following(yard) as page:
        await page.say(kind="follow", n=1, session="nobody")
        assert (await page.until(1, "refused"))["status"] == 404
        for n in (2, 3, 4):
            await page.say(kind="follow", n=n, session=session)
        assert (await page.until(4, "refused"))["kind"] == "too_many"
        assert (await yard.client.delete(f"/api/sessions/{session}")).status_code == 204
        await page.until(2, "over")
        await page.until(3, "over")


@pytest.mark.parametrize(
    "nonsense", ["x", "{}", '{"kind":"follow","n":0,"session":"s"}', '{"kind":"follow","n":1,"session":"s","x":1}']
)
async def test_nonsense_ends_it(yard: Yard, nonsense: str) -> None:
    async with following(yard) as page:
        await page.socket.send(nonsense)
        with pytest.raises(ConnectionClosed):
            await page.until(0, "never")
        assert page.socket.close_code == 1007


async def test_it_ends_with_the_login_and_leaves_nobody_watching(yard: Yard) -> None:
    session = (await make(yard))["id"]
    browser = await yard.browser("view")
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    headers = {"cookie": cookie, "origin": yard.url}
    async with connect(f"{yard.ws}/api/live/ws", additional_headers=headers, proxy=None) as socket:
        page = Follower(socket)
        await page.say(kind="follow", n=1, session=session)
        await page.until(0, "ready")
        assert (await browser.post("/api/logout", json={})).status_code == 204
        with pytest.raises(ConnectionClosed):
            await page.until(0, "never")
        assert socket.close_code == 4401
    await browser.aclose()
    watcher: Any = yard.site.live
    await until(lambda: not watcher._looking.running and not watcher._journals)
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"{yard.ws}/api/live/ws", additional_headers=headers, proxy=None)
    assert refused.value.response.status_code == 401
