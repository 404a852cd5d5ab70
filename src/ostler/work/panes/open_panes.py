"""The transport `tmux`: each session has a pane in which its turns run, for longer than any ostler process lives."""

import hashlib
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from ostler import clock
from ostler.agents.tui import TranscriptReader
from ostler.errors import OstlerError, quoted
from ostler.model import Session, Turn
from ostler.process import tree
from ostler.process.child import in_thread
from ostler.process.tmux import TmuxPlace, run_tmux
from ostler.settings import Settings
from ostler.work.dialogs.open_dialogs import fingerprint
from ostler.work.panes.notes import PaneNote, PaneNotes
from ostler.work.panes.servers import TmuxServers
from ostler.work.transports.stop import Stop, unless_stopped
from ostler.work.transports.transport import Attempt, Carried, TurnContext
from ostler.work.tuis.open_tuis import Shown, Tuis
from ostler.work.turns.artifacts import remove_files

if TYPE_CHECKING:
    from ostler.store import Store
    from ostler.work.hooks.callbacks import Callbacks
    from ostler.work.panes.pane_tui import PaneResources
    from ostler.work.terminals.pty_terminal import PtyTerminal
    from ostler.work.terminals.terminals import Terminals
    from ostler.work.tuis.live_tui import LiveTui

YOUNG = 60.0  # seconds in which a pane may not be noted yet
_LISTED = "#{pane_id} #{pane_pid} #{@ostler_session}"
_VOLATILE = ("TERM", "COLORTERM", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "XDG_SESSION_ID")  # of the shell that called

_log = logging.getLogger(__name__)


class Panes(Tuis):
    """All panes that this process has turns in. Those of other processes are found by their notes."""

    def __init__(
        self,
        terminals: "Callable[[], Terminals]",
        store: "Store",
        environ: Mapping[str, str],
        settings_in: Callable[[str], Settings],
        callbacks: "Callable[[], Callbacks]",
    ) -> None:
        super().__init__(terminals, store.turn_before, callbacks)
        self._store, self._settings_in = store, settings_in
        self.notes = PaneNotes(store.folder)
        self.servers = TmuxServers(store.folder, environ)
        self._watched: dict[str, PtyTerminal] = {}  # panes that no turn of this process has used, shown all the same

    async def run(self, attempt: Attempt, context: TurnContext) -> Carried:
        """In the session's pane: in the agent's own screen, or as a command whose output is shown."""
        if isinstance(attempt.reader, TranscriptReader):
            return await super().run(attempt, context)
        from ostler.work.panes.pane_output import run_output

        session = attempt.turn.session
        if session in self._live:
            await self._forget(session, self._live[session].tui)
        return await run_output(attempt, context, self, self._terminals())

    async def place(self, settings: Settings) -> TmuxPlace:
        return await self.servers.place(settings)

    def session(self, id: str) -> Session:
        session = self._store.session(id)
        if session is None:
            raise OstlerError("not_found", f"there is no session {quoted(id)}", "List them: ostler sessions")
        return session

    # -- the session's TUI

    async def _begun(self, attempt: Attempt, stop: Stop) -> Shown:
        from ostler.work.panes.pane_tui import PaneTui

        session = self.session(attempt.turn.session)
        place = await self.place(self._settings_in(attempt.turn.folder))
        note = new_note(attempt, place)
        tui = await unless_stopped(PaneTui.open(attempt, session, self._resources(attempt), note), stop)
        self._live[session.id] = shown = Shown(self._made_for(attempt), tui, attempt.turn.agent_session)
        return shown

    async def _fitting(self, attempt: Attempt, last: str | None) -> Shown | None:
        """The pane of this session, if it can take the turn, whoever made it; else it is closed."""
        session = attempt.turn.session
        note = self.notes.get(session)
        if session not in self._live and note is not None:
            if self._may_take(note, attempt, last) and (shown := await self._taken_over(note, attempt)):
                return shown
            await self.end_pane(note)
        if attempt.adopts is not None:
            raise OstlerError("crashed", "the pane in which the turn ran is gone", "Run again with --session to go on")
        return await super()._fitting(attempt, last)

    def _may_take(self, note: PaneNote, attempt: Attempt, last: str | None) -> bool:
        if not note.lives or note.shows != "tui":
            return False
        if attempt.adopts is not None:
            return note.turn == attempt.turn.id
        fits = note.made_for == made_for(attempt) and not attempt.turn.fork
        return fits and (note.turn or None) in (attempt.turn.id, last)

    async def _taken_over(self, note: PaneNote, attempt: Attempt) -> Shown | None:
        from ostler.work.panes.pane_tui import PaneTui

        if (watched := self._watched.pop(note.session, None)) is not None:
            await watched.let_go()
        try:
            tui = await PaneTui.take_over(attempt, self._resources(attempt), note)
        except OstlerError as error:  # it has just ended, or somebody has closed the server
            _log.info("session %s: its pane %s is not used again: %s", note.session, note.pane, error)
            return None
        self._live[note.session] = shown = Shown(self._made_for(attempt), tui, last=note.turn)
        return shown

    def _resources(self, attempt: Attempt) -> "PaneResources":
        from ostler.work.panes.pane_tui import PaneResources

        callbacks = self._callbacks_for(attempt)
        return PaneResources(terminals=self._terminals(), servers=self.servers, notes=self.notes, callbacks=callbacks)

    def _knows_all(self, shown: Shown, turn: Turn, last: str | None) -> bool:
        """By what is noted: another process may have used the pane meanwhile."""
        note = self.notes.get(turn.session)
        return note is not None and (note.turn or None) in (turn.id, last)

    def _made_for(self, attempt: Attempt) -> object:
        return made_for(attempt)

    async def _after(self, session: str, tui: "LiveTui", idle: float) -> None:
        if getattr(tui, "left", False):
            return  # whatever stands in its box now is the turn's, which goes on
        self.notes.change(session, used_at=clock.now())
        await super()._after(session, tui, idle)

    # -- panes that nobody has at work

    async def watch_idle(self) -> None:
        """Shows each pane that no process shows, as a terminal of its session: for a process that stays."""
        for note in list(self.notes.all()):
            rows = self._store.terminals(note.session, live=True)
            others = [row for row in rows if row.source == "tmux" and row.id != self._watched_row(note.session)]
            watched = self._watched.get(note.session)
            if watched is not None and (others or watched.done.done()):
                del self._watched[note.session]
                await watched.let_go()
            elif watched is None and not others and note.lives and note.session not in self._live:
                try:
                    self._watched[note.session] = await self._watch(note)
                except OstlerError as error:  # it has just ended, or its session is closed
                    _log.debug("session %s: its pane %s is not shown: %s", note.session, note.pane, error)

    def _watched_row(self, session: str) -> str:
        return self._watched[session].row.id if session in self._watched else ""

    async def _watch(self, note: PaneNote) -> "PtyTerminal":
        from ostler.work.panes.pane_terminal import PaneTakeover
        from ostler.work.terminals.programs import ProgramOptions

        start = PaneTakeover(servers=self.servers, notes=self.notes, note=note).start
        argv, tui = (note.place.program,), note.shows == "tui"
        options = ProgramOptions(argv, called=note.agent, tui=tui, mark=note.mark, start=start)
        return await self._terminals().open_program(note.session, options)

    # -- ending

    async def end_pane(self, note: PaneNote) -> None:
        """Closes a pane that nobody here has at work, with what is left of it."""
        _log.debug("session %s: its pane %s is closed", note.session, note.pane)
        await kill_pane(note)
        if note.lives:
            await in_thread(tree.end_marked, {note.mark}, tree.as_members([note.pid]))
        remove_files(note.placed)
        self.notes.remove(note.session)

    async def described(self) -> tuple[str, bool]:
        """Which tmux there is, for people, and whether panes can be made in it."""
        try:
            version = await self.servers.version()
        except OstlerError as error:
            return f"{error.message}: no turns in panes", False
        many = sum(note.lives for note in self.notes.all())
        return f"{version}, {many or 'no'} {'pane' if many == 1 else 'panes'} at work", True

    async def prune(self, dry_run: bool = False) -> list[str]:
        """Closes panes whose session is gone or closed, and removes what is noted of panes that are gone.

        The sessions that they were of.
        """
        stale = [name for name in self.notes.names() if self._is_stale(name)]
        for name in () if dry_run else stale:
            note = self.notes.get(name)
            if note is not None:
                await self.end_pane(note)
            self.notes.remove(name)
        return [*stale, *await self._prune_unknown(dry_run)]

    async def _prune_unknown(self, dry_run: bool) -> list[str]:
        """Panes of ostler's own server that nobody noted: whoever made them was killed just then."""
        try:
            place = self.servers.own(self.servers.program())
            there = os.path.exists(os.path.join(place.folder, place.socket))
            listed = await run_tmux(place, "list-panes", "-a", "-F", _LISTED) if there else ""
        except OstlerError:
            return []  # there is no tmux, or no server
        unknown = [line.split(" ") for line in listed.splitlines() if self._is_unknown(*line.split(" ")[:3])]
        for pane, _, _ in () if dry_run else unknown:
            await run_tmux(place, "kill-pane", "-t", pane)
        return [session or pane for pane, _, session in unknown]

    def _is_unknown(self, pane: str, pid: str, session: str) -> bool:
        """One that is just being made has no note yet; what a person opened there is theirs."""
        note, age = self.notes.get(session) if session else None, tree.age(int(pid))
        ours = bool(session) or b"pane_warden" in tree.read_all(f"/proc/{pid}/cmdline")
        return ours and age > YOUNG and (note is None or note.pane != pane)

    def _is_stale(self, name: str) -> bool:
        session, note = self._store.session(name), self.notes.get(name)
        if session is None or session.state == "closed":
            return True
        if session.state != "idle":
            return False  # a turn that is just being started, or that is taken up again
        return note is None or (not note.lives and note.shows == "tui")

    async def close(self, session: str | None = None) -> None:
        """Ends the pane of this session, whichever process made it; without one, lets go of all: they stay."""
        if session is None:
            await self.leave()
            return
        await super().close(session)
        note = self.notes.get(session)
        if note is not None:
            await self.end_pane(note)

    async def leave(self) -> None:
        shown, self._live = list(self._live.values()), {}
        for each in shown:
            await each.tui.leave()
        await self.servers.close()


async def kill_pane(note: PaneNote) -> None:
    """If it is still that of the session: a server that was restarted gives the same numbers to others."""
    ours = f"#{{==:#{{@ostler_session}},{note.session}}}"
    try:
        await run_tmux(note.place, "if-shell", "-F", "-t", note.pane, ours, f"kill-pane -t {note.pane}")
    except OstlerError:
        pass  # the pane is gone, or the server with it


def new_note(attempt: Attempt, place: TmuxPlace) -> PaneNote:
    return PaneNote(
        session=attempt.turn.session,
        agent=attempt.agent.name,
        place=place,
        pane="",
        pid=0,
        start_time=0,
        boot_id="",
        mark=f"pane-{attempt.turn.session}",
        shows="tui" if isinstance(attempt.reader, TranscriptReader) else "output",
        made_for=made_for(attempt),
    )


def made_for(attempt: Attempt) -> str:
    """What a pane was started with, as a hash: it stands in a file, and has the environment in it."""
    of = fingerprint(attempt)
    env = sorted(each for each in of.env if each[0] not in _VOLATILE)
    plain = (*structs.astuple(structs.replace(of, env=frozenset())), env, attempt.turn.model)
    return hashlib.sha256(msgspec.json.encode(plain)).hexdigest()
