"""Sessions over HTTP: list, create, look, fork, follow another terminal, remove."""

import os
from typing import Annotated

from litestar import Router, delete, get, post, put
from litestar.params import Parameter, QueryParameter
from msgspec import Meta, Struct

from ostler.errors import OstlerError
from ostler.server.live import Live
from ostler.server.people import Person, require
from ostler.server.views import SessionView, session_view, session_views
from ostler.words import Access, Session, SessionState
from ostler.work import Ostler

MANY = 10_000

Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, Meta(max_length=100_000)]


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a request: a field that is not known is an error, not a wish that is passed over."""


class NewSession(Body, frozen=True, kw_only=True):
    """`agent` may be an agent, a model or a profile; `folder` an absolute path, or one that begins with `~/`."""

    agent: Name
    folder: Annotated[str, Meta(min_length=1, max_length=4096)]
    access: Access | None = None
    model: Name | None = None
    name: Name | None = None
    system: Text | None = None


class ForkWish(Body, frozen=True, kw_only=True):
    name: Name | None = None


class PrimaryWish(Body, frozen=True, kw_only=True):
    """None: the newest live terminal is followed again."""

    terminal: str | None


class SessionList(Struct, frozen=True, kw_only=True):
    items: list[SessionView]


@get("/", summary="Sessions, the last used first")
async def list_sessions(
    watcher: Live,
    text: Annotated[
        str, QueryParameter(name="query", max_length=200, description="part of its name, title, folder, agent or id")
    ] = "",
    in_state: Annotated[SessionState | None, QueryParameter(name="state")] = None,
    limit: Annotated[int, Parameter(ge=1, le=MANY)] = 500,
) -> SessionList:
    rows = watcher.watch.newest_sessions(-1 if text or in_state else limit)
    found = [row for row in rows if in_state in (None, row.state) and _holds(row, text.casefold())]
    return SessionList(items=session_views(watcher.watch, found[:limit]))


@post("/", summary="A new session; its first turn comes later", problems=(404, 409))
async def create_session(ostler: Ostler, watcher: Live, person: Person, data: NewSession) -> SessionView:
    require(person, "type")
    check_text(data.system)
    made = await ostler.session(
        data.agent,
        folder=_absolute(data.folder, ostler.setup.home),
        name=data.name,
        model=data.model,
        access=data.access,
        system=data.system,
    )
    return session_view(watcher.watch, await made.keep())


@get("/{session:str}", summary="One session, by its id, its name or the beginning of its id")
async def get_session(ostler: Ostler, watcher: Live, session: str) -> SessionView:
    return session_view(watcher.watch, ostler.find(session))


@delete("/{session:str}", summary="Ends its terminals, and removes it with its journal and files", problems=(409,))
async def remove_session(ostler: Ostler, person: Person, session: str) -> None:
    require(person, "admin")
    await ostler.remove(session)


@post("/{session:str}/fork", summary="A new session that begins as a copy of this one", problems=(409, 422))
async def fork_session(ostler: Ostler, watcher: Live, person: Person, session: str, data: ForkWish) -> SessionView:
    require(person, "type")
    forked = await (await ostler.session(session=session)).fork(data.name)
    return session_view(watcher.watch, forked.row)


@put("/{session:str}/primary", summary="Chooses the terminal that is followed")
async def set_primary(ostler: Ostler, watcher: Live, person: Person, session: str, data: PrimaryWish) -> SessionView:
    require(person, "type")
    row = ostler.find(session)
    await ostler.terminals.set_primary(row.id, data.terminal)
    return session_view(watcher.watch, ostler.find(row.id))


def check_text(text: str | None) -> None:
    if text is not None and "\0" in text:
        raise OstlerError("bad_request", "a system prompt cannot contain a NUL character")


def _holds(row: Session, query: str) -> bool:
    return any(query in part.casefold() for part in (row.name or "", row.title, row.folder, row.agent, row.id))


def _absolute(folder: str, home: str) -> str:
    """A relative path would mean the place where the server happens to run."""
    path = os.path.join(home, folder[2:]) if folder.startswith("~/") else home if folder == "~" else folder
    if not os.path.isabs(path):
        raise OstlerError("bad_request", f"{folder!r} is no absolute path", "Write it from / or ~/ on")
    return path


sessions = Router(
    "/api/sessions",
    tags=["sessions"],
    route_handlers=[list_sessions, create_session, get_session, remove_session, fork_session, set_primary],
)
