"""Journals, and what happens on the whole server: as pages of JSON, or live."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

import msgspec
from litestar import Request, Router, get
from litestar.params import HeaderParameter, Parameter
from litestar.types import ASGIApp
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.server.live import Live
from ostler.server.people import Person
from ostler.server.routes_meta import About, me_of
from ostler.server.streams import MEDIA_TYPE, Bytes, EventStream, frame
from ostler.store.watch import Stored
from ostler.words import AnyEvent
from ostler.work import Ostler

MOST = 10_000  # events of a page
_MOST_BYTES = 16 << 20
_AT_ONCE = 500  # events that are read before others have their turn
LAST = (1 << 53) - 1  # every client can count so far

Seq = Annotated[int, Parameter(ge=0, le=LAST, description="only what comes after the event of this seq")]


class EventPage(Struct, frozen=True, kw_only=True):
    """`last` is where to go on: `after=last`. A page may have fewer events than its limit when they are long."""

    items: list[AnyEvent]
    last: int


@get(
    "/api/sessions/{session:str}/events",
    summary="Its journal, as a page or as a stream",
    answers=("application/json", MEDIA_TYPE),
    answer_type=EventPage,
    stream_of=AnyEvent,
)
async def get_events(
    ostler: Ostler,
    watcher: Live,
    session: str,
    request: Request[Any, Any, Any],
    after: Seq = 0,
    limit: Annotated[int, Parameter(ge=1, le=MOST)] = 1000,
    last_event_id: Annotated[
        str | None,
        HeaderParameter(name="Last-Event-ID", max_length=20, pattern=r"^\d*$", description="Instead of `after`"),
    ] = None,
) -> ASGIApp:
    """With `Accept: text/event-stream` all events from then on, as they come: `id` is the seq, `event` the kind.

    A comment comes every 15 seconds when there is nothing to tell. The stream ends when the session is removed.
    """
    id = ostler.find(session).id
    if last_event_id:
        after = int(last_event_id)
        if after > LAST:
            raise OstlerError("bad_request", "Last-Event-ID is no seq of an event")
    if wants_stream(request.headers.get("accept", "")):
        return EventStream(watcher.events(id, after))
    return Bytes(await page(watcher, id, after, limit), "application/json")


@get("/api/live", summary="All sessions and terminals, and whatever changes", answers=(MEDIA_TYPE,))
async def get_live(ostler: Ostler, watcher: Live, person: Person, about: About) -> ASGIApp:
    """Server-sent events: `hello`, then `session` and `terminal` for each that there is, `ready`, then changes.

    `session` and `terminal` tell a row as it is now, ten times a second at most; `gone` tells {what, id}. At first
    the 500 sessions that were used last are told, all live terminals, and the 1000 newest that have ended.
    """
    hello = frame("hello", msgspec.json.encode(me_of(person, ostler, about)))
    return EventStream(_with(hello, watcher.rows(frame("ready", b"{}"))))


async def page(watcher: Live, session: str, after: int, limit: int) -> bytes:
    """As they are stored, without reading them: they are JSON already."""
    found: list[Stored] = []
    room = _MOST_BYTES
    while limit > len(found) and room > 0:
        more = watcher.watch.journal(session, after, min(_AT_ONCE, limit - len(found)), room)
        found += more
        if len(more) < _AT_ONCE:
            break
        after = more[-1][0]
        room -= sum(len(body) for _, body in more)
        await asyncio.sleep(0)
    last = found[-1][0] if found else after
    return b'{"items":[%b],"last":%d}' % (b",".join(body for _, body in found), last)


def wants_stream(accept: str) -> bool:
    return any(part.partition(";")[0].strip().lower() == MEDIA_TYPE for part in accept.split(","))


async def _with(first: bytes, frames: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    yield first
    async with aclosing(frames):
        async for data in frames:
            yield data


events = Router("/", tags=["events"], route_handlers=[get_events, get_live])
