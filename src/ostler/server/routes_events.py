"""Journals, and what happens on the whole server: as pages of JSON, or live."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ostler.errors import OstlerError
from ostler.model import AnyEvent, TerminalRow
from ostler.server.auth import Person
from ostler.server.live import Live
from ostler.server.live_index import Removed
from ostler.server.problems import ProblemAnswer
from ostler.server.replies import EVENT_STREAM, JSON, EventStream, Reply, frame
from ostler.server.routes_meta import About, Me, me_of
from ostler.server.routing import Header, Request, Routes
from ostler.server.run_views import RunView
from ostler.server.views import SessionView
from ostler.store.watch import Stored
from ostler.work import Ostler

MOST = 10_000  # events of a page
_MOST_BYTES = 16 << 20
_AT_ONCE = 500  # events that are read before others have their turn
LAST = (1 << 53) - 1  # every client can count so far

Seq = Annotated[int, Meta(ge=0, le=LAST, description="only what comes after the event of this seq")]
BeforeSeq = Annotated[
    int, Meta(ge=0, le=LAST, description="the last events before this seq; the newest if it is large")
]
LastEventId = Annotated[str, Meta(max_length=20, pattern=r"^\d*$", description="Instead of `after`")]

events = Routes("events")


class LiveReady(Struct, frozen=True):
    """Everything that was there has been told."""


LIVE_EVENTS = {
    "hello": Me,
    "session": SessionView,
    "terminal": TerminalRow,
    "run": RunView,
    "gone": Removed,
    "ready": LiveReady,
    "trouble": ProblemAnswer,
}


class EventPage(Struct, frozen=True, kw_only=True):
    """`last` is where to go on: `after=last`. A page may have fewer events than its limit when they are long.

    A page that was asked for by `before` goes on with `before` the seq of its first event, until it is empty.
    """

    items: list[AnyEvent]
    last: int


@events(
    "GET /api/sessions/{session}/events",
    "Its journal, as a page or as a stream",
    media_types=(JSON, EVENT_STREAM),
    answer=EventPage,
    stream_of=AnyEvent,
)
async def get_events(
    ostler: Ostler,
    watcher: Live,
    session: str,
    request: Request,
    after: Seq = 0,
    before: BeforeSeq | None = None,
    limit: Annotated[int, Meta(ge=1, le=MOST)] = 1000,
    last_event_id: Annotated[LastEventId | None, Header("Last-Event-ID")] = None,
) -> EventStream | Reply:
    """With `Accept: text/event-stream` all events from then on, as they come: `id` is the seq, `event` the kind.

    A comment comes every 15 seconds when there is nothing to tell. The stream ends when the session is removed, and
    after `trouble` (a problem as in every error's answer) when the server cannot know what there is to tell.
    """
    id = ostler.find(session).id
    if last_event_id:
        after = int(last_event_id)
        if after > LAST:
            raise OstlerError("bad_request", "Last-Event-ID is not the seq of an event")
    if before is not None and (after or last_event_id):
        raise OstlerError("bad_request", "`before` and `after` cannot be combined", "Give one of them")
    if wants_stream(request.header("accept")):
        if before is not None:
            raise OstlerError("bad_request", "a stream cannot go backwards", "Give `after` instead of `before`")
        watcher.check()
        return EventStream(watcher.events(id, after))
    found = await (older if before is not None else newer)(watcher, id, after if before is None else before, limit)
    return Reply(_page(found, after))


@events(
    "GET /api/live",
    "All sessions, terminals and runs of pipelines, and whatever changes",
    media_types=(EVENT_STREAM,),
    stream_of=LIVE_EVENTS,
)
async def get_live(ostler: Ostler, watcher: Live, person: Person, about: About) -> EventStream:
    """Server-sent events: `hello`, then `session`, `terminal` and `run` for each that there is, `ready`, then changes.

    Each tells a row as it is now, ten times a second at most; `gone` tells {what, id}. At first the 500 sessions that
    were used last are told, all live terminals, the 1000 newest that have ended, and the 200 newest runs. `trouble`
    (a problem as in every error's answer) is the last event when the server cannot know what changes.
    """
    watcher.check()
    hello = frame("hello", msgspec.json.encode(me_of(person, ostler, about)))
    return EventStream(_with(hello, watcher.rows(frame("ready", b"{}"), own=bool(person.via))))


async def newer(watcher: Live, session: str, after: int, limit: int) -> list[Stored]:
    """As they are stored, without reading them: they are JSON already."""
    found: list[Stored] = []
    room = _MOST_BYTES
    while limit > len(found) and room > 0:
        more = watcher.watch.journal(session, after, min(_AT_ONCE, limit - len(found)), room)
        found += more
        if len(more) < _AT_ONCE:
            break
        after = more[-1][0]
        room -= _size(more)
        await asyncio.sleep(0)
    return found


async def older(watcher: Live, session: str, before: int, limit: int) -> list[Stored]:
    """The last ones before `before`, in order."""
    parts: list[list[Stored]] = []
    count, room = 0, _MOST_BYTES
    while limit > count and room > 0:
        part = watcher.watch.journal_before(session, before, min(_AT_ONCE, limit - count), room)
        parts.append(part)
        count += len(part)
        if len(part) < _AT_ONCE:
            break
        before = part[0][0]
        room -= _size(part)
        await asyncio.sleep(0)
    return [stored for part in reversed(parts) for stored in part]


def _size(events: list[Stored]) -> int:
    return sum(len(body) for _, body in events)


def _page(found: list[Stored], after: int) -> bytes:
    return b'{"items":[%b],"last":%d}' % (b",".join(body for _, body in found), found[-1][0] if found else after)


def wants_stream(accept: str) -> bool:
    return any(part.partition(";")[0].strip().lower() == EVENT_STREAM for part in accept.split(","))


async def _with(first: bytes, frames: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    yield first
    async with aclosing(frames):
        async for data in frames:
            yield data
