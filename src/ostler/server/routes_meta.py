"""Who one is, links, the server itself, and what a person chooses from: folders and uploads."""

import asyncio
import os
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

import ostler as package
from ostler import clock
from ostler.access import Rights
from ostler.errors import OstlerError, quoted
from ostler.server.auth import LINK_SECONDS, LOGIN_SECONDS, Authenticator, TokenClaims
from ostler.server.gateway import OwnAddresses, Person
from ostler.server.metrics import Metrics
from ostler.server.problems import Refusal
from ostler.server.replies import Reply
from ostler.server.request_body import RequestBody
from ostler.server.routing import Request, Route, Routes
from ostler.server.uploads import Upload, Uploads
from ostler.work import Ostler

MANY = 2_000  # folders that are listed

login_routes, server_routes, choices = Routes("login"), Routes("server"), Routes("choosing")


class About(Struct, frozen=True, kw_only=True):
    """This server, as long as it runs."""

    started_at: float
    folder: str  # where it was started: new sessions begin there
    own: OwnAddresses


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


class Login(RequestBody, frozen=True, kw_only=True):
    token: str


class LinkRequest(RequestBody, frozen=True, kw_only=True):
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


# -- logins -------------------------------------------------------------------------------------------


@login_routes("POST /api/login", "Spends a link; sets the cookie", status=200, right="", answer=Me)
async def login(request: Request, data: Login, ostler: Ostler, auth: Authenticator, about: About) -> Reply:
    said = await auth.redeem(data.token)
    token = auth.sign("login", said.rights, said.name, LOGIN_SECONDS)
    cookie = _cookie(request, auth, token, int(LOGIN_SECONDS))
    return Reply(me_of(said.person, ostler, about), headers=[cookie])


@login_routes("POST /api/logout", "Ends this login, or this token, for good", status=204, right="view", answer=None)
async def logout(request: Request, auth: Authenticator) -> Reply:
    said: TokenClaims = request.scope["state"]["claims"]
    await auth.end(said)
    return Reply(None, status=204, headers=[_cookie(request, auth, "", 0)])


@login_routes("GET /api/me", "Who you are, and on which server")
async def me(ostler: Ostler, person: Person, about: About) -> Me:
    return me_of(person, ostler, about)


@login_routes("POST /api/links", "A link for somebody else: valid once, for an hour", right="admin")
async def links(request: Request, data: LinkRequest, person: Person, auth: Authenticator) -> Link:
    token = auth.sign("link", data.rights, data.name or person.name, LINK_SECONDS)
    where = request.header("origin") or f"{request.scope['scheme']}://{request.header('host')}"
    return Link(url=f"{where}/#t={token}", expires_at=clock.now() + LINK_SECONDS)


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


def _cookie(request: Request, auth: Authenticator, value: str, seconds: int) -> tuple[bytes, bytes]:
    by_tls = request.scope["scheme"] == "https" or request.header("origin").startswith("https://")  # or a proxy's
    secure = "; Secure" if by_tls else ""
    cookie = f"{auth.cookie}={value}; HttpOnly; Max-Age={seconds}; Path=/; SameSite=strict{secure}"
    return b"set-cookie", cookie.encode()


# -- the server ---------------------------------------------------------------------------------------


@server_routes("GET /healthz", "Whether it works")
async def healthz(ostler: Ostler, about: About) -> Health:
    try:
        ostler.store.data_version()
    except OstlerError as error:
        raise Refusal(503, f"the store does not answer: {error.message}", error.hint) from error
    return Health(
        status="ok", version=package.__version__, pid=os.getpid(), uptime_s=round(clock.now() - about.started_at, 3)
    )


@server_routes("GET /metrics", "Counts for Prometheus", media_types=("text/plain; version=0.0.4",))
async def metrics(metrics: Metrics) -> bytes:
    return metrics.text()


@server_routes("GET /api/openapi.json", "This API (OpenAPI 3.1)", answer=dict[str, Any])
async def openapi(auth: Authenticator, routes: tuple[Route, ...]) -> Reply:
    return Reply(await asyncio.to_thread(_openapi, routes, auth.cookie))


@cache
def _openapi(routes: tuple[Route, ...], cookie: str) -> bytes:
    from ostler.server.openapi import document

    return msgspec.json.encode(document(routes, cookie))


# -- choosing -----------------------------------------------------------------------------------------


@choices("GET /api/folders", "The folders in a folder of the server's machine", right="type", problems=(404,))
async def folders(
    about: About, at: Annotated[str, Meta(description="an absolute path", max_length=4096)] = ""
) -> Folders:
    return await asyncio.to_thread(_folders, at or about.folder)


@choices(
    "PUT /api/uploads/{name}",
    "Hands over a file for a turn",
    status=201,
    takes="application/octet-stream",
    problems=(429,),
)
async def upload(request: Request, name: str, uploads: Uploads) -> Upload:
    """The body is the file itself, `application/octet-stream`, at most 32 MiB."""
    return await uploads.keep(name, request.chunks())


def _folders(at: str) -> Folders:
    if not os.path.isabs(at) or "\0" in at:
        raise OstlerError("bad_request", f"{quoted(at)} is not an absolute path")
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
