"""Turns over HTTP: start, look, cancel, and what they left."""

import hashlib
import os
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from ostler.errors import OstlerError, quoted
from ostler.model import PRIORITIES, Attachment, Envelope, Limits, SignalName, TransportName, TurnOptions, TurnRow
from ostler.server.live import Live
from ostler.server.replies import FileReply, Reply
from ostler.server.request_body import RequestBody
from ostler.server.routes_sessions import LongText, Model, Name
from ostler.server.routing import Header, Routes
from ostler.server.uploads import Uploads
from ostler.server.views import TurnView, turn_view
from ostler.store.beneath import open_beneath
from ostler.store.files import session_folder
from ostler.store.once import Once
from ostler.work import LiveSession, Ostler
from ostler.work.transports.choose import best_transport
from ostler.work.turns.begin import begin
from ostler.work.turns.options import limits_of
from ostler.work.turns.setup import server_of

# What we write ourselves, and know to be text; all else is downloaded as bytes.
TEXTS = frozenset(("prompt", "stdout", "stderr", "events", "diff", "structured"))
IN_LINE = 100  # turns that may wait for one session
_LONG = 100_000  # characters of a prompt in a list

Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
IdempotencyKey = Annotated[
    str,
    Meta(
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="The same key for the same request: it starts one turn, however often it is sent",
    ),
]

turns = Routes("turns")


class TurnLimits(RequestBody, frozen=True, kw_only=True):
    """Seconds and dollars. What is left out is as in the settings; null is no limit."""

    first_record: Seconds | UnsetType | None = UNSET
    idle: Seconds | UnsetType | None = UNSET
    total: Seconds | UnsetType | None = UNSET
    retry: Seconds | UnsetType | None = UNSET
    linger: Seconds | UnsetType = UNSET
    cost_usd: Annotated[float, Meta(gt=0, le=1e9)] | UnsetType | None = UNSET


class AttachmentRequest(RequestBody, frozen=True, kw_only=True):
    """One of: `upload` (an id), `path` (relative to the session's folder), or `name` and `content` (text).

    `type`: the media type of a file, such as image/png, where its first bytes do not tell.
    """

    upload: str | None = None
    path: Annotated[str, Meta(max_length=4096)] | None = None
    type: Annotated[str, Meta(max_length=100)] = ""
    name: Annotated[str, Meta(max_length=255)] | None = None
    content: str | None = None


class NewTurn(RequestBody, TurnOptions, frozen=True, kw_only=True):
    """`wait`: a busy session queues it. `command`: the prompt is a slash command of the agent, not text.

    `transport`: in a `dialog` the agent can ask before it acts, and somebody answers; `auto` is what the session was
    moved to, else a dialog where the agent holds them, else a pipe; `visible` is the agent's own command, `pty` its
    own screen, in a terminal of the session. `mode`: one of the agent's own in a dialog; it never widens the access.
    `mcp`: names of MCP servers of the settings of the session's folder, which alone say what is run. `env`:
    variables that the agent gets; the store keeps their names alone.
    """

    prompt: Annotated[str, Meta(min_length=1)]
    wait: bool = False
    # Options that are narrower over HTTP, or have another form.
    model: Model | None = None
    system: LongText | None = None
    attachments: Annotated[tuple[AttachmentRequest, ...], Meta(max_length=100)] = ()  # type: ignore[assignment]
    limits: TurnLimits | None = None  # type: ignore[assignment]
    transport: TransportName | Literal["auto"] | None = None  # type: ignore[assignment]
    mode: Name | None = None
    priority: Annotated[int, Meta(ge=PRIORITIES[0], le=PRIORITIES[1])] | None = None
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


@turns("GET /api/sessions/{session}/turns", "Its turns, in the order in which they came")
async def list_turns(ostler: Ostler, session: str) -> TurnList:
    """Prompts are cut after 100,000 characters here."""
    turns = ostler.store.turns(ostler.find(session).id)
    return TurnList(items=[turn_view(row, number, _LONG) for number, row in enumerate(turns, 1)])


@turns(
    "POST /api/sessions/{session}/turns",
    "Starts a turn; answers once it is committed",
    status=202,
    answer=TurnView,
    also={200: "The same Idempotency-Key has started this turn before"},
    problems=(409, 422, 424, 429),
)
async def start_turn(
    ostler: Ostler,
    watcher: Live,
    uploads: Uploads,
    session: str,
    data: NewTurn,
    idempotency_key: Annotated[IdempotencyKey | None, Header("Idempotency-Key")] = None,
) -> Reply:
    """A busy session is an error (409), unless `wait` is true: then the turn is queued."""
    live = await ostler.session(session=session)
    if data.wait and watcher.watch.queued().get(live.id, 0) >= IN_LINE:
        raise OstlerError(
            "too_many", f"{IN_LINE} turns are already queued for session {live.id}", "Wait, or cancel some"
        )
    once = Once(key=idempotency_key, digest=_digest(data)) if idempotency_key is not None else None
    begun = await begin(live, data.prompt, _options(data, live, uploads), wait=data.wait, once=once)
    return Reply(_view(ostler, begun.row), status=200 if begun.repeated else 202)


def _options(data: NewTurn, live: LiveSession, uploads: Uploads) -> TurnOptions:
    given = {name: getattr(data, name) for name in TurnOptions.__struct_fields__}
    given["attachments"] = tuple(_attachment(asked, uploads, live.row.folder) for asked in data.attachments)
    given["limits"] = _limits(data.limits, live)
    given["transport"] = _transport(data.transport, live)
    return TurnOptions(**given)


def _transport(wanted: TransportName | Literal["auto"] | None, live: LiveSession) -> TransportName | None:
    """`auto`: the one that the session was moved to, else the best for somebody who is there to answer."""
    if wanted != "auto" or live.row.transport is not None:
        return wanted if wanted != "auto" else None
    return best_transport(server_of(live.setup, live.row.agent))


def _attachment(asked: AttachmentRequest, uploads: Uploads, folder: str) -> Attachment:
    match asked:
        case AttachmentRequest(upload=str(id), path=None, name=None, content=None):
            return Attachment(path=str(uploads.path(id)), type=asked.type)
        case AttachmentRequest(upload=None, path=str(path), name=None, content=None):
            os.close(open_beneath(folder, path))
            return Attachment(path=os.path.join(folder, path), type=asked.type)
        case AttachmentRequest(upload=None, path=None, name=str(name), content=str(content)):
            return Attachment(name=name, content=content, type=asked.type)
    raise OstlerError("bad_request", "this attachment is not valid", "Give upload, or path, or name and content")


def _limits(asked: TurnLimits | None, live: LiveSession) -> Limits | None:
    """What was given, over what holds for the session without it."""
    given = {name: value for name, value in structs.asdict(asked).items() if value is not UNSET} if asked else {}
    return limits_of(live.row, live.setup.settings, **given) if given else None


def _digest(data: NewTurn) -> str:
    return hashlib.sha256(msgspec.json.encode(data, order="sorted")).hexdigest()


# -- one turn ---------------------------------------------------------------------------------------


@turns("GET /api/turns/{turn}", "One turn")
async def get_turn(ostler: Ostler, turn: str) -> TurnView:
    return _view(ostler, ostler.find_turn(turn))


@turns("POST /api/turns/{turn}/cancel", "Cancels it; one that has ended stays as it is", status=202)
async def cancel_turn(ostler: Ostler, turn: str, signal: SignalName | None = None) -> TurnView:
    """With `signal` its processes get that at once, and KILL if they have not ended soon after."""
    return _view(ostler, await ostler.cancel_turn(turn, signal))


@turns("GET /api/turns/{turn}/envelope", "Its result; not found until it has ended")
async def get_envelope(ostler: Ostler, turn: str) -> Envelope:
    return _envelope(ostler.find_turn(turn))


@turns("GET /api/turns/{turn}/artifacts", "The files that it left; none until it has ended")
async def list_artifacts(ostler: Ostler, turn: str) -> ArtifactList:
    row = ostler.find_turn(turn)
    names = row.envelope.artifacts if row.envelope else ()
    return ArtifactList(items=[view for name in names if (view := _look(ostler, row, name)) is not None])


@turns(
    "GET /api/turns/{turn}/artifacts/{name}",
    "One of its files, as a download",
    media_types=("text/plain; charset=utf-8", "application/octet-stream"),
    answer=bytes,
)
async def get_artifact(ostler: Ostler, turn: str, name: str) -> FileReply:
    row = ostler.find_turn(turn)
    fd = _open(ostler, row, name)
    return FileReply(fd, f"{row.id}-{os.path.basename(_envelope(row).artifacts[name])}", _media_type(name))


def _view(ostler: Ostler, row: TurnRow) -> TurnView:
    return turn_view(row, ostler.store.turn_number(row.id))


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
        raise OstlerError("not_found", f"turn {row.id} has no artifact {quoted(name[:100])}", f"It has: {known}")
    folder = session_folder(ostler.store.folder, row.session)
    return open_beneath(folder, os.path.relpath(path, folder))


def _media_type(name: str) -> Literal["text/plain; charset=utf-8", "application/octet-stream"]:
    return "text/plain; charset=utf-8" if name in TEXTS else "application/octet-stream"
