"""Terminals over HTTP: list, open, look, type, end. What is seen live goes over `sockets.py`."""

import os
from collections.abc import AsyncIterator
from typing import Annotated, Literal

import msgspec
from litestar import Router, delete, get, post
from litestar.params import Parameter
from litestar.response import Stream
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.server.people import Person, require
from ostler.server.sockets import author_of
from ostler.terminal.screen_words import ProgressState, Shape, Snapshot
from ostler.terminal.viewing import Input, Resize
from ostler.words import TerminalRow
from ostler.work import Ostler

TEXT_LIMIT = 1 << 20
CHUNK = 256 * 1024


# -- what is asked and answered ---------------------------------------------------------------------------


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a request: a field that is not known is an error, not a wish that is passed over."""


class NewTerminal(Body, frozen=True, kw_only=True):
    session: str
    argv: Annotated[list[str], msgspec.Meta(min_length=1, max_length=1000)]
    folder: str | None = None
    env: dict[str, str] | None = None
    cols: int = 80
    rows: int = 24
    name: str | None = None
    primary: bool = False


class Typed(Body, frozen=True, kw_only=True):
    """`take`: the keyboard is taken first. Without it, who does not hold the keyboard is denied."""

    message: Input
    take: bool = False


class NewSize(Body, frozen=True, kw_only=True):
    cols: int
    rows: int


class LeaseWish(Body, frozen=True, kw_only=True):
    action: Literal["take", "release"]


class TerminalList(Struct, frozen=True, kw_only=True):
    items: list[TerminalRow]


class CursorView(Struct, frozen=True, kw_only=True):
    x: int
    y: int
    shape: Shape
    visible: bool
    blinking: bool


class ModesView(Struct, frozen=True, kw_only=True):
    alternate: bool
    bracketed_paste: bool
    mouse: Literal["off", "x10", "press", "drag", "any"]
    focus: bool


class ProgressView(Struct, frozen=True, kw_only=True):
    state: ProgressState
    percent: int | None


class SnapshotView(Struct, frozen=True, kw_only=True):
    """The screen after `offset` bytes. `vt` makes an empty terminal of this size show the same."""

    offset: int
    cols: int
    rows: int
    text: tuple[str, ...]
    styled: tuple[str, ...]
    cursor: CursorView
    modes: ModesView
    title: str
    cwd: str
    progress: ProgressView | None
    scrollback: int
    vt: str


# -- looking ----------------------------------------------------------------------------------------------


@get("/", summary="Terminals, newest first; ended ones too")
async def list_terminals(ostler: Ostler, session: str | None = None, live: bool = False) -> TerminalList:
    return TerminalList(items=ostler.terminals.list(session, live))


@get("/{terminal:str}", summary="One terminal")
async def get_terminal(ostler: Ostler, terminal: str) -> TerminalRow:
    return ostler.terminals.get(terminal)


@get("/{terminal:str}/snapshot", summary="What it shows now, or showed at the end")
async def snapshot(ostler: Ostler, terminal: str, history: bool = False) -> SnapshotView:
    return _view(await ostler.terminals.snapshot(terminal, history))


@get("/{terminal:str}/text", summary="The last of its output as plain text", media_type="text/plain")
async def text(
    ostler: Ostler, terminal: str, limit: Annotated[int, Parameter(ge=1, le=TEXT_LIMIT)] = TEXT_LIMIT
) -> str:
    return await ostler.terminals.text(terminal, limit)


@get("/{terminal:str}/recording", summary="Its recording (asciicast v2)", media_type="application/x-asciicast")
async def recording(ostler: Ostler, terminal: str) -> Stream:
    row = ostler.terminals.get(terminal)
    try:
        size = os.stat(row.recording).st_size
    except OSError:
        raise OstlerError("not_found", f"terminal {row.id} has no recording") from None
    return Stream(
        _beginning(row.recording, size),
        media_type="application/x-asciicast",
        headers={"content-disposition": f'attachment; filename="{row.id}.cast"', "content-length": str(size)},
    )


async def _beginning(path: str, size: int) -> AsyncIterator[bytes]:
    """So much as was promised of a file that may still grow; each event is written whole."""
    with open(path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW)) as file:
        while size > 0 and (chunk := file.read(min(size, CHUNK))):
            size -= len(chunk)
            yield chunk


def _view(seen: Snapshot) -> SnapshotView:
    cursor, modes, progress = seen.cursor, seen.modes, seen.progress
    return SnapshotView(
        offset=seen.offset,
        cols=seen.cols,
        rows=seen.rows,
        text=seen.text,
        styled=seen.styled,
        cursor=CursorView(x=cursor.x, y=cursor.y, shape=cursor.shape, visible=cursor.visible, blinking=cursor.blinking),
        modes=ModesView(
            alternate=modes.alternate, bracketed_paste=modes.bracketed_paste, mouse=modes.mouse, focus=modes.focus
        ),
        title=seen.title,
        cwd=seen.cwd,
        progress=ProgressView(state=progress.state, percent=progress.percent) if progress else None,
        scrollback=seen.scrollback,
        vt=seen.vt.decode(errors="replace"),
    )


# -- acting -----------------------------------------------------------------------------------------------


@post("/", summary="Opens a terminal and runs a program in it", problems=(404, 409, 422, 424, 429))
async def open_terminal(
    ostler: Ostler, person: Person, terminal_commands: frozenset[str] | None, data: NewTerminal
) -> TerminalRow:
    require(person, "type")
    if terminal_commands is not None and data.argv[0] not in terminal_commands:
        allowed = ", ".join(sorted(terminal_commands)) or "none"
        raise OstlerError("denied", f"`{data.argv[0]}` may not be run here", f"Allowed: {allowed}")
    opened = await ostler.terminals.open(
        data.session,
        data.argv,
        folder=data.folder,
        env=data.env,
        cols=data.cols,
        rows=data.rows,
        name=data.name,
        primary=data.primary,
    )
    return opened.row


@post("/{terminal:str}/input", summary="Types into it", status_code=204, problems=(409, 422, 429))
async def type_into(ostler: Ostler, person: Person, terminal: str, data: Typed, viewer: str | None = None) -> None:
    require(person, "type")
    await ostler.terminals.input(terminal, author_of(person, viewer), data.message, data.take)


@post("/{terminal:str}/resize", summary="Gives it another size", status_code=204, problems=(409, 422))
async def resize(ostler: Ostler, person: Person, terminal: str, data: NewSize, viewer: str | None = None) -> None:
    require(person, "type")
    await ostler.terminals.input(terminal, author_of(person, viewer), Resize(cols=data.cols, rows=data.rows))


@post("/{terminal:str}/lease", summary="Takes the keyboard or hands it back", status_code=204, problems=(409, 422))
async def lease(ostler: Ostler, person: Person, terminal: str, data: LeaseWish, viewer: str | None = None) -> None:
    require(person, "type")
    await ostler.terminals.lease(terminal, author_of(person, viewer), data.action)


@post("/{terminal:str}/kill", summary="Ends its program; the terminal stays listed and viewable", status_code=204)
async def kill(ostler: Ostler, person: Person, terminal: str) -> None:
    require(person, "type")
    await ostler.terminals.kill(terminal)


@delete("/{terminal:str}", summary="Ends it if it lives, and removes it with its recording")
async def release(ostler: Ostler, person: Person, terminal: str) -> None:
    require(person, "admin")
    await ostler.terminals.release(terminal)


terminals = Router(
    "/api/terminals",
    tags=["terminals"],
    route_handlers=[
        list_terminals,
        open_terminal,
        get_terminal,
        snapshot,
        text,
        recording,
        type_into,
        resize,
        lease,
        kill,
        release,
    ],
)
