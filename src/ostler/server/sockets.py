"""Viewers over WebSocket: of one terminal, or of whichever terminal is a session's primary one.

What is said is in `terminal/viewer_protocol.py`; here it is carried. A viewer that sends nonsense, or too much, is told
so, and let go when it goes on. Nothing is kept for one that does not read: its `send` waits, and so does `frames()`.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import NamedTuple, cast

from msgspec import ValidationError, convert

from ostler import clock
from ostler.errors import OstlerError, quoted
from ostler.model import Problem
from ostler.server.auth import Person
from ostler.server.routing import Routes, WebSocket
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import (
    Ack,
    AnyTerminalMessage,
    AnyViewerMessage,
    Format,
    Frame,
    RefusedMessage,
    Viewing,
    encode_message,
    output_end,
    read_terminal_message,
    read_viewer_message,
)
from ostler.work import Ostler

BURST = 2_000  # frames that a viewer may send at once,
RATE = 500  # and for ever, a second; beside one for each frame that it was sent
OVERDUE = 1_000  # frames over that limit, after which it is let go
NONSENSE = 20  # frames in a row that are not understood, after which it is let go
LAST_WORD = 2.0  # seconds to say goodbye to somebody who may not be reading

ENDED, BINARY, GARBAGE, TOO_MANY, BROKEN = 1000, 1003, 1007, 1008, 1011

DISCONNECTED = (OSError,)  # what a send raises once the viewer has left

sockets = Routes("sockets")


@sockets(
    "WEBSOCKET /api/terminals/{terminal}/ws",
    "A terminal, live, and its keyboard",
    hears=AnyViewerMessage,
    tells=AnyTerminalMessage,
)
async def of_terminal(
    socket: WebSocket,
    terminal: str,
    ostler: Ostler,
    person: Person,
    viewer: str | None = None,
    offset: str | None = None,
    format: str = "bytes",
) -> None:
    """`?offset=` goes on where an earlier connection ended; `?viewer=` is the same across reconnects.

    `?format=rows`: rows of the screen instead of bytes, for viewers without an emulator.
    """

    async def view() -> Viewing:
        author, start = author_of(person, viewer), _offset(offset)
        return await ostler.terminals.view(terminal, author, person.rights, start, _format(format))

    await _serve(socket, view)


@sockets(
    "WEBSOCKET /api/sessions/{session}/terminal/ws",
    "The terminal of a session that is followed",
    hears=AnyViewerMessage,
    tells=AnyTerminalMessage,
)
async def of_session(
    socket: WebSocket,
    session: str,
    ostler: Ostler,
    person: Person,
    viewer: str | None = None,
    format: str = "bytes",
) -> None:
    async def follow() -> Viewing:
        return await ostler.terminals.follow(session, author_of(person, viewer), person.rights, _format(format))

    await _serve(socket, follow)


# -- who, and from where --------------------------------------------------------------------------------


def author_of(person: Person, viewer: str | None) -> Author:
    """Two windows of one person are told apart by the id that each has chosen."""
    if viewer and not re.fullmatch("[A-Za-z0-9]{8,40}", viewer):
        raise OstlerError("bad_request", "this is not a valid viewer id", "Give 8 to 40 letters and digits")
    return Author(name=person.name, kind="person", id=f"{person.id}:{viewer or ''}")


def _offset(given: str | None) -> int | None:
    if given is None:
        return None
    if not re.fullmatch("[0-9]{1,18}", given):
        raise OstlerError(
            "bad_request", f"{quoted(given[:40])} is not a valid offset", "Give the offset of the last frame, or none"
        )
    return int(given)


def _format(given: str) -> Format:
    try:
        format: Format = convert(given, Format)
        return format
    except ValidationError:
        hint = "Give bytes or rows"
        raise OstlerError("bad_request", f"{quoted(given[:40])} is not a format of a terminal's output", hint) from None


# -- one connection -------------------------------------------------------------------------------------


async def _serve(socket: WebSocket, view: Callable[[], Awaitable[Viewing]]) -> None:
    """Accepted only when there is something to see: what is raised before is the answer to the handshake."""
    viewing = await view()
    try:
        await socket.accept()
        closing = await TerminalSocket(socket, viewing).both_ways()
        if closing is not None:
            async with asyncio.timeout(LAST_WORD):
                await socket.close(closing.code, closing.reason)
    except (*DISCONNECTED, TimeoutError):
        pass  # nobody is left to be told anything
    finally:
        await viewing.close()


class SocketClose(NamedTuple):
    code: int
    reason: str


class TerminalSocket:
    """Two pumps between one socket and one viewing; whichever ends first ends the other."""

    def __init__(self, socket: WebSocket, viewing: Viewing) -> None:
        self._socket = socket
        self._viewing = viewing
        self._allowance = Allowance(clock.monotonic)
        self._nonsense = 0
        self._sent = 0  # output before this offset was sent,
        self._all_shown = asyncio.Event()  # and all of it acknowledged
        self._all_shown.set()

    async def both_ways(self) -> SocketClose | None:
        """What is left to say; None to somebody who has left."""
        async with asyncio.TaskGroup() as pumps:
            sending = pumps.create_task(self._send_frames())
            receiving = pumps.create_task(self._receive_frames())
            sending.add_done_callback(lambda _: receiving.cancel())
            receiving.add_done_callback(lambda _: sending.cancel())
        return receiving.result() if sending.cancelled() else sending.result()

    async def _send_frames(self) -> SocketClose | None:
        try:
            closing = _end_of(await self._send_each())
        except DISCONNECTED:
            return None
        if closing.code == ENDED:
            await self._until_all_shown()
        return closing

    async def _send_each(self) -> Frame:
        """All that there is to see. Returns the last frame, which says why it was the last."""
        last: Frame = ""
        try:
            async with aclosing(cast("AsyncGenerator[Frame, None]", self._viewing.frames())) as frames:
                async for frame in frames:
                    self._note_sent(frame)
                    await self._send(frame)
                    self._allowance.earn()
                    last = frame
        except OstlerError as error:
            last = _refusal(error)
            await self._send(last)
        return last

    def _note_sent(self, frame: Frame) -> None:
        if isinstance(frame, bytes):
            self._sent = output_end(frame)
            self._all_shown.clear()

    async def _until_all_shown(self) -> None:
        """A close that overtakes an acknowledgement would make the viewer's send fail. Who leaves ends this too."""
        with suppress(TimeoutError):  # it shows no more: then it is closed all the same
            async with asyncio.timeout(LAST_WORD):
                await self._all_shown.wait()

    async def _receive_frames(self) -> SocketClose | None:
        try:
            while (message := await self._socket.receive())["type"] == "websocket.receive":
                text = message.get("text")
                closing = await self._handle(text if text is not None else message.get("bytes") or b"")
                if closing is not None:
                    return closing
        except DISCONNECTED:
            pass  # the viewer has left
        return None

    async def _handle(self, frame: Frame) -> SocketClose | None:
        if self._allowance.spend():
            await self._refuse(OstlerError("too_many", "too many frames", f"Send at most {RATE} a second"))
        if self._allowance.overdue:
            return SocketClose(TOO_MANY, "too many frames")
        await self._allowance.pause()
        try:
            said = read_viewer_message(frame)
        except OstlerError as error:
            return await self._reject(frame, error)
        self._nonsense = 0
        if isinstance(said, Ack) and said.offset >= self._sent:
            self._all_shown.set()
        self._viewing.receive(frame)
        return None

    async def _reject(self, frame: Frame, error: OstlerError) -> SocketClose | None:
        self._nonsense += 1
        await self._refuse(error)
        if self._nonsense < NONSENSE:
            return None
        return SocketClose(BINARY if isinstance(frame, bytes) else GARBAGE, f"{NONSENSE} frames were not valid")

    async def _refuse(self, error: OstlerError) -> None:
        """Awaited by the one who hears: who sends nonsense and does not read is no longer heard."""
        await self._send(_refusal(error))

    async def _send(self, frame: Frame) -> None:
        if isinstance(frame, str):
            await self._socket.send({"type": "websocket.send", "text": frame, "bytes": None})
        else:
            await self._socket.send({"type": "websocket.send", "bytes": frame, "text": None})


def _refusal(error: OstlerError) -> str:
    problem = Problem.of(error)
    return encode_message(RefusedMessage(problem=problem))


def _end_of(last: Frame) -> SocketClose:
    """A viewing ends by itself after `exit`; else its last frame says what is wrong."""
    message = read_terminal_message(last) if last else None
    if not isinstance(message, RefusedMessage):
        return SocketClose(ENDED, "the terminal has ended")
    return SocketClose(TOO_MANY if message.problem.kind == "too_many" else BROKEN, message.problem.kind)


class Allowance:
    """How many frames a viewer may send. What it was sent is credited: to acknowledge every frame is free."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = float(BURST)
        self._at = clock()
        self._over = 0  # frames since there was nothing left, until half of it is there again

    def earn(self) -> None:
        self._left = min(self._left + 1, BURST)

    def spend(self) -> bool:
        """True for the first frame over the limit."""
        now = self._clock()
        self._left = min(self._left + (now - self._at) * RATE, BURST) - 1
        self._at = now
        if self._left >= BURST / 2:
            self._over = 0
        elif self._over or self._left < 0:
            self._over += 1
        return self._over == 1

    @property
    def overdue(self) -> bool:
        return self._over > OVERDUE

    async def pause(self) -> None:
        """Who sends too much is heard more slowly: nothing of it is dropped."""
        if self._left < 0:
            await asyncio.sleep(-self._left / RATE)
