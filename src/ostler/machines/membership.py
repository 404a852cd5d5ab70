"""A machine that has joined: it tells the directory that it lives and what it has, and knows the others."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Self

from msgspec import Struct, structs

from ostler import clock
from ostler.access import Rights
from ostler.errors import OstlerError
from ostler.machines import states
from ostler.machines.directory import Directory, Fenced
from ostler.machines.model import MachineFacts, MachineLoad, MachineRow, MachineState, SessionEntry
from ostler.machines.states import BEAT, Sightings, state_of
from ostler.machines.tokens import LASTS, MachineClaims, MachineKey, is_token, issuer_of_token, read_token
from ostler.model import Session
from ostler.store import Store
from ostler.store.sqlite import MACHINE_NOTE
from ostler.store.watch import StoreWatch
from ostler.supervise import Loop

_LOOK = 0.25  # seconds between looks at what changed in the store
_GOODBYE = 3.0  # seconds to say that it leaves
_REFRESH = 1.0  # seconds between looks at the directory for machines that are not known
_PATIENCE = 3.0  # seconds for which somebody who asks waits for the directory
INTEREST = 60.0  # seconds for which others are followed after somebody asked for them

_log = logging.getLogger(__name__)


class SeenMachine(Struct, frozen=True, kw_only=True):
    """A machine, and whether it lives."""

    row: MachineRow
    state: MachineState

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def answers(self) -> bool:
        """Whether it is worth asking it something."""
        return self.state in ("live", "draining")


class JoinOptions(Struct, frozen=True, kw_only=True):
    """What somebody said who has this machine join."""

    directory: str  # the address of Postgres; a password may stand in it
    name: str
    labels: tuple[str, ...] = ()
    url: str = ""  # where others reach it; "": where it listens
    ca: str = ""  # a file of certificates that prove the others, of those with an `https` address; "": the system's


async def machine_id(store: Store) -> str:
    """The id of this state folder, for ever."""
    id = store.note(MACHINE_NOTE)
    if not isinstance(id, str):
        id = os.urandom(8).hex()
        await store.set_note(MACHINE_NOTE, id)
    return id


class Membership:
    """From `async with` on this machine is known to the others, and they to it."""

    def __init__(
        self,
        directory: Directory,
        id: str,
        options: JoinOptions,
        watch: StoreWatch,
        facts: Callable[[], Awaitable[MachineFacts]],
    ) -> None:
        self.directory, self.id, self.name, self.ca = directory, id, options.name, options.ca
        self._options, self._watch, self._facts = options, watch, facts
        self._key = MachineKey()
        self.epoch = 0
        self.lease = 0  # another one than before: this machine was fenced, and what it held is not its own any more
        self.leased_until = 0.0  # by our clock; nobody fences this machine before
        self._ahead = 0.0  # of the directory's clock before ours
        self._seen: dict[str, SeenMachine] = {}
        self._sightings = Sightings()
        self._changed = asyncio.Event()
        self._fenced = False
        self._refreshed = float("-inf")
        self._wanted_until = float("-inf")  # others are followed until then, and while somebody waits for a change
        self._waiting = 0
        self._looked_at: dict[str, float] = {}  # machine → when its row was read
        self._whole_look = float("-inf")  # when all of them were read
        self._unseen_beats = False  # whether there were heartbeats since, at which nobody looked
        self._freshening = asyncio.Lock()
        self._steady_since: float | None = float("-inf")  # since when each heartbeat was taken
        self._shown: MachineFacts | None = None  # what the directory has of us, without the load
        self._version: int | None = None  # of the store, when the index was last told
        self._touched: int | None = None
        self._beating = Loop("reporting to the directory that this machine is up", self._beat, longest=BEAT)
        self._telling = Loop("reporting sessions to the directory", self._index_sessions, longest=5.0)

    async def __aenter__(self) -> Self:
        """Raises store if the directory cannot be used."""
        try:
            await self.directory.prepare()
            facts = await self._facts()
            options = self._options
            joined = await self.directory.join(self.id, options.name, options.url, self._key.public, facts)
            self.name, self.epoch, self.lease = joined
            await self._look(facts)
            await self._index_changes()
        except BaseException:
            await self.directory.close()
            raise
        self._beating.start()
        self._telling.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._beating.stop()
        await self._telling.stop()
        try:
            async with asyncio.timeout(_GOODBYE):
                await self.directory.leave(self.id, self.epoch)
        except (OstlerError, TimeoutError) as error:
            _log.warning("this machine could not say that it leaves: %s", error)
        await self.directory.close()

    # -- who there is

    @property
    def trouble(self) -> Exception | None:
        """Why the directory cannot be followed now."""
        return self._beating.trouble

    @property
    def me(self) -> SeenMachine:
        return self._seen[self.id]

    @property
    def machines(self) -> list[SeenMachine]:
        """By name; this one is among them. From now on they are followed for a while."""
        self.keep_watch()
        return sorted(self._seen.values(), key=lambda seen: (seen.name, seen.id))

    @property
    def others(self) -> list[SeenMachine]:
        return [seen for seen in self.machines if seen.id != self.id]

    def machine(self, key: str) -> SeenMachine | None:
        """By its name or id; of two that had a name, the one that lives."""
        found = [seen for seen in self.machines if key in (seen.id, seen.name)]
        return next((seen for seen in found if seen.answers), found[0] if found else None)

    def keep_watch(self) -> None:
        """Somebody needs to know the others: for a while each heartbeat reads them."""
        self._wanted_until = clock.monotonic() + INTEREST

    @property
    def watches(self) -> bool:
        """Whether the others are followed. Of hundreds of machines only those need to that somebody asks."""
        return self._waiting > 0 or clock.monotonic() < self._wanted_until

    async def fresh(self) -> None:
        """Sees to it that the others are known as they are, if the directory answers."""
        self.keep_watch()
        if not self._is_stale():
            return
        with suppress(TimeoutError):  # whoever asks is answered with what is known
            async with asyncio.timeout(_PATIENCE), self._freshening:
                if self._is_stale():  # nobody else has looked meanwhile
                    await self._refresh()

    def _is_stale(self) -> bool:
        """Whether more is known to the directory, which answers, than to us."""
        old = self._unseen_beats or clock.monotonic() - self._whole_look > 2 * states.BEAT
        return self.trouble is None and old

    async def changed(self) -> None:
        """Waits until the directory was looked at again."""
        self._waiting += 1
        try:
            await self._changed.wait()
        finally:
            self._waiting -= 1

    async def until_lost(self, id: str) -> None:
        """Waits until that machine does not answer any more, or was started anew."""
        first = self._seen.get(id)
        while first is not None and (seen := self._seen.get(id)) is not None:
            if not seen.answers or seen.row.epoch != first.row.epoch:
                return
            await self.changed()

    # -- how they know each other

    def sign_for(self, machine: SeenMachine, person: str, name: str, rights: Rights) -> str:
        """A token with which this machine asks that one, for somebody."""
        until = clock.now() + self._ahead + LASTS
        row = machine.row
        return self._key.sign(
            MachineClaims("machine", self.id, self.epoch, row.id, row.epoch, person, name, rights, until)
        )

    async def read_token(self, token: str) -> MachineClaims | None:
        """What another machine has signed for us; None for anything else."""
        if not is_token(token) or self._fenced:
            return None
        claims, issuer, now = self._read(token), issuer_of_token(token), clock.monotonic()
        if claims is None and issuer and now - self._refreshed >= _REFRESH:
            self._refreshed = now
            await self.refresh_one(issuer)  # one that has joined just now
        elif claims is not None and self.trouble is None and now - self._looked_at[issuer] > 2 * states.BEAT:
            await self.refresh_one(issuer)  # it may have left, or been removed
        else:
            return claims
        return self._read(token)

    def _read(self, token: str) -> MachineClaims | None:
        def issuer(id: str) -> MachineRow | None:
            seen = self._seen.get(id)
            return seen.row if seen is not None else None

        return read_token(token, issuer, self.me.row, clock.now() + self._ahead)

    # -- heartbeats

    async def _beat(self) -> None:
        await asyncio.sleep(BEAT)
        facts, watches = await self._facts(), self.watches
        try:
            await self._look(facts, watches)
        except OstlerError:
            self._steady_since = None
            raise
        if self._steady_since is None:
            self._steady_since = clock.monotonic()
        if watches:
            await self._fence()
        else:
            self._unseen_beats = True

    async def _look(self, facts: MachineFacts, whole: bool = True) -> None:
        begun, shown = clock.now(), structs.replace(facts, load=MachineLoad())
        news = shown if shown != self._shown else None
        try:
            beat = await self.directory.beat(self.id, self.epoch, facts.load, news, look=whole)
        except Fenced:
            self._fenced = True
            raise
        self._shown = shown
        self._ahead = beat.now - clock.now()
        self.lease, self.leased_until = beat.lease, begun + states.LEASE
        if whole:
            self._take(beat.machines)

    async def _fence(self) -> None:
        """Whoever sees it first ends the lease of a machine that has fallen silent; what it held is free then."""
        others = [seen for id, seen in self._seen.items() if id != self.id]
        for seen in others:
            if not seen.answers and not seen.row.left and not seen.row.fenced and await self.directory.fence(seen.row):
                _log.warning("machine %s is silent: its lease has ended, and what it held is free", seen.name)

    async def _refresh(self) -> None:
        try:
            self._take(await self.directory.machines())
        except OstlerError as error:
            _log.debug("the directory could not be looked at: %s", error)

    async def refresh_one(self, id: str) -> None:
        """Sees to it that this machine is known as it is, if the directory answers. The others are not read."""
        try:
            row = await self.directory.machine(id)
        except OstlerError as error:
            _log.debug("the directory could not be asked: %s", error)
            return
        if row is None and id != self.id:
            self._seen.pop(id, None)
        elif row is not None:
            self._seen[id] = SeenMachine(row=row, state=state_of(row, row.age))
            self._looked_at[id] = clock.monotonic()

    def _take(self, rows: list[MachineRow]) -> None:
        now = clock.monotonic()
        if self._steady_since is not None and now - self._whole_look > 3 * states.BEAT:
            self._sightings = Sightings(now - self._steady_since)  # nobody has looked for a while
        self._whole_look, self._unseen_beats = now, False
        self._looked_at = {row.id: now for row in rows}
        silent = self._sightings.look(rows, now)
        self._seen = {row.id: SeenMachine(row=row, state=state_of(row, silent[row.id])) for row in rows}
        self._changed.set()
        self._changed = asyncio.Event()

    # -- the index of sessions

    async def _index_sessions(self) -> None:
        await asyncio.sleep(_LOOK)
        await self._index_changes()

    async def _index_changes(self) -> None:
        version = self._watch.version()
        if version == self._version:
            return
        newest = self._watch.newest_touch()
        changed = self._watch.touched(self._touched) if self._touched is not None else None
        if changed is None or changed.lost:
            rows = self._watch.newest_sessions(-1)
            await self._put([_entry(self.id, row) for row in rows], (), whole=True)
            self._touched = newest
        else:
            rows = self._watch.sessions(changed.sessions)
            gone = changed.sessions - {row.id for row in rows}
            if changed.sessions:
                await self._put([_entry(self.id, row) for row in rows], gone, whole=False)
            self._touched = changed.last
        self._version = version

    async def _put(self, entries: "list[SessionEntry]", removed: "frozenset[str] | tuple[()]", *, whole: bool) -> None:
        await self.directory.put_sessions(self.id, self.epoch, entries, removed, whole)


def _entry(machine: str, row: Session) -> SessionEntry:
    return SessionEntry(
        machine=machine,
        id=row.id,
        agent=row.agent,
        folder=row.folder,
        state=row.state,
        created_at=row.created_at,
        used_at=row.used_at,
        name=row.name,
        turns=row.turns,
    )
