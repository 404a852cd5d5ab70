"""How much memory agents take: measured while they run, learned for each agent, kept in the store."""

import logging
import os
from collections.abc import Iterable

from ostler import clock
from ostler.errors import OstlerError
from ostler.process import tree
from ostler.process.warden import read
from ostler.store import Store

UNKNOWN_MB = 200.0  # of an agent that was never measured
_FRESH = 10.0  # seconds for which what was read of the store counts
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)

_log = logging.getLogger(__name__)


def available_mb() -> float | None:
    """What of the machine's memory programs can still get; None where the kernel does not say."""
    for line in read("/proc/meminfo", 4096).splitlines():
        if line.startswith(b"MemAvailable:"):
            return int(line.split()[1]) / 1024
    return None


def resident_mb(pid: int) -> float:
    """What a process has in memory; 0 once it is gone."""
    fields = read(f"/proc/{pid}/statm", 256).split()
    return int(fields[1]) * _PAGE_MB if len(fields) > 1 else 0.0


def resident_by_session(below: Iterable[int], sessions: Iterable[str]) -> dict[str, float]:
    """What the marked processes below these have in memory, by session: a dialog keeps the mark of its first turn."""
    found = dict.fromkeys(sessions, 0.0)
    for pid in tree.below(list(below)):
        session = (tree.mark_of(pid) or "").rpartition("-")[0]
        if session in found:
            found[session] += resident_mb(pid)
    return found


def learned(before: float | None, peak: float) -> float:
    """A peak above what is known counts at once; what is known sinks slowly towards smaller ones."""
    if before is None or peak > before:
        return peak
    return before * 0.8 + peak * 0.2


class LearnedMemory:
    """What each agent took so far. Peaks of this process's turns are noted when they end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[float, float | None]] = {}  # agent → when it was read, and what was known
        self.peaks: dict[str, float] = {}  # session → the most that its processes had during its turn

    def of(self, agent: str) -> float:
        """What a turn of this agent is expected to take."""
        known = self.known(agent)
        return UNKNOWN_MB if known is None else known

    def known(self, agent: str) -> float | None:
        """What was learned of it; None: nothing yet."""
        read_at, value = self._known.get(agent, (-_FRESH, None))
        if clock.monotonic() - read_at >= _FRESH:
            note = self._store.note(_key(agent))
            value = float(note) if isinstance(note, int | float) else None
            self._known[agent] = (clock.monotonic(), value)
        return value

    def sample(self, below: Iterable[int], sessions: Iterable[str]) -> None:
        """Looks at what the turns of these sessions have now."""
        for session, amount in resident_by_session(below, sessions).items():
            self.peaks[session] = max(amount, self.peaks.get(session, 0.0))

    async def learn(self, agent: str, session: str) -> None:
        """Keeps what a turn that has ended took, if it was measured and says anything new."""
        peak = self.peaks.pop(session, 0.0)
        before = self.known(agent)
        if not peak or (before is not None and abs(learned(before, peak) - before) < max(1.0, before * 0.02)):
            return
        value = round(learned(before, peak), 1)
        self._known[agent] = (clock.monotonic(), value)
        try:
            await self._store.set_note(_key(agent), value)
        except OstlerError as error:
            _log.debug("the memory of %s is not kept: %s", agent, error)


def _key(agent: str) -> str:
    return f"pool:memory:{agent}"
