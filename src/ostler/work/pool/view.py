"""What people see of the pool: who runs, who waits and why, what is taken of each limit."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from ostler.model import Session, Waiting
from ostler.model.pool import PoolTurn
from ostler.work.pool.decide import LimitKey, key_text, keys_of, limits_by_key
from ostler.work.pool.pool import Pool, time_of_day


class RunningTurn(Struct, frozen=True, kw_only=True):
    """A turn that runs."""

    turn: str
    session: str
    name: str | None
    agent: str
    folder: str
    seconds: float


class WaitingTurn(Struct, frozen=True, kw_only=True):
    """A turn that waits. `position` 0: it is just about to start."""

    turn: str
    session: str
    name: str | None
    agent: str
    folder: str
    position: int
    reason: str
    until: float | None
    priority: int
    waited: float


class AgentMemory(Struct, frozen=True, kw_only=True):
    """What an agent is expected to take. `measured` is false while none of its turns was looked at."""

    agent: str
    memory_mb: float
    measured: bool


class UsedSlots(Struct, frozen=True, kw_only=True):
    """What is taken of a limit. `most` is null where there is none.

    `of_all`: the limit over all machines, if there is one; `held`: what this machine has of it.
    """

    kind: str  # total, agent, account or profile
    name: str
    taken: int
    most: int | None
    of_all: int | None = None
    held: int | None = None


class ParkedAccount(Struct, frozen=True, kw_only=True):
    account: str
    until: float


class QueueView(Struct, frozen=True, kw_only=True):
    """The pool at this moment. `waiting` is in the order in which the turns start."""

    running: tuple[RunningTurn, ...]
    waiting: tuple[WaitingTurn, ...]
    slots: tuple[UsedSlots, ...]
    memory: tuple[AgentMemory, ...]
    parked: tuple[ParkedAccount, ...]


def queue_view(pool: Pool, sessions: Mapping[str, Session]) -> QueueView:
    turns, now = pool.store.pool_turns(), pool.now()
    waits = pool.waiting()
    names = {id: session.name for id, session in sessions.items()}
    running = tuple(
        RunningTurn(
            turn=turn.id,
            session=turn.session,
            name=names.get(turn.session),
            agent=turn.claim.agent,
            folder=turn.claim.folder,
            seconds=max(0.0, now - turn.since),
        )
        for turn in turns
        if turn.runs
    )
    waiting = (_waiting(turn, waits[turn.id], names, now) for turn in turns if turn.id in waits and not turn.runs)
    agents = sorted({turn.claim.agent for turn in turns if turn.claim.agent})
    return QueueView(
        running=running,
        waiting=tuple(sorted(waiting, key=lambda each: each.position)),
        slots=used_slots(turns, pool),
        memory=tuple(
            AgentMemory(agent=name, memory_mb=pool.memory.of(name), measured=pool.memory.known(name) is not None)
            for name in agents
        ),
        parked=tuple(ParkedAccount(account=name, until=until) for name, until in sorted(pool.parked().items())),
    )


def _waiting(turn: PoolTurn, wait: Waiting, names: Mapping[str, str | None], now: float) -> WaitingTurn:
    return WaitingTurn(
        turn=turn.id,
        session=turn.session,
        name=names.get(turn.session),
        agent=turn.claim.agent,
        folder=turn.claim.folder,
        position=wait.position,
        reason=wait_text(wait),
        until=wait.until,
        priority=turn.claim.priority,
        waited=max(0.0, now - turn.since),
    )


def wait_text(wait: Waiting) -> str:
    """`claude 3/3 busy`; of a quota also when it is back."""
    return f"{wait.reason} until {time_of_day(wait.until)}" if wait.until is not None else wait.reason


def used_slots(turns: Iterable[PoolTurn], pool: Pool) -> tuple[UsedSlots, ...]:
    """Of each limit that is set, and of each agent that works."""
    taken = Counter(key for turn in turns if turn.runs for key in keys_of(turn.claim))
    limits, shared = pool.settings.pool, pool.store.shared_slots()
    of_all = limits_by_key(limits.shared) if shared is not None else {}
    most: dict[LimitKey, int | None] = {
        ("total", ""): None,
        **{("agent", name): None for kind, name in taken if kind == "agent"},
        **dict.fromkeys(of_all),
        **limits_by_key(limits),
    }
    held = shared.held if shared is not None else {}
    return tuple(
        UsedSlots(
            kind=key[0],
            name=key[1],
            taken=taken[key],
            most=n,
            of_all=of_all.get(key),
            # What runs is kept, though no more may start where others have a right to it.
            held=max(taken[key], held.get(key_text(key), 0)) if key in of_all else None,
        )
        for key, n in most.items()
    )


def usage_lines(view: QueueView) -> list[str]:
    """A line on what runs, and one on each account that is parked."""
    parts = [_slots(used) for used in view.slots if used.kind != "total"]
    total = next(used for used in view.slots if used.kind == "total")
    most = f"/{total.most}" if total.most is not None else ""
    lines = [f"running: {total.taken}{most} turns{_of_all(total)}" + (f" ({', '.join(parts)})" if parts else "")]
    if view.memory:
        lines.append(f"memory: {', '.join(map(_memory, view.memory))}")
    return lines + [f"parked: {each.account} until {time_of_day(each.until)}" for each in view.parked]


def _memory(each: AgentMemory) -> str:
    return f"{each.agent} {each.memory_mb:.0f} MB" + ("" if each.measured else " (not measured)")


def _slots(used: UsedSlots) -> str:
    name = used.name if used.kind == "agent" else f"{used.kind} {used.name}"
    return f"{name} {used.taken}" + (f"/{used.most}" if used.most is not None else "") + _of_all(used)


def _of_all(used: UsedSlots) -> str:
    return f" and {used.held}/{used.of_all} of all machines" if used.of_all is not None else ""
