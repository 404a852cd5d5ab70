"""A new session goes to the machine that fits: by name, labels, repository and agent."""

from typing import Any

import msgspec
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.machines.membership import Membership, SeenMachine
from ostler.machines.placement import Wanted, place
from ostler.work import Ostler
from ostler.work.sessions.choice import choose

PLACEMENT = ("machine", "labels", "repo")  # what of a new session says where it goes


class PlacementRequest(Struct, frozen=True, kw_only=True):
    """What of the body of a new session says where it goes; the machine itself checks the rest."""

    agent: str
    folder: str | None = None
    machine: str | None = None
    labels: tuple[str, ...] | None = None
    repo: str | None = None


class SessionPlacer:
    def __init__(self, ostler: Ostler, membership: Membership) -> None:
        self._o, self._membership = ostler, membership
        self._placed: dict[str, tuple[int, int]] = {}  # machine → its beat, and what was placed on it since

    def place(self, body: bytes) -> tuple[SeenMachine, bytes] | None:
        """The machine, and the body for it; None: nothing says where it goes. Raises NoMachineFits."""
        try:
            asked = msgspec.json.decode(body, type=PlacementRequest)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None  # the route says what is wrong with it
        if all(getattr(asked, name) is None for name in PLACEMENT):
            return None
        wanted = Wanted(
            machine=asked.machine or "",
            labels=asked.labels or (),
            repo=asked.repo or "",
            agent=self._agent(asked.agent),
            folder=asked.folder or "",
        )
        machines = self._membership.machines
        placed = place(machines, wanted, {seen.id: self._since_beat(seen) for seen in machines})
        self._placed[placed.machine.id] = (placed.machine.row.beat, self._since_beat(placed.machine) + 1)
        given: dict[str, Any] = msgspec.json.decode(body)
        rest = {name: value for name, value in given.items() if name not in PLACEMENT}
        return placed.machine, msgspec.json.encode({**rest, **({"folder": placed.folder} if placed.folder else {})})

    def _since_beat(self, seen: SeenMachine) -> int:
        beat, count = self._placed.get(seen.id, (0, 0))
        return count if beat == seen.row.beat else 0

    def _agent(self, word: str) -> str:
        """The agent that is meant; "" for a profile that only other machines may know: then any will do."""
        try:
            return choose(self._o.settings, word).agent
        except OstlerError:
            known = {agent.name for seen in self._membership.machines for agent in seen.row.facts.agents}
            return word if word in known else ""
