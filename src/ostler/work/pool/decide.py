"""Decides which turns may start: a pure function of who runs, who waits, the limits and what is free.

Turns start in order: by priority, which grows while a turn waits, then those whose folder has the fewest running
turns, then those whose folder was served longest ago. One that a limit keeps waiting is overtaken by those that need
nothing of that limit. Nothing starves: priority grows without bound, and what the first in line needs is kept free for
it once it has waited long.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from msgspec import Struct

from ostler.model.pool import (
    COMMAND,
    Claim,
    IdleProcess,
    PoolDecision,
    PoolLimits,
    PoolState,
    PoolTurn,
    SharedLimits,
    Waiting,
    WaitKind,
)

AGING = 30.0  # seconds of waiting that are worth one step of priority
PATIENCE = 60.0  # seconds after which nobody may take what the first in line waits for
SETTLING = 10.0  # seconds after which the machine's memory shows what a turn takes

LimitKey = tuple[str, str]
_TOTAL: LimitKey = ("total", "")


class _Wait(Struct, frozen=True):
    """What keeps a turn from starting."""

    kind: WaitKind
    reason: str
    until: float | None = None


def decide(state: PoolState) -> PoolDecision:
    """What may start now without exceeding anything, why all else waits, and which idle processes make room."""
    usage, sessions = _Usage(state), _Sessions(state)
    start: list[str] = []
    waits: dict[str, _Wait] = {}
    reserved = False
    line = _Line(state)
    for turn in line:
        wait = sessions.wait_of(turn) or _unready(state, turn) or usage.wait_of(turn)
        if wait is None:
            usage.add(turn)
            line.count(turn)
            start.append(turn.id)
            continue
        waits[turn.id] = wait
        if not reserved and wait.kind in ("limit", "shared", "memory") and state.now - turn.since >= PATIENCE:
            usage.reserve(turn.claim)
            reserved = True
    return PoolDecision(start=tuple(start), waiting=_places(state, waits), end=_to_end(state, waits))


def _places(state: PoolState, waits: dict[str, _Wait]) -> tuple[Waiting, ...]:
    """In the order in which they would start, if each fitted when it is its turn."""
    order, line = [], _Line(state)
    for turn in line:
        line.count(turn)
        if turn.id in waits:
            order.append(turn.id)
    return tuple(
        Waiting(turn=id, position=n, kind=waits[id].kind, reason=waits[id].reason, until=waits[id].until)
        for n, id in enumerate(order, 1)
    )


def may_start(state: PoolState, turn: str) -> bool:
    """Whether this one may start now."""
    return turn in decide(state).start


class _Line:
    """Those that wait, in the order in which they are to start: by priority, then the folder that has the least, then
    the one that was served longest ago. One that cannot start does not cost its folder its place, unless it is counted.
    """

    def __init__(self, state: PoolState) -> None:
        self._taken = Counter(turn.claim.folder for turn in state.turns if turn.runs)
        self._levels: dict[int, list[PoolTurn]] = {}
        for turn in state.turns:
            if not turn.runs:
                level = turn.claim.priority + int(max(0.0, state.now - turn.since) // AGING)
                self._levels.setdefault(level, []).append(turn)

    def __iter__(self) -> Iterator[PoolTurn]:
        for level in sorted(self._levels, reverse=True):
            queues = _by_folder(self._levels[level])
            heap = [self._place(queue[0]) for queue in queues.values()]
            heapify(heap)
            while heap:
                *_, folder = heappop(heap)
                yield queues[folder].popleft()
                if queues[folder]:
                    heappush(heap, self._place(queues[folder][0]))

    def _place(self, turn: PoolTurn) -> tuple[int, float, int, str]:
        return (self._taken[turn.claim.folder], turn.folder_served, turn.n, turn.claim.folder)

    def count(self, turn: PoolTurn) -> None:
        """The turn has its folder's place: the next of it goes behind the other folders."""
        self._taken[turn.claim.folder] += 1


def _by_folder(turns: list[PoolTurn]) -> dict[str, deque[PoolTurn]]:
    """Of each folder its sessions in turn: first the one that was served longest ago, then the oldest."""
    sessions: Counter[str] = Counter()
    placed = []
    for turn in sorted(turns, key=lambda turn: turn.n):
        placed.append((sessions[turn.session], turn.session_served, turn.n, turn))
        sessions[turn.session] += 1
    folders: dict[str, deque[PoolTurn]] = {}
    for *_, turn in sorted(placed, key=lambda each: each[:3]):
        folders.setdefault(turn.claim.folder, deque()).append(turn)
    return folders


class _Sessions:
    """Of each session one turn runs, and the others follow in the order in which they came."""

    def __init__(self, state: PoolState) -> None:
        self._busy = {turn.session for turn in state.turns if turn.runs}
        self._first: dict[str, int] = {}
        for turn in state.turns:
            if not turn.runs:
                self._first[turn.session] = min(turn.n, self._first.get(turn.session, turn.n))

    def wait_of(self, turn: PoolTurn) -> _Wait | None:
        if turn.session in self._busy:
            return _Wait("session", "the session is busy")
        if self._first[turn.session] != turn.n:
            return _Wait("session", "behind another turn of its session")
        return None


def _unready(state: PoolState, turn: PoolTurn) -> _Wait | None:
    """What only its session or its account waits for: no limit of the pool."""
    if turn.session in state.held:
        return _Wait("held", state.held[turn.session])
    until = state.parked.get(turn.claim.account)
    if until is not None and until > state.now:
        return _Wait("quota", f"{turn.claim.account} is limited", until)
    return None


def keys_of(claim: Claim) -> Iterable[LimitKey]:
    """The limits that a turn counts for. Commands have a limit of their own; the total is for agents."""
    if claim.nested:
        return
    if claim.agent != COMMAND:
        yield _TOTAL
    yield ("agent", claim.agent)
    yield ("account", claim.account)
    if claim.profile:
        yield ("profile", claim.profile)


def limits_by_key(limits: PoolLimits | SharedLimits) -> dict[LimitKey, int]:
    return {
        **({_TOTAL: limits.total} if limits.total is not None else {}),
        **{("agent", name): most for name, most in limits.agents.items()},
        **{("account", name): most for name, most in limits.accounts.items()},
        **{("profile", name): most for name, most in limits.profiles.items()},
    }


def key_text(key: LimitKey) -> str:
    """As it is written in the store, and told to other machines."""
    return ":".join(key)


class _Usage:
    """What is taken of each limit, by those that run, those that were started here, and what is kept free."""

    def __init__(self, state: PoolState) -> None:
        self._limits = limits_by_key(state.limits)
        self._shared = limits_by_key(state.limits.shared) if state.shared is not None else {}
        self._state = state
        self._taken: Counter[LimitKey] = Counter()
        self._kept: Counter[LimitKey] = Counter()  # free, for the first in line
        self._memory = 0.0
        self._unseen = 0.0  # what the machine's free memory does not show yet
        self._memory_kept = 0.0
        self._room = state.room
        self._running = 0
        for turn in state.turns:
            if turn.runs:
                self._count(turn.claim, state.now - turn.since < SETTLING)

    def _count(self, claim: Claim, unseen: bool) -> None:
        self._taken.update(keys_of(claim))
        self._running += not claim.nested
        self._memory += claim.memory_mb
        self._unseen += claim.memory_mb if unseen else 0.0

    def add(self, turn: PoolTurn) -> None:
        self._count(turn.claim, unseen=True)
        if self._room is not None and turn.owner == self._state.me:
            self._room -= 1

    def reserve(self, claim: Claim) -> None:
        """The total is not kept: whatever frees one of the others frees that too."""
        self._kept.update(key for key in keys_of(claim) if key != _TOTAL)
        self._memory_kept += claim.memory_mb

    def wait_of(self, turn: PoolTurn) -> _Wait | None:
        if turn.claim.nested:
            return None
        for key in keys_of(turn.claim):
            most = self._limits.get(key)
            if most is not None and self._taken[key] + self._kept[key] >= most:
                return _Wait("limit", _busy(key, self._taken[key], most))
            if key in self._shared and (wait := self._shared_wait(key)) is not None:
                return wait
        if self._room is not None and self._room <= 0 and turn.owner == self._state.me:
            return _Wait("files", "too few file descriptors")
        return self._memory_wait(turn.claim)

    def _shared_wait(self, key: LimitKey) -> _Wait | None:
        """What this machine has of a limit over all machines is as if the limit were so low."""
        shared, most = self._state.shared, self._shared[key]
        assert shared is not None
        if shared.until <= self._state.now:
            return _Wait("shared", "the limits over all machines are not known at the moment")
        held = shared.held.get(key_text(key), 0)
        if self._taken[key] + self._kept[key] < held:
            return None
        kind, name = key
        what = "turns" if kind == "total" else name if kind == "agent" else f"{kind} {name}"
        return _Wait("shared", f"{what}: this machine holds {held} of {most} shared slots")

    def _memory_wait(self, claim: Claim) -> _Wait | None:
        """Nothing that runs alone waits for memory: it would for ever."""
        if not self._running:
            return None
        need, most = claim.memory_mb, self._state.limits.memory_mb
        if most is not None and self._memory + self._memory_kept + need > most:
            return _Wait("memory", f"memory: {_mb(self._memory)} of {_mb(most)} taken, needs {_mb(need)}")
        available = self._state.available_mb
        if available is None:
            return None
        left = available - self._unseen - self._memory_kept
        if left - need < self._state.limits.free_memory_mb:
            return _Wait("memory", f"memory: {_mb(max(0.0, left))} free, needs {_mb(need)}")
        return None


def _busy(key: LimitKey, taken: int, most: int) -> str:
    kind, name = key
    if kind == "total":
        return f"{taken}/{most} turns busy"
    return f"{name} {taken}/{most} busy" if kind == "agent" else f"{kind} {name} {taken}/{most} busy"


def _mb(amount: float) -> str:
    return f"{amount / 1024:.1f} GB" if amount >= 1000 else f"{amount:.0f} MB"


def _to_end(state: PoolState, waits: dict[str, _Wait]) -> tuple[str, ...]:
    """Idle processes that are too old; and while turns wait for memory, the one that was used least recently."""
    old = [each.session for each in state.idle if each.kept_until is not None and each.kept_until <= state.now]
    if not any(wait.kind == "memory" for wait in waits.values()):
        return tuple(old)
    rest = [each for each in state.idle if each.session not in old and each.memory_mb > 0]
    longest: list[IdleProcess] = sorted(rest, key=lambda each: each.since)[:1]
    return (*old, *(each.session for each in longest))
