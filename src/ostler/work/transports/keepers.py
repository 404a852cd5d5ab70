"""The processes that stay for a session's next turns: dialogs, agents' own screens, panes.

Each kind is imported and made when it is first needed: a turn in a process of its own needs none of them.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import cached_property
from typing import TYPE_CHECKING

from ostler.model import TransportName
from ostler.process import Warden
from ostler.settings import Settings
from ostler.store import Store
from ostler.work.transports.facts import TRANSPORT_FACTS, AnyTransport
from ostler.work.transports.spares import Spares, WarmKeeper

if TYPE_CHECKING:
    from ostler.work.dialogs.call_terminals import CallTerminals
    from ostler.work.dialogs.open_dialogs import Dialogs
    from ostler.work.hooks.callbacks import Callbacks
    from ostler.work.panes.open_panes import Panes
    from ostler.work.terminals.terminals import Terminals
    from ostler.work.tuis.open_tuis import Tuis

# Transports whose processes stay, and who keeps them.
STAYING: dict[AnyTransport, str] = {name: facts.keeper for name, facts in TRANSPORT_FACTS.items() if facts.stays}


class Keepers:
    """Those of one ostler process."""

    def __init__(
        self,
        store: Store,
        *,
        environ: Mapping[str, str],
        settings_in: Callable[[str], Settings],
        warden: Callable[[], Awaitable[Warden]],
        terminals: "Callable[[], Terminals]",
        call_terminals: "Callable[[str], CallTerminals]",
        callbacks: "Callable[[], Callbacks]",
    ) -> None:
        self._store, self._environ, self._settings_in = store, environ, settings_in
        self._warden, self._terminals = warden, terminals
        self._call_terminals, self._callbacks = call_terminals, callbacks
        self.spares = Spares(self._warm_keeper)

    @cached_property
    def dialogs(self) -> "Dialogs":
        from ostler.work.dialogs.open_dialogs import Dialogs

        return Dialogs(self._warden, self._call_terminals, self._store.turn_before)

    @cached_property
    def tuis(self) -> "Tuis":
        from ostler.work.tuis.open_tuis import Tuis

        return Tuis(self._terminals, self._store.turn_before, self._callbacks)

    @cached_property
    def panes(self) -> "Panes":
        from ostler.work.panes.open_panes import Panes

        return Panes(self._terminals, self._store, self._environ, self._settings_in, self._callbacks)

    def holds(self, session: str) -> bool:
        """Whether a process of this ostler is at work on the session's conversation."""
        return any(keeper.holds(session) for keeper in self._made().values())

    def idle(self) -> dict[str, tuple[float, str]]:
        """The sessions whose processes may be ended for want of memory: since when no turn uses them, and the agent.

        Dialogs, and screens that nobody has used yet: others may be looked at by people.
        """
        return {
            session: (since, keeper.agent_of(session))
            for keeper in self._with_idle()
            for session, since in keeper.idle_since().items()
        }

    async def end_idle(self, session: str) -> None:
        """Ends what no turn uses of this session."""
        for keeper in self._with_idle():
            if session in keeper.idle_since():
                await keeper.close(session)

    def of_turn(self, turn: str) -> "Dialogs | Tuis":
        """Who runs this turn; the dialogs, which say so, where nobody does."""
        screens: list[Tuis] = [self.__dict__[name] for name in ("tuis", "panes") if name in self.__dict__]
        return next((each for each in screens if each.running(turn) is not None), self.dialogs)

    def chosen_id(self, session: str, seen: bool = False) -> str | None:
        """The id of a conversation that a screen was started with and in which no turn was run yet.

        `seen`: of a screen that people could type into.
        """
        return self.tuis.chosen_id(session, seen) if "tuis" in self.__dict__ else None

    async def close(self, session: str, but: AnyTransport | None = None) -> None:
        """Ends what is kept for this session, but for what is for the transport `but`."""
        for transport, keeper in STAYING.items():
            if transport != but and self._keeps_something(keeper, session):
                await getattr(self, keeper).close(session)

    async def close_all(self) -> None:
        """Ends dialogs and screens; panes go on."""
        async with AsyncExitStack() as rest:  # the last one first, whatever fails
            for keeper in self._made().values():
                rest.push_async_callback(keeper.close)

    async def watch_idle_panes(self) -> None:
        """Shows panes that no process shows: for a process that stays."""
        if os.path.isdir(self._pane_folder()):
            await self.panes.watch_idle()

    def _made(self) -> "dict[str, Dialogs | Tuis]":
        return {name: self.__dict__[name] for name in STAYING.values() if name in self.__dict__}

    def _with_idle(self) -> "list[Dialogs | Tuis]":
        return [keeper for name, keeper in self._made().items() if name != "panes"]

    def _warm_keeper(self, transport: TransportName) -> WarmKeeper:
        keeper: WarmKeeper = getattr(self, STAYING[transport])
        return keeper

    def _keeps_something(self, keeper: str, session: str) -> bool:
        """A pane may have been made by another process, even one that is gone."""
        return keeper in self.__dict__ or (keeper == "panes" and os.path.lexists(self._pane_folder(session)))

    def _pane_folder(self, session: str = "") -> str:
        return os.path.join(self._store.folder, "tmux", "panes", session)
