"""Sessions over HTTP: list, create, look, rename, fork, move, follow another terminal, close, remove."""

import os
from typing import Annotated

from msgspec import Meta, Struct

from ostler.access import Access
from ostler.errors import OstlerError, quoted
from ostler.model import SessionState, SystemMode, TransportName, TurnOptions
from ostler.server.auth import Person
from ostler.server.live import Live
from ostler.server.remote_sessions import RemoteSessions, SessionFilter
from ostler.server.replies import Reply
from ostler.server.request_body import RequestBody
from ostler.server.routing import Routes
from ostler.server.session_placement import PLACEMENT
from ostler.server.views import SessionView, session_view, session_views
from ostler.work import Ostler
from ostler.work.sessions.filters import mentions
from ostler.work.sessions.moving import MidTurn
from ostler.work.turns.begin import begin

MANY = 10_000

Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Model = Annotated[str, Meta(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$")]  # an ARN is long
LongText = Annotated[str, Meta(max_length=100_000)]
Query = Annotated[str, Meta(max_length=200, description="part of its name, title, folder, agent or id")]

sessions = Routes("sessions")


class NewSession(RequestBody, frozen=True, kw_only=True):
    """`agent` may be an agent, a model or a profile; `folder` an absolute path, or one that begins with `~/`.

    On a machine that has joined others, `machine` (a name, or `any`), `labels` (it has all of them) and `repo` (it has
    a folder of that remote, which is used where `folder` is left out) say where the session goes; else it is here.
    """

    agent: Model
    folder: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    machine: Name | None = None
    labels: Annotated[tuple[Name, ...], Meta(max_length=20)] | None = None
    repo: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    access: Access | None = None
    model: Model | None = None
    name: Name | None = None
    system: LongText | None = None
    system_mode: SystemMode | None = None
    transport: TransportName | None = None


class ForkRequest(RequestBody, frozen=True, kw_only=True):
    name: Name | None = None


class RenameRequest(RequestBody, frozen=True, kw_only=True):
    """None: it has no name any more."""

    name: Name | None


class HandRequest(RequestBody, frozen=True, kw_only=True):
    """`agent` may be a profile. `wait`: a quota that is used up is waited for."""

    agent: Name
    prompt: LongText = ""
    name: Name | None = None
    wait: bool = False


class MoveRequest(RequestBody, frozen=True, kw_only=True):
    """`mid_turn`: what becomes of a turn that runs. `wait`: it goes on, and the session moves when it has ended."""

    transport: TransportName
    mid_turn: MidTurn | None = None


class PrimaryTerminalRequest(RequestBody, frozen=True, kw_only=True):
    """None: the newest live terminal is followed again."""

    terminal: str | None


class SessionList(Struct, frozen=True, kw_only=True):
    items: list[SessionView]


@sessions("GET /api/sessions", "Sessions of all machines, the last used first")
async def list_sessions(
    watcher: Live,
    person: Person,
    remote_sessions: RemoteSessions | None,
    query: Query = "",
    state: SessionState | None = None,
    limit: Annotated[int, Meta(ge=1, le=MANY)] = 500,
) -> SessionList:
    rows = watcher.watch.newest_sessions(-1 if query or state else limit)
    found = [row for row in rows if state in (None, row.state) and mentions(row, query)]
    views = session_views(watcher.watch, found[:limit])
    if remote_sessions is not None and not person.via:
        far = await remote_sessions.listed(person, SessionFilter(query=query, state=state, limit=limit))
        views += [view for view in far if state in (None, view.state) and mentions(view, query)]
        views.sort(key=lambda view: view.used_at, reverse=True)
    return SessionList(items=views[:limit])


@sessions("POST /api/sessions", "A new session; its first turn comes later", problems=(404, 409, 422))
async def create_session(ostler: Ostler, watcher: Live, data: NewSession) -> SessionView:
    if any(getattr(data, name) is not None for name in PLACEMENT):  # a front door has taken them out
        hint = "Leave out machine, labels and repo, or start it with: ostler up --join URL"
        raise OstlerError("unsupported", "this server has not joined other machines", hint)
    if data.folder is None:
        raise OstlerError("bad_request", "a new session needs a folder", "Give `folder`, or `repo` at a front door")
    made = await ostler.session(
        data.agent,
        folder=absolute(data.folder, ostler.setup.home),
        name=data.name,
        model=data.model,
        access=data.access,
        system=data.system,
        system_mode=data.system_mode,
        transport=data.transport,
    )
    return session_view(watcher.watch, await made.keep())


@sessions("GET /api/sessions/{session}", "One session, by its id, its name or the beginning of its id")
async def get_session(ostler: Ostler, watcher: Live, session: str) -> SessionView:
    return session_view(watcher.watch, ostler.find(session))


@sessions(
    "DELETE /api/sessions/{session}", "Ends its terminals, and removes it with its journal and files", problems=(409,)
)
async def remove_session(ostler: Ostler, session: str) -> None:
    await ostler.remove(session)


@sessions(
    "POST /api/sessions/{session}/close",
    "Ends its turns, processes and terminals, and keeps its record",
    status=200,
    problems=(409,),
)
async def close_session(ostler: Ostler, watcher: Live, session: str) -> SessionView:
    """A closed session accepts no more turns. One that is closed already stays as it is."""
    return session_view(watcher.watch, await ostler.close_session(session))


@sessions("PUT /api/sessions/{session}/name", "Gives it another name", problems=(409,))
async def rename_session(ostler: Ostler, watcher: Live, session: str, data: RenameRequest) -> SessionView:
    return session_view(watcher.watch, await ostler.rename(session, data.name))


@sessions("POST /api/sessions/{session}/fork", "A new session that begins as a copy of this one", problems=(409, 422))
async def fork_session(ostler: Ostler, watcher: Live, session: str, data: ForkRequest) -> SessionView:
    forked = await (await ostler.session(session=session)).fork(data.name)
    return session_view(watcher.watch, forked.row)


@sessions(
    "POST /api/sessions/{session}/hand",
    "Hands it over to another agent: a new session, whose first turn continues its work",
    problems=(409, 422, 424, 429),
)
async def hand_session(ostler: Ostler, watcher: Live, session: str, data: HandRequest) -> SessionView:
    """The first prompt says what was asked and done, the plan, and what changed; `prompt` what to do next."""
    live, prompt = await ostler.hand(session, data.agent, data.prompt, data.name)
    await begin(live, prompt, TurnOptions(), wait=data.wait)
    return session_view(watcher.watch, ostler.find(live.id))


@sessions(
    "POST /api/sessions/{session}/move",
    "Its next turns have another transport, in the same conversation",
    status=200,
    answer=SessionView,
    also={202: "A turn is running: the session moves when it has ended"},
    problems=(409, 422),
)
async def move_session(ostler: Ostler, watcher: Live, session: str, data: MoveRequest) -> Reply:
    """Busy (409) while a turn runs or a person has the keyboard of the agent's screen, unless `mid_turn` says more."""
    row = ostler.find(session)
    try:
        mid_turn = data.mid_turn if data.mid_turn != "wait" else None
        moved = await ostler.move(row.id, data.transport, mid_turn)
    except OstlerError as error:
        if error.kind != "busy" or data.mid_turn != "wait":
            raise
        ostler.turns.own(_move_later(ostler, row.id, data.transport))
        return Reply(session_view(watcher.watch, row), status=202)
    return Reply(session_view(watcher.watch, moved))


async def _move_later(ostler: Ostler, session: str, transport: TransportName) -> None:
    await ostler.move(session, transport, "wait")


@sessions("PUT /api/sessions/{session}/primary", "Chooses the terminal that is followed")
async def set_primary(ostler: Ostler, watcher: Live, session: str, data: PrimaryTerminalRequest) -> SessionView:
    row = ostler.find(session)
    await ostler.terminals.set_primary(row.id, data.terminal)
    return session_view(watcher.watch, ostler.find(row.id))


def absolute(folder: str, home: str) -> str:
    """A relative path would mean the place where the server happens to run."""
    path = os.path.join(home, folder[2:]) if folder.startswith("~/") else home if folder == "~" else folder
    if not os.path.isabs(path):
        raise OstlerError("bad_request", f"{quoted(folder)} is not an absolute path", "Begin it with / or ~/")
    return path
