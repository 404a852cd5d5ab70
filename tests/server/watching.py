"""A viewer over WebSocket as a client author would write it: shows what it is told, acknowledges what it has shown."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from ostler.terminal.emulator import Emulator
from ostler.terminal.keys import Key
from ostler.terminal.viewer_protocol import (
    Ack,
    AnyViewerMessage,
    FactsMessage,
    Gone,
    Hello,
    Leased,
    PressKey,
    RefusedMessage,
    ResizedMessage,
    SnapshotMessage,
    Type,
    Want,
    encode_message,
    read_terminal_message,
)
from waiting import PATIENCE


class Watcher:
    """What one viewer knows. Nothing is read but while `until` waits: between, it is a slow viewer."""

    def __init__(self, socket: ClientConnection, acknowledges: bool = True) -> None:
        self.socket = socket
        self.acknowledges = acknowledges
        self.hello: Hello | None = None
        self.hellos = 0
        self.snapshots = 0
        self.offset = 0  # of the next byte
        self.output = bytearray()  # since the first snapshot of this terminal, with holes where another snapshot came
        self.holes = 0
        self.lease: Leased | None = None
        self.title = ""
        self.bells = 0
        self.errors: list[RefusedMessage] = []
        self.gone: Gone | None = None
        self.closed: tuple[int | None, str | None] | None = None
        self.screen: Emulator | None = None

    # -- reading

    async def until(self, condition: Callable[[Self], Any], seconds: float = PATIENCE) -> Any:
        """Reads frames until it holds. Fails when the connection ends before, or in `seconds`."""
        async with asyncio.timeout(seconds):
            while not (value := condition(self)):
                assert self.closed is None, f"closed {self.closed}, {self.errors}"
                await self.step()
        return value

    async def until_closed(self, seconds: float = PATIENCE) -> tuple[int | None, str | None]:
        async with asyncio.timeout(seconds):
            while self.closed is None:
                await self.step()
        return self.closed

    async def step(self) -> None:
        try:
            frame = await self.socket.recv()
        except ConnectionClosed:
            self.closed = self.socket.close_code, self.socket.close_reason
            return
        match read_terminal_message(frame):
            case (int(offset), bytes(data)):
                await self._bytes(offset, data)
            case Hello() as hello:
                self.hello, self.gone = hello, None
                self.hellos += 1
            case SnapshotMessage() as shown:
                await self._show(shown)
            case ResizedMessage() as resized:
                assert resized.offset == self.offset, "a resize comes between the bytes before and after it"
                self._resize(resized.cols, resized.rows)
            case Leased() as leased:
                self.lease = leased
            case FactsMessage() as facts:
                self.title = facts.title if facts.title is not None else self.title
                self.bells += facts.bells
            case Gone() as gone:
                self.gone = gone
            case RefusedMessage() as refused:
                self.errors.append(refused)

    async def _bytes(self, offset: int, data: bytes) -> None:
        assert offset == self.offset, f"a gap: {self.offset} was next, {offset} came"
        self.offset += len(data)
        self.output += data
        if self.screen is not None:
            self.screen.feed(data)
        if self.acknowledges:
            await self.say(Ack(offset=self.offset))

    async def _show(self, shown: SnapshotMessage) -> None:
        self.snapshots += 1
        if self.snapshots > 1 and shown.offset != self.offset:
            self.holes += 1
        self.offset = shown.offset
        self.title = shown.title
        if self.screen is not None:
            self.screen.close()
        self.screen = Emulator(shown.cols, shown.rows)
        self.screen.feed(shown.vt.encode())
        if self.acknowledges:
            await self.say(Ack(offset=self.offset))

    def _resize(self, cols: int, rows: int) -> None:
        if self.screen is not None:
            self.screen.resize(cols, rows)

    # -- what it shows

    @property
    def rows(self) -> tuple[str, ...]:
        return self.screen.snapshot(0).text if self.screen is not None else ()

    @property
    def styled(self) -> tuple[str, ...]:
        return self.screen.snapshot(0).styled if self.screen is not None else ()

    @property
    def size(self) -> tuple[int, int] | None:
        return self.screen.size if self.screen is not None else None

    def shows(self, text: str) -> bool:
        return any(text in row for row in self.rows)

    # -- saying

    async def say(self, message: AnyViewerMessage) -> None:
        try:
            await self.socket.send(encode_message(message))
        except ConnectionClosed:
            pass  # `step` will tell

    async def take(self) -> None:
        await self.say(Want(action="take"))
        await self.until(lambda self: self.lease is not None and self.lease.yours)

    async def type(self, text: str) -> None:
        await self.say(Type(text=text))

    async def press(self, name: str, **fields: Any) -> None:
        await self.say(PressKey(key=Key(name=name, **fields)))

    def close(self) -> None:
        if self.screen is not None:
            self.screen.close()
            self.screen = None


_names = itertools.count(1)


def viewer_id() -> str:
    return f"viewer{next(_names):06d}"


@asynccontextmanager
async def watching(
    url: str,
    headers: dict[str, str],
    *,
    acknowledges: bool = True,
    viewer: str | None = None,
    again: Watcher | None = None,
    ssl: SSLContext | None = None,
) -> AsyncIterator[Watcher]:
    """A viewer at the other end of `url` (without its query) until the block ends.

    One that comes `again` goes on at the offset where it was cut off; it is closed by whoever made it.
    """
    offset = again.offset if again else None
    query = f"viewer={viewer or viewer_id()}" + (f"&offset={offset}" if offset is not None else "")
    more: dict[str, Any] = {"max_size": None, "compression": None, "proxy": None, "open_timeout": PATIENCE, "ssl": ssl}
    async with connect(f"{url}?{query}", additional_headers=headers, **more) as socket:
        watcher = again or Watcher(socket, acknowledges)
        watcher.socket, watcher.closed = socket, None
        try:
            yield watcher
        finally:
            if watcher is not again:
                watcher.close()
