"""Terminals over HTTP: list, open, look, type, end. What is seen live goes over `sockets.py`."""

import os
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from ostler.access import Access
from ostler.errors import OstlerError
from ostler.model import HookMode, SignalName, TerminalRow
from ostler.server.auth import Person
from ostler.server.replies import FileReply
from ostler.server.request_body import RequestBody
from ostler.server.routing import Routes
from ostler.server.sockets import author_of
from ostler.terminal.screen.protocol import MouseMode, ProgressState, Snapshot
from ostler.terminal.viewer_protocol import CursorView, ResizeTerminal, ViewerInput
from ostler.work import Ostler
from ostler.work.terminals.new_terminal import COLS, ROWS
from ostler.work.terminals.prompt import LIMIT, PromptReceipt

TEXT_LIMIT = 1 << 20
WaitSeconds = Annotated[float, Meta(gt=0, le=600)]

terminals = Routes("terminals")


# -- what is asked and answered ---------------------------------------------------------------------------


class NewTerminal(RequestBody, frozen=True, kw_only=True):
    session: str
    argv: Annotated[list[str], msgspec.Meta(min_length=1, max_length=1000)]
    folder: str | None = None
    env: dict[str, str] | None = None
    cols: int = COLS
    rows: int = ROWS
    name: str | None = None
    primary: bool = False


class NewTui(RequestBody, frozen=True, kw_only=True):
    """`access`, `env` and `hooks` as for a turn."""

    cols: int = COLS
    rows: int = ROWS
    access: Access | None = None
    env: dict[str, str] | None = None
    hooks: HookMode | None = None


class Typed(RequestBody, frozen=True, kw_only=True):
    """`take`: the keyboard is taken first. Without it, who does not hold the keyboard is denied."""

    message: ViewerInput
    take: bool = False


class PromptRequest(RequestBody, frozen=True, kw_only=True):
    """`echo`: Enter is pressed once the screen shows the text; without that, `undelivered` after `limit` seconds."""

    text: Annotated[str, Meta(min_length=1, max_length=TEXT_LIMIT)]
    limit: WaitSeconds = LIMIT
    echo: bool = True


class NewSize(RequestBody, frozen=True, kw_only=True):
    cols: int
    rows: int


class LeaseRequest(RequestBody, frozen=True, kw_only=True):
    action: Literal["take", "release"]


class TerminalList(Struct, frozen=True, kw_only=True):
    items: list[TerminalRow]


class ModesView(Struct, frozen=True, kw_only=True):
    alternate: bool
    bracketed_paste: bool
    mouse: MouseMode
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


@terminals("GET /api/terminals", "Terminals, newest first; ended ones too")
async def list_terminals(ostler: Ostler, session: str | None = None, live: bool = False) -> TerminalList:
    return TerminalList(items=ostler.terminals.list(session, live))


@terminals("GET /api/terminals/{terminal}", "One terminal")
async def get_terminal(ostler: Ostler, terminal: str) -> TerminalRow:
    return ostler.terminals.get(terminal)


@terminals("GET /api/terminals/{terminal}/snapshot", "What it shows now, showed at the end, or at a time")
async def snapshot(
    ostler: Ostler, terminal: str, history: bool = False, at: Annotated[float, Meta(ge=0)] | None = None
) -> SnapshotView:
    """With `at`, the screen as it was so many seconds after the terminal began, by its recording."""
    return _view(await ostler.terminals.snapshot(terminal, history, at))


@terminals("GET /api/terminals/{terminal}/text", "The last of its output as plain text", media_types=("text/plain",))
async def text(
    ostler: Ostler,
    terminal: str,
    limit: Annotated[int, Meta(ge=1, le=TEXT_LIMIT)] = TEXT_LIMIT,
    since: Annotated[int, Meta(ge=0)] | None = None,
) -> str:
    """With `since`, what it put out after that offset: that of a prompt's receipt, or of a snapshot."""
    return await ostler.terminals.text(terminal, limit, since)


@terminals("GET /api/terminals/{terminal}/wait", "Waits for the end of its program", problems=(504,))
async def wait(ostler: Ostler, terminal: str, limit: WaitSeconds = 30.0) -> TerminalRow:
    """Answers when it has ended; 504 if it runs for longer than `limit` seconds."""
    await ostler.terminals.wait(terminal, limit)
    return ostler.terminals.get(terminal)


@terminals(
    "GET /api/terminals/{terminal}/recording",
    "Its recording (asciicast v2)",
    media_types=("application/x-asciicast",),
    answer=bytes,
)
async def recording(ostler: Ostler, terminal: str) -> FileReply:
    """As far as it goes now; each event is written whole."""
    row = ostler.terminals.get(terminal)
    try:
        fd = os.open(await ostler.terminals.recording(row.id), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        raise OstlerError("not_found", f"terminal {row.id} has no recording") from None
    return FileReply(fd, f"{row.id}.cast", "application/x-asciicast")


def _view(seen: Snapshot) -> SnapshotView:
    from ostler.terminal.row_stream import cursor_view  # with all that draws: the first answer must not wait for it

    modes, progress = seen.modes, seen.progress
    return SnapshotView(
        offset=seen.offset,
        cols=seen.cols,
        rows=seen.rows,
        text=seen.text,
        styled=seen.styled,
        cursor=cursor_view(seen.cursor),
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


@terminals("POST /api/terminals", "Opens a terminal and runs a program in it", problems=(404, 409, 422, 424, 429))
async def open_terminal(ostler: Ostler, terminal_commands: frozenset[str] | None, data: NewTerminal) -> TerminalRow:
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


@terminals(
    "POST /api/sessions/{session}/tui",
    "Starts the agent's own screen in a terminal, without a turn",
    problems=(404, 409, 422, 424, 429),
)
async def open_tui(ostler: Ostler, session: str, data: NewTui) -> TerminalRow:
    """The next turns with `transport: pty` and the same options use it. One that is there already is the answer."""
    live = await ostler.session(session=session)
    opened = await live.open_tui(cols=data.cols, rows=data.rows, access=data.access, env=data.env, hooks=data.hooks)
    return opened.row


@terminals("POST /api/terminals/{terminal}/input", "Types into it", status=204, problems=(409, 422, 429))
async def type_into(ostler: Ostler, person: Person, terminal: str, data: Typed, viewer: str | None = None) -> None:
    await ostler.terminals.input(terminal, author_of(person, viewer), data.message, data.take)


@terminals(
    "POST /api/terminals/{terminal}/prompt",
    "Sends a prompt to its program: pasted, seen on its screen, then Enter",
    status=200,
    problems=(409, 422, 502),
)
async def send_prompt(ostler: Ostler, person: Person, terminal: str, data: PromptRequest) -> PromptReceipt:
    """The receipt says how far it came; its `offset` is for `/text?since=`. For a turn of an agent, start a turn."""
    limit, echo = data.limit, data.echo
    return await ostler.terminals.send(terminal, data.text, by=person.name, limit=limit, echo=echo)


@terminals("POST /api/terminals/{terminal}/resize", "Gives it another size", status=204, problems=(409, 422))
async def resize(ostler: Ostler, person: Person, terminal: str, data: NewSize, viewer: str | None = None) -> None:
    await ostler.terminals.input(terminal, author_of(person, viewer), ResizeTerminal(cols=data.cols, rows=data.rows))


@terminals(
    "POST /api/terminals/{terminal}/lease", "Takes the keyboard or hands it back", status=204, problems=(409, 422)
)
async def lease(ostler: Ostler, person: Person, terminal: str, data: LeaseRequest, viewer: str | None = None) -> None:
    await ostler.terminals.lease(terminal, author_of(person, viewer), data.action)


@terminals(
    "POST /api/terminals/{terminal}/kill", "Ends its program; the terminal stays listed and viewable", status=204
)
async def kill(ostler: Ostler, terminal: str, signal: SignalName | None = None) -> None:
    """With `signal` the program gets that, and may go on. INT and QUIT go to what runs in the foreground."""
    await ostler.terminals.kill(terminal, signal)


@terminals("DELETE /api/terminals/{terminal}", "Ends it if it lives, and removes it with its recording")
async def release(ostler: Ostler, terminal: str) -> None:
    await ostler.terminals.release(terminal)
