"""A viewer in the user's own terminal: shows a terminal of ostler there, and sends what is typed."""

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import Literal, NamedTuple

import click

from ostler.cli.tty import AFRESH, UserTerminal
from ostler.errors import quoted
from ostler.model import Exit, Problem
from ostler.terminal.output_filter import OutputFilter
from ostler.terminal.viewer_protocol import (
    Ack,
    AnyTerminalMessage,
    AnyViewerMessage,
    Gone,
    Hello,
    Leased,
    RefusedMessage,
    ResizeTerminal,
    SendBytes,
    SnapshotMessage,
    Viewing,
    Want,
    encode_message,
    read_terminal_message,
)

TakeMode = Literal["always", "free", "never"]
BELL = b"\x07"


class AttachEnd(NamedTuple):
    """How it was left: by the user's keys, by the program's end, by a signal, or by what went wrong."""

    how: Literal["detached", "ended", "signalled", "lost"]
    exit: Exit | None = None
    signal: int = 0
    problem: Problem | None = None


class Client:
    """One viewing in one terminal. `take`: whether keys take the keyboard, only one that is free, or never."""

    def __init__(
        self, viewing: Viewing, user: UserTerminal, *, take: TakeMode, detach: "DetachKeys | None" = None
    ) -> None:
        self._viewing, self._user, self._take, self._detach = viewing, user, take, detach
        self._filter = OutputFilter()
        self._lease: Leased | None = None  # not told yet
        self._early = b""  # keys typed before it was
        self._problem: Problem | None = None
        self._left: asyncio.Future[AttachEnd] = asyncio.get_running_loop().create_future()
        self._blank = True  # nothing was shown yet

    async def run(self) -> AttachEnd:
        """Until the program ends or the user leaves; the viewing is closed then."""
        showing = asyncio.create_task(self._show())
        try:
            with self._typing(), self._resizing():
                if self._take == "always":
                    self._send(Want(action="take"))
                await asyncio.wait((showing, self._left), return_when=asyncio.FIRST_COMPLETED)
            return self._left.result() if self._left.done() else showing.result()
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)
            if self._lease is not None and self._lease.yours:
                self._send(Want(action="release"))
            await self._viewing.close()

    def leave(self, ending: AttachEnd) -> None:
        """Ends it from outside; the first reason stands."""
        if not self._left.done():
            self._left.set_result(ending)

    # -- showing -------------------------------------------------------------------------------------------

    async def _show(self) -> AttachEnd:
        try:
            async with aclosing(self._viewing.frames()) as frames:  # type: ignore[type-var]
                async for frame in frames:
                    message = read_terminal_message(frame)
                    if isinstance(message, Gone):
                        return self._over(message)
                    await self._shown(message)
        except OSError as error:  # the user's terminal has gone
            return AttachEnd("lost", problem=Problem(kind="crashed", message=str(error)))
        return AttachEnd("lost", problem=self._problem)

    async def _shown(self, message: AnyTerminalMessage | tuple[int, bytes]) -> None:
        match message:
            case (int() as offset, bytes() as data):
                await self._begin()
                await self._user.write(self._filter.feed(data) if self._user.shows else data)
                self._send(Ack(offset=offset + len(data)))
            case Hello(resumed=True):
                await self._begin()
            case SnapshotMessage():
                await self._draw(message)
                self._send(Ack(offset=message.offset))
            case Leased():
                self._leased(message)
            case RefusedMessage(problem=problem):
                self._problem = problem
                if problem.kind in ("denied", "too_many"):
                    await self._user.write(BELL if self._user.shows else b"")

    async def _draw(self, shown: SnapshotMessage) -> None:
        """From an empty screen. What the user had there before is not lost."""
        await self._begin()
        self._filter = OutputFilter()
        before = AFRESH if self._user.shows else b""
        await self._user.write(before + self._filter.feed(shown.vt.encode()))

    async def _begin(self) -> None:
        if self._blank:
            self._blank = False
            await self._user.make_room()

    def _over(self, gone: Gone) -> AttachEnd:
        lost = gone.exit is None and self._problem is not None and self._problem.kind == "crashed"
        return AttachEnd("lost" if lost else "ended", exit=gone.exit, problem=self._problem)

    # -- typing --------------------------------------------------------------------------------------------

    @contextmanager
    def _typing(self) -> Iterator[None]:
        keys = self._user.keys
        if keys is None:
            yield
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(keys, self._typed, keys)
        try:
            yield
        finally:
            loop.remove_reader(keys)

    def _typed(self, keys: int) -> None:
        try:
            data = os.read(keys, 65536)
        except OSError:
            data = b""
        left = not data
        if self._detach is not None:
            data, left = self._detach.feed(data)
        self._type(data)
        if left:
            self.leave(AttachEnd("detached"))

    def _type(self, data: bytes) -> None:
        if not data or self._take == "never":
            return
        if self._lease is None:
            self._early += data
            return
        if not self._lease.yours and (self._take == "always" or self._lease.holder is None):
            self._send(Want(action="take"))
        self._send(SendBytes(data=data))

    def _leased(self, lease: Leased) -> None:
        gained = lease.yours and not (self._lease is not None and self._lease.yours)
        self._lease = lease
        if gained:
            self._fit()
        early, self._early = self._early, b""
        self._type(early)

    def _fit(self) -> None:
        """The terminal gets the size of the user's."""
        size, lease = self._user.size, self._lease
        if self._user.shows and self._take != "never" and lease is not None and (lease.yours or lease.holder is None):
            self._send(ResizeTerminal(cols=size.cols, rows=size.rows))

    def _send(self, message: AnyViewerMessage) -> None:
        self._viewing.receive(encode_message(message))

    @contextmanager
    def _resizing(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, self._fit)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)


class DetachKeys:
    """Finds the keys that leave a terminal among those typed: `ctrl-]`, or several: `ctrl-p,ctrl-q`."""

    def __init__(self, keys: str) -> None:
        """Raises UsageError for what is no key."""
        forms = [_forms(key) for key in keys.split(",")]
        self._whole = re.compile(b"".join(forms))
        begun = [b"".join(forms[:n]) for n in range(1, len(forms))]
        self._begun = re.compile(b"(?:" + b"|".join(begun) + rb")\Z") if begun else None
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """What is to be sent, and whether to leave then; no data: the user has gone."""
        if not data:
            return b"", True
        data, self._held = self._held + data, b""
        if found := self._whole.search(data):
            return data[: found.start()], True
        if self._begun and (found := self._begun.search(data)):
            data, self._held = data[: found.start()], data[found.start() :]
        return data, False


def _forms(key: str) -> bytes:
    """A key as terminals send it: plainly, by modifyOtherKeys, or by the kitty protocol."""
    found = re.fullmatch(r"(?:ctrl-|\^)([a-z@\[\]\\^_])", key.strip().lower())
    if found:
        code = ord(found[1])
        plain = re.escape(bytes([ord(found[1].upper()) & 0x1F]))
        return b"(?:%b|\x1b\\[%d(?::\\d*)*;5(?::1)?u|\x1b\\[27;5;%d~)" % (plain, code, code)
    if len(key) == 1 and key.isascii() and key.isprintable():
        return re.escape(key.encode())
    raise click.UsageError(f"--detach-keys {quoted(key)}: write keys such as ctrl-] or ctrl-p,ctrl-q")
