"""On which machine a session, turn, terminal or run is: here, by the index in the directory, or by asking around."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from ostler.errors import OstlerError, quoted
from ostler.machines.membership import Membership, SeenMachine
from ostler.machines.model import SessionEntry
from ostler.machines.on_option import no_machine_called
from ostler.machines.run_index import RunIndex
from ostler.server.addressing import AddressKind, target_of
from ostler.server.auth import Person
from ostler.store.runs import STATES_LIKE
from ostler.work import Ostler

_KNOWN = 10_000
_PLURAL: dict[AddressKind, str] = {"session": "sessions", "turn": "turns", "terminal": "terminals", "run": "runs"}

Get = Callable[[SeenMachine, Person, str], Awaitable[tuple[int, bytes]]]


class MachineFinder:
    def __init__(self, ostler: Ostler, membership: Membership, get: Get) -> None:
        self._o, self._membership, self._get = ostler, membership, get
        self._known: OrderedDict[tuple[AddressKind, str], str] = OrderedDict()  # machine, of what was found elsewhere

    def named(self, name: str) -> SeenMachine:
        """Raises not_found."""
        machine = self._membership.machine(name)
        if machine is None:
            raise no_machine_called(name, [seen.name for seen in self._membership.machines])
        return machine

    async def find(self, kind: AddressKind, key: str, person: Person) -> tuple[str, SeenMachine | None]:
        """The key without the machine that it may name (`k3pq@hawk`), and the machine; None: look for it here.

        Raises bad_request for an id that several machines have.
        """
        bare, at, name = key.rpartition("@")
        if at and (machine := self._membership.machine(name)) is not None:
            return bare, machine
        if self._is_here(kind, key):
            return key, None
        known = self._membership.machine(self._known.get((kind, key), ""))
        if known is not None and known.answers:
            return key, known
        found = await self._in_directory(kind, key) or await self._around(kind, key, person)
        found = found or known  # it is away, and still has it
        if found is not None:
            self._remember(kind, key, found)
        return key, found

    def _is_here(self, kind: AddressKind, key: str) -> bool:
        store = self._o.store
        if kind == "turn":
            return store.turn(key) is not None
        if kind == "terminal":
            return any(key in (row.id, row.name) for row in self._o.terminals.list())
        if kind == "run":
            return key == "last" or any(state != "moved" for state in store.documents(STATES_LIKE, key))
        return any(key in (row.id, row.name) for row in store.find(key))

    async def _in_directory(self, kind: AddressKind, key: str) -> SeenMachine | None:
        if kind == "terminal":
            return None  # there is no index of them
        if kind == "run":
            return await self._of_run(key)
        session = key.rpartition("-")[0] if kind == "turn" else key
        try:
            found = await self._membership.directory.find_sessions(session)
        except OstlerError:
            return None  # Postgres is away: the machines themselves are asked
        elsewhere = [entry for entry in found if entry.machine != self._membership.id]
        if kind == "session" and self._o.store.find(key) and not any(key in (e.id, e.name) for e in elsewhere):
            return None  # the beginning of an id of ours
        if len({entry.machine for entry in elsewhere}) > 1:
            raise self._ambiguous(key, elsewhere)
        return self._membership.machine(elsewhere[0].machine) if elsewhere else None

    async def _of_run(self, id: str) -> SeenMachine | None:
        try:
            found = await RunIndex(self._membership.directory).find(id)
        except OstlerError:
            return None  # Postgres is away, or no run was ever told of
        return self._membership.machine(found.machine) if found is not None and found.machine else None

    def _ambiguous(self, key: str, found: list[SessionEntry]) -> OstlerError:
        names = {entry.machine: (self._membership.machine(entry.machine), entry.id) for entry in found}
        choices = ", ".join(sorted(f"{id}@{seen.name}" for seen, id in names.values() if seen is not None))
        return OstlerError("bad_request", f"{quoted(key)} could be any of {choices}", "Name the machine too")

    async def _around(self, kind: AddressKind, key: str, person: Person) -> SeenMachine | None:
        """The machine that says that it has it: one that the index does not know of yet, or a terminal."""
        others = [seen for seen in self._membership.others if seen.answers]
        target = target_of(f"/api/{_PLURAL[kind]}/{key}", "")
        answers = await asyncio.gather(*(self._get(seen, person, target) for seen in others), return_exceptions=True)
        for seen, answer in zip(others, answers, strict=True):
            if not isinstance(answer, BaseException) and answer[0] == 200:
                return seen
        return None

    def _remember(self, kind: AddressKind, key: str, machine: SeenMachine) -> None:
        self._known[kind, key] = machine.id
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)
