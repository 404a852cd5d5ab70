"""What an `Ostler` is made of."""

import os
from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec import structs

from ostler.errors import OstlerError
from ostler.model import TurnRow
from ostler.model.pool import IdleProcess
from ostler.settings import Settings
from ostler.store import KnownSecrets, Store
from ostler.supervise import Loop
from ostler.work.folder_settings import FolderSettings, LoadSettings
from ostler.work.known_agents import agents_of
from ostler.work.owner import OwnerDesk
from ostler.work.pool.pool import Pool
from ostler.work.sessions import expiry
from ostler.work.sessions.context import SessionContext
from ostler.work.sessions.manual import until_handed_back
from ostler.work.shared_warden import SharedWarden
from ostler.work.terminals.context import TerminalContext
from ostler.work.transports.keepers import Keepers
from ostler.work.transports.resources import TransportResources
from ostler.work.turns import mcp_servers
from ostler.work.turns.control import TurnControl
from ostler.work.turns.environment import secrets as secret_values
from ostler.work.turns.forwarding import forward_orphaned
from ostler.work.turns.live_turns import Turns
from ostler.work.turns.setup import NotesCache, Setup
from ostler.work.turns.unwritten import Unwritten

if TYPE_CHECKING:
    from ostler.terminal.screen.screens import Screens
    from ostler.work.dialogs.call_terminals import CallTerminals
    from ostler.work.dialogs.open_dialogs import Dialogs
    from ostler.work.forward.sender import Sender
    from ostler.work.hooks.callbacks import Callbacks
    from ostler.work.panes.open_panes import Panes
    from ostler.work.terminals.terminals import Terminals
    from ostler.work.transports.visible import VisibleTransport

# What few turns need is imported where it is used: `ostler run` has to be quick.


class OstlerParts:
    """The parts of one Ostler, joined; what it does with them is told in `Ostler`."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        role: str = "api",
        load: LoadSettings | None = None,
    ) -> None:
        """`settings` are those of the process. `load` gives those of a folder; without it, they hold everywhere."""
        agents_of(settings)  # raises where they name an agent twice
        store = _open_store(settings)
        self.setup = Setup(
            settings=settings,
            environ=dict(environ),
            store=store,
            probes=NotesCache(store),
            callbacks=lambda: self.callbacks,
        )
        self._secrets = KnownSecrets(_secrets(settings, environ))  # no log of this process has them
        self._folders = FolderSettings(settings, load)
        self.desk = OwnerDesk(self.store, role)
        self._stays = role == "up"
        self._warms = role in ("up", "acp", "api")
        self._lingers = role not in ("cli", "doctor")  # others are gone before a turn that goes on could end
        self._serves = role in ("up", "acp", "mcp")  # others wait for its event loop
        self.warden = SharedWarden(store.folder)
        self.unwritten = Unwritten()
        self.pool = Pool(store, self.desk.id, settings, environ)
        self.turns = Turns(store, self.desk, self.unwritten, self.pool)
        self.turns.on_orphaned = self._forward_orphaned
        self.turns.adopt = self._adopt
        self.terminal_context = self._terminal_context()
        self.keepers = self._keepers()
        self.turns.also_looks = self.keepers.watch_idle_panes
        self.turns.line.end_idle = self.keepers.end_idle
        self.turns.spawner = self.warden.pid
        self.pool.idle = self._idle_processes
        self.control = TurnControl(store, self.desk.id, self.turns, self.keepers, lambda: self.callbacks)
        self.session_context = self._session_context()
        self.turns.until_free = partial(until_handed_back, self.session_context)
        self._expiring = Loop("removing expired sessions", partial(expiry.remove_each_day, store))

    def _terminal_context(self) -> TerminalContext:
        return TerminalContext(
            store=self.store,
            owner=self.desk.id,
            home=self.setup.home,
            setup_in=self.setup_in,
            warden=self.warden.get,
            screens=lambda: self.screens,
            unwritten=self.unwritten,
            end_orphaned=self.turns.end_orphaned,
            of_turns={},
        )

    def _keepers(self) -> Keepers:
        return Keepers(
            self.store,
            environ=self.setup.environ,
            settings_in=self._settings_in,
            warden=self.warden.get,
            terminals=lambda: self.terminals,
            call_terminals=self._call_terminals,
            callbacks=lambda: self.callbacks,
        )

    def _session_context(self) -> SessionContext:
        services = TransportResources(
            warden=self.warden.get,
            keepers=self.keepers,
            callbacks=lambda: self.callbacks,
            sender=lambda: self.sender,
            terminals=lambda: self.terminals,
            visible=lambda: self.visible,
        )
        return SessionContext(
            store=self.store,
            owner=self.desk.id,
            setup_in=self.setup_in,
            start_warden=self.warden.start,
            services=services,
            turns=self.turns,
            control=self.control,
            terminal=self.terminal_context,
            warms=self._warms,
        )

    def __repr__(self) -> str:
        return f"<Ostler on {self.store.folder}>"

    @cached_property
    def terminals(self) -> "Terminals":
        from ostler.work.terminals.terminals import Terminals

        return Terminals(self.terminal_context)

    @cached_property
    def visible(self) -> "VisibleTransport":
        from ostler.work.transports.visible import VisibleTransport

        return VisibleTransport(lambda: self.terminals)

    @cached_property
    def callbacks(self) -> "Callbacks":
        from ostler.work.hooks.callbacks import Callbacks

        return Callbacks(self.store)

    @cached_property
    def sender(self) -> "Sender":
        from ostler.work.forward.sender import Sender

        return Sender(self.store, self._settings_in, self.setup.environ, self._stays)

    async def _forward_orphaned(self, orphaned: list[TurnRow]) -> None:
        forwarded = [await forward_orphaned(self.store, self._settings_in(row.turn.folder), row) for row in orphaned]
        if any(forwarded):
            self.sender.wake()

    async def _adopt(self, row: TurnRow, carry_on: bool) -> bool:
        """Whether a turn whose ostler is gone goes on in its pane, and is carried on."""
        from ostler.work.panes.adoption import Adoption

        services = self.session_context.services
        adoption = Adoption(self.store, self.desk.id, self.setup_in, services, self.turns, self.panes)
        return await adoption.adopt(row, carry_on)

    def _idle_processes(self) -> list[IdleProcess]:
        idle = self.keepers.idle()
        stored = self.store.sessions_of(idle) if idle else {}  # those of spares are not, yet
        agents = {id: stored[id].agent if id in stored else agent for id, (_, agent) in idle.items()}
        memory = {id: self.pool.memory.of(agent) for id, agent in agents.items()}
        return [IdleProcess(session=id, memory_mb=memory[id], since=since) for id, (since, _) in idle.items()]

    def _settings_in(self, folder: str) -> Settings:
        """Those that hold in a folder now; those of the process where its own cannot be read."""
        try:
            return self.setup_in(folder).settings
        except OstlerError:
            return self.settings

    @cached_property
    def screens(self) -> "Screens":
        from ostler.terminal.screen.screens import Screens

        return Screens()

    def _call_terminals(self, session: str) -> "CallTerminals":
        from ostler.work.dialogs.call_terminals import CallTerminals

        return CallTerminals(self.terminal_context, lambda: self.terminals, session)

    @property
    def dialogs(self) -> "Dialogs":
        return self.keepers.dialogs

    @property
    def panes(self) -> "Panes":
        return self.keepers.panes

    @property
    def store(self) -> Store:
        return self.setup.store

    @property
    def settings(self) -> Settings:
        """Those of the process. What a turn may do is said by those of its folder: see `setup_in`."""
        return self.setup.settings

    def setup_in(self, folder: str) -> Setup:
        """What holds for work in a folder, as its files are now. Raises bad_request for what is wrong in them."""
        loaded = self._folders.of(folder)
        return structs.replace(self.setup, settings=loaded.settings, notices=loaded.folder_notices)

    # What is closed earlier may still have begun to need these: whether they exist is asked when it is their turn.

    async def _close_terminals(self) -> None:
        if "terminals" in self.__dict__:
            await self.terminals.close()

    async def _close_callbacks(self) -> None:
        if "callbacks" in self.__dict__:
            await self.callbacks.close()

    async def _close_sender(self) -> None:
        if "sender" in self.__dict__:
            await self.sender.close()

    async def _close_screens(self) -> None:
        if "screens" in self.__dict__:
            await self.screens.close()


def _secrets(settings: Settings, environ: Mapping[str, str]) -> set[str]:
    known = {*secret_values(environ, settings.env, settings.redact), *settings.own_tokens}
    return {*known, *mcp_servers.secrets(settings.mcp.values())}


def _open_store(settings: Settings) -> Store:
    store = Store.open(settings.home)
    ignore = os.path.join(settings.home, ".gitignore")
    if settings.state == "project" and not os.path.lexists(ignore):
        with open(ignore, "x") as file:
            file.write("*\n")
    return store
