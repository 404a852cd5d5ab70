"""Whether a machine lives: by its heartbeats, as somebody has seen them."""

from collections.abc import Iterable
from math import inf

from ostler.machines.model import MachineRow, MachineState

BEAT = 2.0  # seconds between two heartbeats
LEASE = 10.0  # seconds of silence after which a machine counts as unreachable
GONE = 3600.0  # and as gone


def state_of(row: MachineRow, silent: float) -> MachineState:
    """`silent`: seconds in which it was not heard of."""
    if row.left or silent > GONE:
        return "gone"
    if silent > LEASE:
        return "unreachable"
    return "draining" if row.draining else "live"


class Sightings:
    """How long each machine has been silent, by looks at the directory.

    Time in which the directory itself did not answer says nothing about the machines: it is not counted.
    """

    def __init__(self, longest: float = inf) -> None:
        """`longest`: seconds for which the directory could be written to, so that nobody was kept from it."""
        self._longest = longest
        self._seen: dict[str, tuple[int, int, float]] = {}  # machine → epoch, beat, seconds of silence
        self._looked_at: float | None = None

    def look(self, rows: Iterable[MachineRow], now: float) -> dict[str, float]:
        """Seconds of silence of each; `now` is any clock that only goes forward."""
        passed = 0.0 if self._looked_at is None else min(now - self._looked_at, 2 * BEAT)
        self._looked_at = now
        seen = {row.id: (row.epoch, row.beat, self._silent(row, passed)) for row in rows}
        self._seen = seen
        return {id: silent for id, (_, _, silent) in seen.items()}

    def _silent(self, row: MachineRow, passed: float) -> float:
        before = self._seen.get(row.id)
        if before is None:
            return min(row.age, self._longest)
        epoch, beat, silent = before
        return 0.0 if (row.epoch, row.beat) != (epoch, beat) else silent + passed
