"""The tmux servers that panes are made in: ostler's own, or the one that the user works in."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from ostler.errors import OstlerError
from ostler.process.pane import Pane
from ostler.process.tmux import TmuxClient, TmuxPlace, TmuxSessionEnded, check_version, no_tmux, run_tmux
from ostler.settings import Settings
from ostler.store.files import private_folder, write_private
from ostler.supervise import retried
from ostler.work.transports.tasks import cancel_all

SESSION = "ostler"
_STARTING = "starting"
_FIRST = "sleep 10"  # keeps a new session until its first pane is there
_ENDING = 2.0  # seconds for a session to end
_ENV = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR")
_CONFIG = """\
set -g default-terminal "{term}"
set -g default-size 120x30
set -g history-limit 10000
set -g set-titles on
set -g set-titles-string "#{{pane_title}}"
set -g mouse on
set -g escape-time 10
set -g focus-events on
set -g allow-rename off
set -g automatic-rename off
set -g update-environment ""
set -g pane-border-status top
set -g pane-border-format " #{{?@ostler_name,#{{@ostler_name}},#{{pane_title}}}} "
set -g status-left "ostler "
set -g status-right "prefix d: leave "
"""

_log = logging.getLogger(__name__)

T = TypeVar("T")


class TmuxServers:
    """One control client for each server that this process has panes in."""

    def __init__(self, state: str | Path, environ: Mapping[str, str]) -> None:
        self._folder, self._environ = Path(state) / "tmux", environ
        self._clients: dict[tuple[str, str, str], TmuxClient] = {}
        self._panes: list[Pane] = []
        self._rejoining: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()  # clients that were lost, until their processes have ended
        self._starting = asyncio.Lock()
        self._checked: set[str] = set()

    async def place(self, settings: Settings) -> TmuxPlace:
        """Where the panes of these settings go. Raises `missing`, `unsupported` (version, no session of the user)."""
        program = self.program()
        if program not in self._checked:
            await check_version(program)
            self._checked.add(program)
        return await self._users(program) if settings.tmux == "user" else self.own(program)

    async def version(self) -> str:
        """Of the tmux that would be used. Raises `missing`, `unsupported`."""
        return await check_version(self.program())

    def program(self) -> str:
        """The tmux that is used. Raises `missing`."""
        import shutil  # which no turn without a pane needs

        program = shutil.which("tmux", path=self._environ.get("PATH", os.defpath))
        if program is None:
            raise no_tmux()
        return program

    def own(self, program: str) -> TmuxPlace:
        """Ostler's server: its socket and its configuration in a private folder."""
        folder = private_folder(self._folder)
        config = folder / "tmux.conf"
        write_private(config, _CONFIG.format(term=_terminal()).encode())
        return TmuxPlace(
            program=program, folder=str(folder), socket="socket", session=SESSION, config=str(config), env=self._env
        )

    async def _users(self, program: str) -> TmuxPlace:
        """The session in which ostler was called, or the one that the user used last."""
        socket = self._environ.get("TMUX", "").rpartition(",")[0].rpartition(",")[0]
        if not socket:
            root = self._environ.get("TMUX_TMPDIR") or "/tmp"
            socket = os.path.join(root, f"tmux-{os.getuid()}", "default")
        place = TmuxPlace(program=program, folder="/", socket=socket, session="", env=self._env)
        pane = self._environ.get("TMUX_PANE")
        target = ("-t", pane) if pane else ()
        try:
            session = (await run_tmux(place, "display-message", "-p", *target, "#{session_id}")).strip()
        except OstlerError as error:
            raise _no_session() from error
        if not session:
            raise _no_session()
        return TmuxPlace(program=program, folder="/", socket=socket, session=session, env=self._env)

    @property
    def _env(self) -> dict[str, str]:
        """What tmux itself gets. What agents get goes another way, since tmux hands its own on to every pane."""
        passed = {n: v for n, v in self._environ.items() if n in _ENV or n.startswith("LC_")}
        return {**passed, "TERM": "xterm-256color"}

    async def client(self, place: TmuxPlace, *, make: bool) -> TmuxClient:
        """The client on it. With `make` the server and the session are made; else `crashed` if there are none."""
        async with self._starting:
            known = self._clients.get(place.key)
            if known is not None and known.alive:
                return known
            words: tuple[str, ...] = ("attach-session", "-E", "-t", place.session)
            if make and not place.session.startswith("$"):
                words = ("new-session", "-A", "-s", place.session, "-x", "120", "-y", "30", "-n", _STARTING, _FIRST)
            client = await TmuxClient.start(place, words, self._lost(place))
            try:
                await client.command("refresh-client", "-f", "ignore-size")
            except OstlerError:
                await client.close()
                raise
            self._clients[place.key] = client
            return client

    async def make(self, place: TmuxPlace, make: Callable[[TmuxClient], Awaitable[T]]) -> T:
        """What `make` returns, which makes a pane by a client.

        A session ends with its last pane: where that happens just now, it is called again in a new one.
        """

        async def step() -> T:
            return await make(await self.client(place, make=True))

        return await retried("making a pane", step, passes=_has_ended, patience=_ENDING)

    async def settle(self, place: TmuxPlace) -> None:
        """The first pane is there: the window that kept the session goes."""
        if place.config and (client := self._clients.get(place.key)) is not None:
            with suppress(OstlerError):  # it is gone, mostly
                await client.command("kill-window", "-t", f"={place.session}:={_STARTING}")

    async def close(self) -> None:
        """Detaches from all; their panes stay."""
        await cancel_all(self._rejoining)
        clients, self._clients = list(self._clients.values()), {}
        await asyncio.gather(*self._leaving, *(client.close() for client in clients))

    def keep(self, pane: Pane) -> None:
        """Goes on with it when the client is lost, which somebody may detach."""
        self._panes = [pane, *(known for known in self._panes if known.at_work)]

    def _lost(self, place: TmuxPlace) -> Callable[[], None]:
        def lost() -> None:
            client = self._clients.pop(place.key, None)
            if client is not None:  # its process may take a moment longer than its output
                leaving = asyncio.create_task(client.close())
                self._leaving.add(leaving)
                leaving.add_done_callback(self._leaving.discard)
            panes = [pane for pane in self._panes if pane.at_work and pane.place.key == place.key]
            if panes:
                task = asyncio.create_task(self._rejoin(place, panes))
                self._rejoining.add(task)
                task.add_done_callback(self._rejoining.discard)

        return lost

    async def _rejoin(self, place: TmuxPlace, panes: list[Pane]) -> None:
        _log.info("the tmux client was lost: its panes (%d) are joined again", len(panes))
        try:
            client = await self.client(place, make=False)
        except OstlerError as error:  # the server is gone: the panes' wardens end all that ran in them
            _log.warning("panes cannot be joined again (%d): %s", len(panes), error)
            return
        for pane in panes:
            try:
                await pane.rejoin(client)
            except OstlerError as error:  # this one has ended meanwhile; the others have not
                _log.warning("pane %s cannot be joined again: %s", pane.id, error)


def _has_ended(error: Exception) -> bool:
    return isinstance(error, TmuxSessionEnded)


def _no_session() -> OstlerError:
    hint = 'Start tmux, or set tmux = "own" to have panes in a server of ostler\'s own'
    return OstlerError("unsupported", 'tmux = "user" is set, and no tmux session of yours was found', hint)


def _terminal() -> str:
    """What a pane calls itself: tmux's own entry where the machine has it."""
    folders = ("/usr/share/terminfo", "/lib/terminfo", "/etc/terminfo", "/usr/local/share/terminfo")
    found = any(os.path.exists(os.path.join(folder, "t", "tmux-256color")) for folder in folders)
    return "tmux-256color" if found else "screen-256color"
