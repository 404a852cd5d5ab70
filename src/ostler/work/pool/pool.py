"""The pool of a process: what its turns ask for, and whether the store's transaction lets them start."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, structs

from ostler import clock
from ostler.errors import OstlerError, kind_of_os_error
from ostler.model import Owner, Turn, Waiting
from ostler.model.pool import Claim, IdleProcess, PoolDecision, PoolState, PoolTurn, SharedLimits
from ostler.process import tree
from ostler.process.warden import stat
from ostler.settings import Settings
from ostler.store import Store
from ostler.store.pool import PoolRows, StartCheck
from ostler.work.pool.decide import decide, key_text, keys_of, limits_by_key, may_start
from ostler.work.pool.memory import LearnedMemory, available_mb
from ostler.work.pool.quota import account_of
from ostler.work.pool.spending import check_spending

FILES_PER_TURN = 24  # descriptors that a turn may take of this process: pipes, a terminal, artifacts
_STOPPED = b"Tt"


class Pool:
    """Every turn of this process goes through it. Limits are counted over all ostler processes of the store."""

    def __init__(self, store: Store, owner: str, settings: Settings, environ: Mapping[str, str]) -> None:
        self.store, self.owner, self.settings = store, owner, settings
        self.memory = LearnedMemory(store)
        self.idle: Callable[[], Iterable[IdleProcess]] = tuple  # what this process keeps for later
        self.held: dict[str, str] = {}  # a session of this process that must not begin a turn now → why
        self._nested = bool(environ.get(tree.MARK))

    # -- what a turn asks for

    def claim_of(self, turn: Turn, settings: Settings) -> Claim:
        """`settings` are those of its folder."""
        return Claim(
            agent=turn.agent,
            account=account_of(turn, settings),
            profile=turn.profile or "",
            folder=turn.folder,
            priority=turn.priority,
            memory_mb=self.memory.of(turn.agent),
            nested=self._nested,
        )

    def check(self, turn: Turn, settings: Settings) -> None:
        """Raises over_budget before a turn begins for which no money is left."""
        check_spending(self.store, settings.spending, turn.profile or turn.agent, clock.now())

    def now(self) -> float:
        return clock.now()

    def parked(self) -> dict[str, float]:
        """The accounts whose quota is used up, and until when."""
        return self.store.parked(clock.now())

    # -- whether it may start

    def gate(self, wait: bool = True) -> StartCheck:
        """For the transaction that starts the turn. Raises limited for a quota that is used up, unless `wait`."""

        def admits(rows: PoolRows, id: str) -> bool:
            if len(rows.turns) == 1 and not rows.parked and rows.shared is None:
                return True  # nobody else runs or waits
            state = self.state(rows)
            new = next(turn for turn in rows.turns if turn.id == id)
            until = rows.parked.get(new.claim.account, 0.0)
            if until > state.now and not wait:
                raise limited_error(new.claim.account, until)
            return may_start(state, id)

        return admits

    def state(self, rows: PoolRows) -> PoolState:
        """What a decision depends on, as it is now. Raises too_many where not even a file of /proc can be opened."""
        try:
            return self._state(rows)
        except OSError as error:
            kind = kind_of_os_error(error, "store")
            raise OstlerError(kind, f"the free memory and files of this machine cannot be read: {error}") from error

    def _state(self, rows: PoolRows) -> PoolState:
        waiting = [turn for turn in rows.turns if not turn.runs]
        stopped = {owner.id for owner in self._owners_of(waiting) if _is_stopped(owner)}
        held = {turn.session: "its ostler process is stopped" for turn in waiting if turn.owner in stopped}
        return PoolState(
            now=clock.now(),
            turns=rows.turns,
            limits=self.settings.pool,
            shared=rows.shared,
            parked=rows.parked,
            held={**held, **self.held},
            available_mb=available_mb() if any(turn.runs for turn in rows.turns) else None,
            me=self.owner,
            room=_room(),
        )

    def _owners_of(self, turns: Iterable[PoolTurn]) -> list[Owner]:
        ids = {turn.owner for turn in turns} - {self.owner, None}
        return [owner for owner in self.store.owners() if owner.id in ids] if ids else []

    def look(self) -> PoolDecision:
        """What could start now, and why all else waits."""
        return decide(structs.replace(self.state(self.store.pool_rows()), idle=tuple(self.idle())))

    def shared_demand(self) -> "SharedDemand":
        """What this machine takes of limits over all machines, and could take if it were not for these limits."""
        state = structs.replace(self.state(self.store.pool_rows()), shared=None)
        start, limits = set(decide(state).start), self.settings.pool.shared
        running = [turn for turn in state.turns if turn.runs]
        coming = [turn for turn in state.turns if turn.id in start]
        return SharedDemand(shared_use(running, limits), shared_use((*running, *coming), limits))

    def waiting(self) -> dict[str, Waiting]:
        """Why each turn that waits does so, by its id. One that may start, and has not yet, is next."""
        decision = self.look()
        waiting = {wait.turn: wait for wait in decision.waiting}
        starting = (Waiting(turn=id, position=0, kind="limit", reason="starting") for id in decision.start)
        return {**waiting, **{wait.turn: wait for wait in starting}}


class SharedDemand(Struct, frozen=True):
    """Of each limit over all machines: what runs, and what runs or could start."""

    running: dict[str, int]
    wanted: dict[str, int]


def shared_use(turns: Iterable[PoolTurn], limits: SharedLimits) -> dict[str, int]:
    """What these turns take of each limit over all machines."""
    counted = limits_by_key(limits)
    taken = Counter(key for turn in turns for key in keys_of(turn.claim))
    return {key_text(key): taken[key] for key in counted if taken[key]}


def limited_error(account: str, until: float) -> OstlerError:
    return OstlerError(
        "limited",
        f"the quota of {account} is used up until {time_of_day(until)}",
        "Wait for it with --wait, let another agent take the turn with --fallback AGENT,"
        f" or start anyway: ostler queue --resume {account}",
        retry_at=until,
    )


def time_of_day(at: float) -> str:
    """For people: the hour, and the day where it is not within a day."""
    import time

    return time.strftime("%H:%M" if at - clock.now() < 86400 else "%d %b %H:%M", time.localtime(at))


def _is_stopped(owner: Owner) -> bool:
    """Whether somebody sent it SIGSTOP: it cannot start what is its to start, and must not hold up others."""
    found = stat(owner.pid)
    return found is not None and found[1] in _STOPPED


def _room() -> int | None:
    """For how many turns this process has file descriptors."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError:
        return None  # no /proc: nobody can tell
    return max(0, soft - used) // FILES_PER_TURN
