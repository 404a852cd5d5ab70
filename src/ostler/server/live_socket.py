"""All that a page follows over one WebSocket: the rows of /api/live, and the journals that it asks for.

A browser opens six connections to a host and no more, event streams among them: with two streams a tab the third
window could do nothing at all. WebSockets do not count there, so a page needs only one of them, and no other stream.

Every message is a piece of one event stream, below a line with its number: 0 are the rows, the others were chosen by
the page. A long one is packed, and binary. Nothing is kept for a page that does not read: its `send` waits, and so does
whatever would be sent next.
"""

import asyncio
import zlib
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ostler import clock
from ostler.errors import OstlerError
from ostler.server.auth import Person
from ostler.server.live import Live
from ostler.server.problems import answer_to
from ostler.server.replies import HEARTBEAT, frame
from ostler.server.routes_events import LAST
from ostler.server.routes_meta import About, me_of
from ostler.server.routing import Routes, WebSocket
from ostler.server.sockets import BROKEN, DISCONNECTED, ENDED, GARBAGE, LAST_WORD, TOO_MANY, Allowance, SocketClose
from ostler.work import Ostler

MOST = 16  # journals that one page may follow at a time
LONG = 8 * 1024  # bytes of a message that is worth packing
ROWS = 0
EVERY = 3.0  # seconds of silence, then a heartbeat: a page that hears none for 9 says that the server is away

Number = Annotated[int, Meta(ge=1, le=LAST)]


class Follow(Struct, frozen=True, kw_only=True, tag_field="kind", tag="follow", forbid_unknown_fields=True):
    """A journal beyond `after`, from now on as stream `n`."""

    n: Number
    session: Annotated[str, Meta(min_length=1, max_length=200)]
    after: Annotated[int, Meta(ge=0, le=LAST)] = 0


class Leave(Struct, frozen=True, kw_only=True, tag_field="kind", tag="leave", forbid_unknown_fields=True):
    """Stream `n` is not wanted any more."""

    n: Number


JournalRequest = Follow | Leave

_read = msgspec.json.Decoder(JournalRequest).decode

live_sockets = Routes("live")


@live_sockets("WEBSOCKET /api/live/ws", "All of /api/live, and the journals that are asked for", hears=JournalRequest)
async def live(socket: WebSocket, ostler: Ostler, watcher: Live, person: Person, about: About) -> None:
    watcher.check()  # what is raised before it is accepted is the answer to the handshake
    hello = frame("hello", msgspec.json.encode(me_of(person, ostler, about)))
    await socket.accept()
    try:
        closing = await Following(socket, ostler, watcher, person).until_over(hello)
        if closing is not None:
            async with asyncio.timeout(LAST_WORD):
                await socket.close(closing.code, closing.reason)
    except (*DISCONNECTED, TimeoutError):
        pass  # nobody is left to be told anything


class Following:
    """One page: a task for the rows, one for each journal, and one that hears what is asked for."""

    def __init__(self, socket: WebSocket, ostler: Ostler, watcher: Live, person: Person) -> None:
        self._socket, self._ostler, self._watcher, self._person = socket, ostler, watcher, person
        self._journals: dict[int, asyncio.Task[None]] = {}
        self._sending = asyncio.Lock()
        self._allowance = Allowance(clock.monotonic)

    async def until_over(self, hello: bytes) -> SocketClose | None:
        """What is left to say; None to somebody who has left."""
        over: asyncio.Future[SocketClose | None] = asyncio.get_running_loop().create_future()

        async def end_with(part: Any) -> None:
            closing = await part
            if not over.done():
                over.set_result(closing)

        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(end_with(part)) for part in (self._rows(hello), self._receive_requests(group))]
            try:
                return await over
            finally:
                for task in (*parts, *self._journals.values()):
                    task.cancel()

    async def _rows(self, hello: bytes) -> SocketClose | None:
        try:
            await self._send(ROWS, hello)
            async with aclosing(self._watcher.rows(frame("ready", b"{}"), EVERY, own=bool(self._person.via))) as pieces:
                async for piece in pieces:
                    await self._send(ROWS, piece)
        except DISCONNECTED:
            return None
        except OstlerError as error:
            await self._send_last(ROWS, "trouble", answer_to(error))
            return SocketClose(BROKEN, error.kind)
        return SocketClose(ENDED, "start over")

    async def _receive_requests(self, group: asyncio.TaskGroup) -> SocketClose | None:
        try:
            while (message := await self._socket.receive())["type"] == "websocket.receive":
                self._allowance.spend()
                if self._allowance.overdue:
                    return SocketClose(TOO_MANY, "too many frames")
                await self._allowance.pause()
                self._handle(_read(message.get("text") or message.get("bytes") or b""), group)
        except (msgspec.DecodeError, UnicodeError):
            return SocketClose(GARBAGE, "the message was not valid")
        except DISCONNECTED:
            pass  # the page has left
        return None

    def _handle(self, request: JournalRequest, group: asyncio.TaskGroup) -> None:
        before = self._journals.pop(request.n, None)
        if before is not None:
            before.cancel()
        if isinstance(request, Follow):
            task = group.create_task(self._journal(request, too_many=len(self._journals) >= MOST))
            self._journals[request.n] = task
            task.add_done_callback(lambda _: self._forget(request.n, task))

    def _forget(self, n: int, task: "asyncio.Task[None]") -> None:
        if self._journals.get(n) is task:
            del self._journals[n]

    async def _journal(self, request: Follow, too_many: bool) -> None:
        """Its end is told too: `over` where the session is gone, `refused` where it cannot be followed."""
        try:
            if too_many:
                raise OstlerError(
                    "too_many", f"a page may follow {MOST} journals at a time", "Stop following one of them"
                )
            await self._pass_on(request.n, await self._events(request))
            await self._send_last(request.n, "over", {})
        except OstlerError as error:
            await self._send_last(request.n, "refused", answer_to(error))
        except DISCONNECTED:
            pass  # the one who hears knows it too

    async def _events(self, request: Follow) -> AsyncGenerator[bytes, None]:
        remote = self._watcher.remote_sessions
        if remote is not None and not self._person.via:
            far = await remote.journal(request.session, request.after, self._person)
            if far is not None:
                return far
        return self._watcher.events(self._ostler.find(request.session).id, request.after)

    async def _pass_on(self, n: int, pieces: AsyncGenerator[bytes, None]) -> None:
        async with aclosing(pieces):
            async for piece in pieces:
                if piece != HEARTBEAT:  # the rows have theirs
                    await self._send(n, piece)

    async def _send_last(self, n: int, kind: str, data: Any) -> None:
        with suppress(*DISCONNECTED):  # the page has left, and needs no last word
            await self._send(n, frame(kind, msgspec.json.encode(data)))

    async def _send(self, n: int, piece: bytes) -> None:
        self._allowance.earn()
        data = b"%d\n%b" % (n, piece)
        packed = zlib.compress(data, 1) if len(data) > LONG else None
        text = None if packed else data.decode()
        async with self._sending:
            await self._socket.send({"type": "websocket.send", "text": text, "bytes": packed})
