"""Terminals in panes: a window of tmux is made for a program, or a pane that is there is taken over."""

import asyncio
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from ostler.errors import OstlerError
from ostler.model import Session
from ostler.process import Size, tree
from ostler.process.pane import Pane, PaneProcess, PaneRequest
from ostler.process.tmux import TmuxClient, TmuxPlace
from ostler.terminal.screen.protocol import Modes
from ostler.terminal.viewer_protocol import ResizeTerminal, ViewerInput
from ostler.work.panes.notes import PaneNote, PaneNotes
from ostler.work.panes.pane_input import pane_input
from ostler.work.panes.servers import TmuxServers
from ostler.work.terminals.programs import NewProgram
from ostler.work.terminals.pty_terminal import PtyTerminal

MARKER = "@ostler_session"
NAME = "@ostler_name"
_OPENED = "#{pane_id} #{pane_pid} #{pane_width} #{pane_height}"


class PaneStart(Struct, frozen=True, kw_only=True):
    """Starts a program in a new pane of a session, or in that pane again. `start` is what `ProgramOptions` takes."""

    servers: TmuxServers
    notes: PaneNotes
    place: TmuxPlace
    session: Session
    note: Callable[[PaneNote], PaneNote]  # fills in what is known of it
    streams: tuple[str, str, str] | None = None
    viewer: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    again: str = ""  # a pane of the session whose program has ended: it is used again

    async def start(self, new: NewProgram) -> PtyTerminal:
        """Raises what keeps it from starting, and leaves no pane then."""
        folder = str(await asyncio.to_thread(self.notes.make_folder, self.session.id))
        again = self.again

        async def make(client: TmuxClient) -> tuple[TmuxClient, str, int, Size]:
            nonlocal again
            free, again = again, ""  # a new session does not have it
            return client, *await self._make(client, new, folder, free)

        client, pane, pid, size = await self.servers.make(self.place, make)
        try:
            process = PaneProcess(pid, tree.identity(pid) or 0, new.mark, folder)
            made = Pane(pane, client, self.place, process, size)
            terminal = _terminal(new, made)
            self.servers.keep(made)
            await self._mark(client, pane)
            await self.servers.settle(self.place)
            await process.begun(new.argv, new.row.folder)
        except BaseException:
            await _kill(client, pane)
            raise
        self.notes.put(self.note(self._noted(new, pane, process)))
        return terminal

    async def _make(self, client: TmuxClient, new: NewProgram, folder: str, again: str) -> tuple[str, int, Size]:
        [term] = await client.command("show-options", "-gv", "default-terminal")
        request = PaneRequest(
            argv=new.argv,
            cwd=new.row.folder,
            env={**new.env, "TERM": term},
            mark=new.mark,
            folder=folder,
            wall=new.wall,
            remove=self.remove,
            streams=self.streams,
            viewer=self.viewer,
        )
        command = await asyncio.to_thread(request.command)
        if again:
            await client.opening("respawn-pane", "-k", "-t", again, "-c", new.row.folder, "--", *command)
            [printed] = await client.command("display-message", "-p", "-t", again, _OPENED)
        else:
            words = ("new-window", "-d", "-P", "-F", _OPENED, "-t", f"{self.place.session}:")
            name = window_name(self.session)
            [printed] = await client.opening(*words, "-n", name, "-c", new.row.folder, "--", *command)
        pane, *numbers = printed.split()
        pid, cols, rows = map(int, numbers)
        return pane, pid, Size(cols, rows)

    async def _mark(self, client: TmuxClient, pane: str) -> None:
        for option, value in ((MARKER, self.session.id), (NAME, window_name(self.session))):
            await client.command("set-option", "-p", "-t", pane, option, value)
        if self.streams is not None:  # what was printed stays to be read
            await client.command("set-option", "-p", "-t", pane, "remain-on-exit", "on")

    def _noted(self, new: NewProgram, pane: str, process: PaneProcess) -> PaneNote:
        return PaneNote(
            session=self.session.id,
            agent=self.session.agent,
            place=self.place,
            pane=pane,
            pid=process.pid,
            start_time=process.start,
            boot_id=tree.boot_id(),
            mark=new.mark,
            shows="tui" if self.streams is None else "output",
        )


class PaneTakeover(Struct, frozen=True, kw_only=True):
    """Takes over a pane that is there. `start` is what `ProgramOptions` takes."""

    servers: TmuxServers
    notes: PaneNotes
    note: PaneNote

    async def start(self, new: NewProgram) -> PtyTerminal:
        """Raises `not_found` or `crashed` where it is not there any more."""
        note = self.note
        client = await self.servers.client(note.place, make=False)
        folder = str(self.notes.pane_folder(note.session))
        process = PaneProcess(note.pid, note.start_time, note.mark, folder)
        pane = Pane(note.pane, client, note.place, process, Size(new.row.cols, new.row.rows))
        try:
            [marked] = await client.command("display-message", "-p", "-t", note.pane, f"#{{{MARKER}}}")
            if marked != note.session:
                raise OstlerError("not_found", f"pane {note.pane} is not that of session {note.session}")
            await pane.take_over()
        except BaseException:
            await pane.close()
            raise
        self.servers.keep(pane)
        return _terminal(new, pane)


def _terminal(new: NewProgram, pane: Pane) -> PtyTerminal:
    context = new.context
    row = replace(new.row, pid=pane.process.pid, cols=pane.size.cols, rows=pane.size.rows)
    made = PtyTerminal(row, pane, context.store, context.screens(), new.cast, new.redactor, context.unwritten)

    def take(message: ViewerInput, modes: Modes) -> bool:
        if isinstance(message, ResizeTerminal):
            return False
        given = pane_input(message, modes)
        if given.keys:
            pane.press(given.keys)
        if given.paste:
            pane.paste(given.paste)
        if given.data:
            pane.write(given.data)
        return True

    made.live.own_input = take
    pane.resized = made.live.follow_size
    return made


def window_name(session: Session) -> str:
    """What people find it by: tmux takes `:` and `.` for its own."""
    name = "".join(c if c.isprintable() and c not in ":.#" else "-" for c in session.label)
    return name[:60] or "ostler"


async def _kill(client: TmuxClient, pane: str) -> None:
    try:
        await client.command("kill-pane", "-t", pane)
    except OstlerError:
        pass  # it has ended by itself
