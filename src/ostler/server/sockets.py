"""Viewers over WebSocket: of one terminal, or of whichever terminal is a session's primary one.

What is said is in `terminal/viewing.py`; here it is carried. A viewer that sends nonsense, or too much, is told so,
and let go when it goes on. Nothing is kept for one that does not read: its `send` waits, and so does `frames()`.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qs

from litestar import Router, WebSocket, websocket
from litestar.exceptions import WebSocketDisconnect

from ostler.errors import OstlerError
from ostler.server.people import Person
from ostler.terminal.lease import Author
from ostler.terminal.viewing import Frame, Refused, Viewing, read_said, read_told, told
from ostler.words import Problem
from ostler.work import Ostler

BURST = 2_000  # frames that a viewer may send at once,
RATE = 500  # and for ever, a second; beside one for each frame that it was sent
OVERDUE = 1_000  # frames over that limit, after which it is let go
NONSENSE = 20  # frames in a row that are not understood, after which it is let go
LAST_WORD = 2.0  # seconds to say goodbye to somebody who may not be reading

ENDED, BINARY, GARBAGE, TOO_MANY, BROKEN = 1000, 1003, 1007, 1008, 1011

Gone = (OSError, WebSocketDisconnect)  # what a send raises once the viewer has left


@websocket("/api/terminals/{terminal:str}/ws")
async def of_terminal(socket: WebSocket[Any, Any, Any], terminal: str, ostler: Ostler, person: Person) -> None:
    """`?offset=` goes on where an earlier connection ended; `?viewer=` is the same across reconnects."""

    async def view() -> Viewing:
        author, offset = author_of(person, _query(socket, "viewer")), _offset(socket)
        return await ostler.terminals.view(terminal, author, person.rights, offset)

    await _serve(socket, view)


@websocket("/api/sessions/{session:str}/terminal/ws")
async def of_session(socket: WebSocket[Any, Any, Any], session: str, ostler: Ostler, person: Person) -> None:
    async def follow() -> Viewing:
        return await ostler.terminals.follow(session, author_of(person, _query(socket, "viewer")), person.rights)

    await _serve(socket, follow)


sockets = Router("/", route_handlers=[of_terminal, of_session])


# -- who, and from where --------------------------------------------------------------------------------


def author_of(person: Person, viewer: str | None) -> Author:
    """Two windows of one person are told apart by the id that each has chosen."""
    if viewer and not re.fullmatch("[A-Za-z0-9]{8,40}", viewer):
        raise OstlerError("bad_request", "this is not the id of a viewer", "Give 8 to 40 letters and digits")
    return Author(name=person.name, kind="person", id=f"{person.id}:{viewer or ''}")


def _offset(socket: WebSocket[Any, Any, Any]) -> int | None:
    given = _query(socket, "offset")
    if given is None:
        return None
    if not re.fullmatch("[0-9]{1,18}", given):
        raise OstlerError("bad_request", f"{given[:40]!r} is no offset", "Give the offset of the last frame, or none")
    return int(given)


def _query(socket: WebSocket[Any, Any, Any], name: str) -> str | None:
    """By hand: what is wrong with it is told as a problem, not by a code of Litestar's own."""
    values = parse_qs(socket.scope["query_string"].decode("latin-1"), max_num_fields=20).get(name)
    return values[-1] if values else None


# -- one connection -------------------------------------------------------------------------------------


async def _serve(socket: WebSocket[Any, Any, Any], view: Callable[[], Awaitable[Viewing]]) -> None:
    """Accepted only when there is something to see: what is raised before is the answer to the handshake."""
    viewing = await view()
    try:
        await socket.accept()
        farewell = await Carried(socket, viewing).both_ways()
        if farewell is not None:
            async with asyncio.timeout(LAST_WORD):
                await socket.close(farewell.code, farewell.reason)
    except (*Gone, TimeoutError):
        pass
    finally:
        await viewing.close()


class Farewell(NamedTuple):
    code: int
    reason: str


class Carried:
    """Two pumps between one socket and one viewing; whichever ends first ends the other."""

    def __init__(self, socket: WebSocket[Any, Any, Any], viewing: Viewing) -> None:
        self._socket = socket
        self._viewing = viewing
        self._allowance = Allowance(time.monotonic)
        self._nonsense = 0

    async def both_ways(self) -> Farewell | None:
        """What is left to say; None to somebody who has left."""
        async with asyncio.TaskGroup() as pumps:
            telling = pumps.create_task(self._tell())
            hearing = pumps.create_task(self._hear())
            telling.add_done_callback(lambda _: hearing.cancel())
            hearing.add_done_callback(lambda _: telling.cancel())
        return hearing.result() if telling.cancelled() else telling.result()

    async def _tell(self) -> Farewell | None:
        last: Frame = ""
        try:
            async with aclosing(cast("AsyncGenerator[Frame, None]", self._viewing.frames())) as frames:
                async for frame in frames:
                    await self._send(frame)
                    self._allowance.earn()
                    last = frame
        except Gone:
            return None
        except OstlerError as error:
            last = _refusal(error)
            await self._send(last)
        return _end_of(last)

    async def _hear(self) -> Farewell | None:
        try:
            while (message := await self._socket.receive())["type"] == "websocket.receive":
                text = message.get("text")
                farewell = await self._heard(text if text is not None else message.get("bytes") or b"")
                if farewell is not None:
                    return farewell
        except Gone:
            pass
        return None

    async def _heard(self, frame: Frame) -> Farewell | None:
        if self._allowance.spend():
            await self._refuse(OstlerError("too_many", "too many frames", f"Send at most {RATE} a second"))
        if self._allowance.overdue:
            return Farewell(TOO_MANY, "too many frames")
        await self._allowance.pause()
        try:
            read_said(frame)
        except OstlerError as error:
            return await self._not_understood(frame, error)
        self._nonsense = 0
        self._viewing.hear(frame)
        return None

    async def _not_understood(self, frame: Frame, error: OstlerError) -> Farewell | None:
        self._nonsense += 1
        await self._refuse(error)
        if self._nonsense < NONSENSE:
            return None
        return Farewell(BINARY if isinstance(frame, bytes) else GARBAGE, f"{NONSENSE} frames were not understood")

    async def _refuse(self, error: OstlerError) -> None:
        """Awaited by the one who hears: who sends nonsense and does not read is no longer heard."""
        await self._send(_refusal(error))

    async def _send(self, frame: Frame) -> None:
        if isinstance(frame, str):
            await self._socket.send({"type": "websocket.send", "text": frame, "bytes": None})
        else:
            await self._socket.send({"type": "websocket.send", "bytes": frame, "text": None})


def _refusal(error: OstlerError) -> str:
    problem = Problem(kind=error.kind, message=error.message, hint=error.hint, retry_at=error.retry_at)
    return told(Refused(problem=problem))


def _end_of(last: Frame) -> Farewell:
    """A viewing ends by itself after `exit`; else its last frame says what is wrong."""
    message = read_told(last) if last else None
    if not isinstance(message, Refused):
        return Farewell(ENDED, "the terminal has ended")
    return Farewell(TOO_MANY if message.problem.kind == "too_many" else BROKEN, message.problem.kind)


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
