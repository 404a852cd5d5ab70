"""Who one is, links, the server itself, and what a person chooses from: folders and uploads."""

import asyncio
import os
import time
from typing import Annotated, Any

from litestar import Request, Response, Router, get, post, put
from litestar.datastructures import Cookie
from litestar.params import Parameter
from msgspec import Struct

import ostler as package
from ostler.errors import OstlerError
from ostler.server.door import Door, Person, require
from ostler.server.metrics import Metrics
from ostler.server.openapi import document
from ostler.server.people import LINK_SECONDS, LOGIN_SECONDS, People, Statement
from ostler.server.problems import Refusal
from ostler.server.uploads import Upload, Uploads
from ostler.terminal.viewing import Rights
from ostler.work import Ostler

MANY = 2_000  # folders that are listed


class About(Struct, frozen=True, kw_only=True):
    """This server, as long as it runs."""

    started_at: float
    folder: str  # where it was started: new sessions begin there
    door: Door


class Me(Struct, frozen=True, kw_only=True):
    name: str
    rights: Rights
    version: str
    pid: int
    started_at: float
    state_folder: str
    home: str
    only: str
    default_agent: str
    default_folder: str


class Login(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: str


class LinkWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rights: Rights = "view"
    name: str = ""


class Link(Struct, frozen=True, kw_only=True):
    url: str
    expires_at: float


class Health(Struct, frozen=True, kw_only=True):
    status: str
    version: str
    pid: int
    uptime_s: float


class Folders(Struct, frozen=True, kw_only=True):
    path: str
    parent: str | None
    folders: list[str]


# -- people -------------------------------------------------------------------------------------------


@post("/api/login", status_code=200, tags=["people"], summary="Spends a link; sets the cookie", right="")
async def login(
    request: Request[Any, Any, Any], data: Login, ostler: Ostler, people: People, about: About
) -> Response[Me]:
    said = await people.redeem(data.token)
    token = people.sign("login", said.rights, said.name, LOGIN_SECONDS)
    return Response(me_of(said.person, ostler, about), cookies=[_cookie(request, people, token, int(LOGIN_SECONDS))])


@post("/api/logout", status_code=204, tags=["people"], summary="Ends this login, or this token, for good", right="view")
async def logout(request: Request[Any, Any, Any], people: People) -> Response[None]:
    said: Statement = request.scope["state"]["statement"]
    await people.spent.add(said)
    return Response(None, cookies=[_cookie(request, people, "", 0)])


@get("/api/me", tags=["people"], summary="Who one is, and where")
async def me(ostler: Ostler, person: Person, about: About) -> Me:
    return me_of(person, ostler, about)


@post("/api/links", tags=["people"], summary="A link for somebody else: good once, for an hour", right="admin")
async def links(request: Request[Any, Any, Any], data: LinkWish, person: Person, people: People) -> Link:
    require(person, "admin")
    token = people.sign("link", data.rights, data.name or person.name, LINK_SECONDS)
    where = request.headers.get("origin") or f"http://{request.headers['host']}"
    return Link(url=f"{where}/#t={token}", expires_at=time.time() + LINK_SECONDS)


def me_of(person: Person, ostler: Ostler, about: About) -> Me:
    settings = ostler.settings
    return Me(
        name=person.name,
        rights=person.rights,
        version=package.__version__,
        pid=os.getpid(),
        started_at=about.started_at,
        state_folder=settings.home,
        home=ostler.setup.home,
        only=settings.only,
        default_agent=settings.default_agent,
        default_folder=about.folder,
    )


def _cookie(request: Request[Any, Any, Any], people: People, value: str, seconds: int) -> Cookie:
    secure = request.headers.get("origin", "").startswith("https://")
    return Cookie(
        key=people.cookie, value=value, max_age=seconds, path="/", httponly=True, samesite="strict", secure=secure
    )


# -- the server ---------------------------------------------------------------------------------------


@get("/healthz", tags=["server"], summary="Whether it works")
async def healthz(ostler: Ostler, about: About) -> Health:
    try:
        ostler.store.data_version()
    except OstlerError as error:
        raise Refusal(503, f"the store does not answer: {error.message}", error.hint) from error
    return Health(
        status="ok", version=package.__version__, pid=os.getpid(), uptime_s=round(time.time() - about.started_at, 3)
    )


@get("/metrics", tags=["server"], summary="Counts for Prometheus", media_type="text/plain; version=0.0.4")
async def metrics(metrics: Metrics) -> bytes:
    return metrics.text()


@get("/api/openapi.json", tags=["server"], summary="This API (OpenAPI 3.1)")
async def openapi(request: Request[Any, Any, Any], people: People) -> dict[str, Any]:
    state = request.app.state
    if "openapi" not in state:
        state["openapi"] = await asyncio.to_thread(document, request.app, people.cookie)
    return dict(state["openapi"])


# -- choosing -----------------------------------------------------------------------------------------


@get(
    "/api/folders",
    tags=["choosing"],
    summary="The folders in a folder of the server's machine",
    right="type",
    problems=(404,),
)
async def folders(
    person: Person, about: About, at: Annotated[str, Parameter(description="an absolute path", max_length=4096)] = ""
) -> Folders:
    require(person, "type")
    return await asyncio.to_thread(_folders, at or about.folder)


@put(
    "/api/uploads/{name:str}",
    status_code=201,
    tags=["choosing"],
    summary="Hands over a file for a turn",
    takes="application/octet-stream",
    problems=(429,),
)
async def upload(request: Request[Any, Any, Any], name: str, person: Person, uploads: Uploads) -> Upload:
    """The body is the file itself, `application/octet-stream`, at most 32 MiB."""
    require(person, "type")
    return await uploads.keep(name, request.stream())


def _folders(at: str) -> Folders:
    if not os.path.isabs(at) or "\0" in at:
        raise OstlerError("bad_request", f"{at!r} is no absolute path")
    path = os.path.realpath(at)
    try:
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".") and _is_folder(entry)]
    except PermissionError:
        raise OstlerError("denied", f"{path} cannot be read by this user") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OstlerError("not_found", f"{path}: {reason}") from None
    shown = sorted((name for name in names if _is_text(name)), key=str.casefold)[:MANY]
    return Folders(path=path, parent=os.path.dirname(path) if path != "/" else None, folders=shown)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False  # bytes that are no UTF-8 cannot be told in JSON
    return True


meta = Router("/", route_handlers=[login, logout, me, links, healthz, metrics, openapi, folders, upload])
