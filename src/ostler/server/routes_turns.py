"""Turns over HTTP: start, look, cancel, and what they left."""

import hashlib
import os
from typing import Annotated, Any, Literal

import msgspec
from litestar import Response, Router, get, post
from litestar.params import HeaderParameter
from litestar.types import ASGIApp
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from ostler.errors import OstlerError
from ostler.server.live import Live
from ostler.server.people import Person, require
from ostler.server.routes_sessions import Body, Name, Text, check_text
from ostler.server.streams import FileAnswer
from ostler.server.uploads import Uploads
from ostler.server.views import TurnView, turn_view
from ostler.settings import Settings
from ostler.store.files import open_beneath, session_folder
from ostler.store.once import Once
from ostler.words import Access, Attachment, Envelope, Limits, Session, TurnRow
from ostler.work import Ostler
from ostler.work.begin import begin
from ostler.work.servers import servers_of
from ostler.work.wishes import Wishes

# What we write ourselves, and know to be text; all else is downloaded as bytes.
TEXTS = frozenset(("prompt", "stdout", "stderr", "events", "diff", "structured"))
IN_LINE = 100  # turns that may wait for one session
_LONG = 100_000  # characters of a prompt in a list

Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]


class TurnLimits(Body, frozen=True, kw_only=True):
    """Seconds and dollars. What is left out is as in the settings; null is no limit."""

    first_record: Seconds | UnsetType | None = UNSET
    idle: Seconds | UnsetType | None = UNSET
    total: Seconds | UnsetType | None = UNSET
    retry: Seconds | UnsetType | None = UNSET
    linger: Seconds | UnsetType = UNSET
    cost_usd: Annotated[float, Meta(gt=0, le=1e9)] | UnsetType | None = UNSET


class AttachmentWish(Body, frozen=True, kw_only=True):
    """One of: `upload` (an id), `path` (relative to the session's folder), or `name` and `content` (text)."""

    upload: str | None = None
    path: Annotated[str, Meta(max_length=4096)] | None = None
    name: Annotated[str, Meta(max_length=255)] | None = None
    content: str | None = None


class NewTurn(Body, frozen=True, kw_only=True):
    """`wait`: a busy session queues it. `command`: the prompt is a slash command of the agent, not text.

    `transport`: in a `dialog` the agent can ask before it acts, and somebody answers. `mode`: one of the
    agent's own in a dialog; it never widens the access. `mcp`: names of MCP servers of
    the server's settings, which alone say what is run.
    """

    prompt: Annotated[str, Meta(min_length=1)]
    access: Access | None = None
    model: Name | None = None
    system: Text | None = None
    attachments: Annotated[tuple[AttachmentWish, ...], Meta(max_length=100)] = ()
    schema: dict[str, Any] | None = None
    limits: TurnLimits | None = None
    wait: bool = False
    command: bool = False
    transport: Literal["pipe", "dialog"] = "pipe"
    mode: Name | None = None
    mcp: Annotated[tuple[Name, ...], Meta(max_length=100)] | None = None


class TurnList(Struct, frozen=True, kw_only=True):
    items: list[TurnView]


class ArtifactView(Struct, frozen=True, kw_only=True):
    name: str
    size: int
    media_type: str


class ArtifactList(Struct, frozen=True, kw_only=True):
    items: list[ArtifactView]


# -- of a session -----------------------------------------------------------------------------------


@get("/api/sessions/{session:str}/turns", summary="Its turns, in the order in which they came")
async def list_turns(ostler: Ostler, session: str) -> TurnList:
    """Prompts are cut after 100,000 characters here."""
    return TurnList(items=[turn_view(row, _LONG) for row in ostler.store.turns(ostler.find(session).id)])


@post(
    "/api/sessions/{session:str}/turns",
    summary="Starts a turn; answers once it is committed",
    status_code=202,
    also={200: "The same Idempotency-Key has started this turn before"},
    problems=(403, 409, 422, 424, 429),
)
async def start_turn(
    ostler: Ostler,
    watcher: Live,
    person: Person,
    uploads: Uploads,
    session: str,
    data: NewTurn,
    idempotency_key: Annotated[
        str | None,
        HeaderParameter(
            name="Idempotency-Key",
            max_length=200,
            pattern=r"^[\x21-\x7e]+$",
            description="The same key for the same request: it starts one turn, however often it is sent",
        ),
    ] = None,
) -> Response[TurnView]:
    """A busy session is an error (409), unless `wait` is true: then the turn is queued."""
    require(person, "type")
    check_text(data.system)
    live = await ostler.session(session=session)
    if data.wait and watcher.watch.queued().get(live.id, 0) >= IN_LINE:
        raise OstlerError("too_many", f"{IN_LINE} turns wait for session {live.id} already", "Wait, or cancel some")
    wishes = Wishes(
        prompt=data.prompt,
        access=data.access,
        model=data.model,
        system=data.system,
        attachments=[_attachment(wish, uploads, live.row.folder) for wish in data.attachments],
        schema=data.schema,
        limits=_limits(data.limits, ostler.settings, live.row),
        command=data.command,
        transport=data.transport,
        mode=data.mode,
        mcp=servers_of(data.mcp, ostler.settings) if data.mcp is not None else None,
    )
    once = Once(key=idempotency_key, digest=_digest(data)) if idempotency_key is not None else None
    begun = await begin(live, wishes, wait=data.wait, once=once)
    return Response(turn_view(begun.row), status_code=200 if begun.repeated else 202)


def _attachment(wish: AttachmentWish, uploads: Uploads, folder: str) -> Attachment:
    match wish:
        case AttachmentWish(upload=str(id), path=None, name=None, content=None):
            return Attachment(path=str(uploads.path(id)))
        case AttachmentWish(upload=None, path=str(path), name=None, content=None):
            os.close(open_beneath(folder, path))
            return Attachment(path=os.path.join(folder, path))
        case AttachmentWish(upload=None, path=None, name=str(name), content=str(content)):
            return Attachment(name=name, content=content)
    raise OstlerError("bad_request", "this attachment is not understood", "Give upload, or path, or name and content")


def _limits(wish: TurnLimits | None, settings: Settings, session: Session) -> Limits | None:
    """What was given, over what holds for the session without it."""
    given = {name: value for name, value in structs.asdict(wish).items() if value is not UNSET} if wish else {}
    profile = settings.profiles.get(session.profile or "")
    return structs.replace((profile and profile.limits) or settings.limits, **given) if given else None


def _digest(data: NewTurn) -> str:
    return hashlib.sha256(msgspec.json.encode(data, order="sorted")).hexdigest()


# -- one turn ---------------------------------------------------------------------------------------


@get("/api/turns/{turn:str}", summary="One turn")
async def get_turn(ostler: Ostler, turn: str) -> TurnView:
    return turn_view(ostler.find_turn(turn))


@post("/api/turns/{turn:str}/cancel", summary="Asks for its end; one that has ended stays as it is", status_code=202)
async def cancel_turn(ostler: Ostler, person: Person, turn: str) -> TurnView:
    require(person, "type")
    return turn_view(await ostler.cancel_turn(turn))


@get("/api/turns/{turn:str}/envelope", summary="Its result; not found until it has ended")
async def get_envelope(ostler: Ostler, turn: str) -> Envelope:
    return _envelope(ostler.find_turn(turn))


@get("/api/turns/{turn:str}/artifacts", summary="The files that it left; none until it has ended")
async def list_artifacts(ostler: Ostler, turn: str) -> ArtifactList:
    row = ostler.find_turn(turn)
    names = row.envelope.artifacts if row.envelope else ()
    return ArtifactList(items=[view for name in names if (view := _look(ostler, row, name)) is not None])


@get(
    "/api/turns/{turn:str}/artifacts/{name:str}",
    summary="One of its files, as a download",
    answers=("text/plain; charset=utf-8", "application/octet-stream"),
)
async def get_artifact(ostler: Ostler, turn: str, name: str) -> ASGIApp:
    row = ostler.find_turn(turn)
    fd = _open(ostler, row, name)
    return FileAnswer(fd, f"{row.id}-{os.path.basename(_envelope(row).artifacts[name])}", _media_type(name))


def _envelope(row: TurnRow) -> Envelope:
    if row.envelope is None:
        raise OstlerError("not_found", f"turn {row.id} has not ended yet", "Wait for its `ended` event")
    return row.envelope


def _look(ostler: Ostler, row: TurnRow, name: str) -> ArtifactView | None:
    try:
        fd = _open(ostler, row, name)
    except OstlerError:
        return None  # somebody has removed it
    try:
        return ArtifactView(name=name, size=os.fstat(fd).st_size, media_type=_media_type(name))
    finally:
        os.close(fd)


def _open(ostler: Ostler, row: TurnRow, name: str) -> int:
    """By the name in the envelope alone, and within the session's own folder, whatever lies there by now."""
    path = _envelope(row).artifacts.get(name)
    if path is None:
        known = ", ".join(sorted(_envelope(row).artifacts)) or "none"
        raise OstlerError("not_found", f"turn {row.id} left nothing called {name[:100]!r}", f"It left: {known}")
    folder = session_folder(ostler.store.folder, row.session)
    return open_beneath(folder, os.path.relpath(path, folder))


def _media_type(name: str) -> Literal["text/plain; charset=utf-8", "application/octet-stream"]:
    return "text/plain; charset=utf-8" if name in TEXTS else "application/octet-stream"


turns = Router(
    "/",
    tags=["turns"],
    route_handlers=[
        list_turns,
        start_turn,
        get_turn,
        cancel_turn,
        get_envelope,
        list_artifacts,
        get_artifact,
    ],
)
