"""Both ends of a live terminal: a source that remembers what it was told, and a viewer with an emulator of its own."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from ostler.errors import OstlerError
from ostler.model import TerminalRow
from ostler.terminal.byte_stream import FOREVER
from ostler.terminal.emulator import Emulator
from ostler.terminal.lease import Author
from ostler.terminal.live import LiveTerminal
from ostler.terminal.screen.protocol import Snapshot, Update
from ostler.terminal.subscription import Seen, Subscription
from ostler.terminal.viewer_protocol import (
    Ack,
    AnyViewerMessage,
    FactsMessage,
    Gone,
    Hello,
    Leased,
    RefusedMessage,
    ResizedMessage,
    Rights,
    SnapshotMessage,
    encode_message,
    read_terminal_message,
)
from waiting import PATIENCE, until

LIMIT = PATIENCE

ANN, BOB = Author("Ann", id="ann:1"), Author("Bob", id="bob:1")
ROBOT = Author("robot", kind="automation")

T = TypeVar("T")


def row(**changes: Any) -> TerminalRow:
    values = {"id": "t1", "session": "s1", "name": "shell", "source": "pty", "cols": 80, "rows": 24, "created_at": 1.0}
    return TerminalRow(**{**values, **changes})


class Source:
    """Takes what is typed. `full`: it can take nothing more."""

    def __init__(self) -> None:
        self.written = b""
        self.sizes: list[tuple[int, int]] = []
        self.full = False

    def write(self, data: bytes) -> None:
        if self.full:
            raise OstlerError("too_many", "the terminal does not read its input")
        self.written += data

    def resize(self, cols: int, rows: int) -> None:
        self.sizes.append((cols, rows))


class Glass:
    """A viewer as a page has it: applies what it is sent to its own screen, and acknowledges unless told not to."""

    def __init__(
        self,
        terminal: LiveTerminal,
        author: Author = ANN,
        rights: Rights = "type",
        offset: int | None = None,
        acks: bool = True,
    ) -> None:
        self.viewing = terminal.view(author, rights, offset)
        self.acks = acks
        self.emulator: Emulator | None = None
        self.offset = offset or 0
        self.seen: list[Any] = []  # every message; bytes as (offset, data)
        self.bytes = b""  # all of them
        self.ended = False
        self._waits = False
        self._news = asyncio.Event()
        self._note_waits()
        self._task = asyncio.get_running_loop().create_task(self._watch())

    def _note_waits(self) -> None:
        pause = self.viewing._pause

        async def noted(until: float) -> None:
            self._waits = until == FOREVER
            await pause(until)
            self._waits = False

        self.viewing._pause = noted

    @property
    def at_rest(self) -> bool:
        """The terminal has nothing to send to it, now or after a while, unless something happens."""
        return self._waits and not self.viewing._event.is_set()

    async def _watch(self) -> None:
        async for frame in self.viewing.frames():
            message = read_terminal_message(frame)
            self._apply(message)
            self.seen.append(message)
            self._news.set()
        self.ended = True
        self._news.set()

    def _apply(self, message: Any) -> None:
        match message:
            case Hello(resumed=False):
                self._renew(None)
            case SnapshotMessage():
                self._renew(Emulator(message.cols, message.rows))
                self.emulator.feed(message.vt.encode())
                self.offset = message.offset
                self.acknowledge()
            case ResizedMessage():
                assert message.offset == self.offset
                self.emulator.resize(message.cols, message.rows)
            case Gone():
                assert message.offset == self.offset
            case int() as offset, bytes() as data:
                assert offset == self.offset, "a gap"
                assert data
                self.bytes += data
                self.offset += len(data)
                if self.emulator:
                    self.emulator.feed(data)
                self.acknowledge()

    def _renew(self, emulator: Emulator | None) -> None:
        if self.emulator:
            self.emulator.close()
        self.emulator = emulator

    def resume(self, screen: "Glass") -> None:
        """Goes on with the screen of a viewer that was closed."""
        self.emulator, screen.emulator = screen.emulator, None

    def acknowledge(self) -> None:
        if self.acks:
            self.say(Ack(offset=self.offset))

    def say(self, message: AnyViewerMessage) -> None:
        self.viewing.receive(encode_message(message))

    def all(self, kind: type[T]) -> list[T]:
        return [message for message in self.seen if isinstance(message, kind)]

    @property
    def kinds(self) -> list[str]:
        """What came, one word each; bytes in a row are one."""
        names = {
            Hello: "hello",
            SnapshotMessage: "snapshot",
            ResizedMessage: "resize",
            FactsMessage: "facts",
            Leased: "lease",
        }
        names |= {Gone: "exit", RefusedMessage: "error", tuple: "bytes"}
        kinds = [names[type(message)] for message in self.seen]
        return [kind for at, kind in enumerate(kinds) if kind != "bytes" or kinds[at - 1 : at] != ["bytes"]]

    @property
    def errors(self) -> list[tuple[str, int]]:
        return [(refused.problem.kind, refused.re) for refused in self.all(RefusedMessage)]

    def screen(self) -> Snapshot:
        assert self.emulator
        self.emulator.dirty()
        return self.emulator.snapshot(self.offset)

    def text(self) -> tuple[str, ...]:
        return self.screen().text

    async def until(self, condition: Callable[[], Any]) -> None:
        """Waits until something that came makes it true."""
        async with asyncio.timeout(LIMIT):
            while not condition():
                assert not self.ended, f"it ended with {self.seen[-3:]}"
                self._news.clear()
                await self._news.wait()

    async def shows(self, *words: str) -> None:
        await self.until(lambda: self.emulator and all(any(word in line for line in self.text()) for word in words))

    async def end(self) -> None:
        """Waits for its end by itself."""
        async with asyncio.timeout(LIMIT):
            await self._task
        await self.close()

    async def close(self) -> None:
        await self.viewing.close()
        async with asyncio.timeout(LIMIT):
            await self._task
        self._renew(None)


class Reader:
    """Puts together what it is given, as a program would."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.rows: dict[int, str] = {}
        self.size = (0, 0)
        self.kinds: list[str] = []
        self.bells = 0
        self.titles: list[str] = []

    async def read(self, within: float = LIMIT) -> Seen:
        async with asyncio.timeout(within):
            seen = await anext(self.subscription)
        self.kinds.append(type(seen).__name__)
        assert self.subscription.seq == len(self.kinds)
        match seen:
            case Snapshot():
                self.rows = dict(enumerate(seen.styled))
                self.size = (seen.cols, seen.rows)
            case Update():
                assert seen.seq == self.subscription.seq
                assert seen.whole or (seen.cols, seen.rows) == self.size
                self.size = (seen.cols, seen.rows)
                self.rows = {y: vt for y, vt in self.rows.items() if y < seen.rows and not seen.whole}
                self.rows |= {changed.y: changed.vt for changed in seen.changed}
                self.bells += seen.facts.bells
                self.titles += [seen.facts.title] if seen.facts.title is not None else []
        return seen

    async def to_end(self) -> Gone:
        while not isinstance(seen := await self.read(), Gone):
            pass
        return seen

    def shown(self) -> tuple[str, ...]:
        return tuple(self.rows.get(y, "") for y in range(self.size[1]))


async def room(terminal: LiveTerminal) -> None:
    """What a source waits for: a screen that was overtaken by the log has missed something."""
    await until(lambda: not terminal.crowded)
