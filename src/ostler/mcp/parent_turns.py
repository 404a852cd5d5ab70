"""The turns of agents that this process descends from: they ask for the turns that it delegates.

A variable alone could be forged: the environment of this process is what its parent made of it. So the marks of all
processes above it count as well, and the narrowest and deepest of what is found holds.
"""

import os
from collections.abc import Iterator, Mapping, Sequence

from ostler.errors import OstlerError
from ostler.model import TurnRow
from ostler.process import tree
from ostler.process.warden import stat
from ostler.store import Store
from ostler.work.turns.asking import turn_of_mark


def marks_above(store: Store, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The marks of this process and of those above it. One that an agent has cut off from itself counts as begun by
    each of the turns that the ostler above it runs.
    """
    found: list[str] = []
    owners = {(owner.pid, owner.start_time): owner.id for owner in store.owners()}
    above: list[str] = []  # the marks between this process and the next ostler
    for pid, start in _ancestors():
        if (mark := tree.mark_of(pid)) is not None:
            above.append(mark)
        if (owner := owners.get((pid, start))) is not None:
            found += above or [row.id for row in store.running_turns() if row.owner == owner]
            above = []
    own = environ.get(tree.MARK)
    return tuple(dict.fromkeys((*((own,) if own else ()), *found, *above)))


def _ancestors() -> Iterator[tuple[int, int]]:
    """Pid and start time of each process above this one."""
    pid = os.getppid()
    while pid > 1 and (found := stat(pid)) is not None:
        yield pid, found[3]
        pid = found[0]


def parent_turns(store: Store, marks: Sequence[str]) -> list[TurnRow]:
    """The turns behind the marks, as they are now, the deepest first. Raises denied for a mark that nobody knows."""
    rows = []
    for mark in marks:
        if (row := turn_of_mark(store, mark)) is None:
            raise OstlerError(
                "denied",
                f"this was started by a turn ({mark[:100]}) that is not in {store.folder}",
                "Leave OSTLER_TURN and OSTLER_HOME as ostler sets them",
            )
        rows.append(row)
    return sorted(rows, key=lambda row: -row.turn.depth)


def left_of(store: Store, parents: Sequence[TurnRow]) -> list[float]:
    """What each turn above may still spend by those below it, where it has a limit of its cost."""
    chain = {row.id: row for parent in parents for row in (parent, *_above(store, parent))}
    limits = {id: row.turn.limits.cost_usd for id, row in chain.items()}
    return [limit - _spent_below(store, id) for id, limit in limits.items() if limit is not None]


def _above(store: Store, row: TurnRow) -> Iterator[TurnRow]:
    known = row.turn.asked_by
    for _ in range(row.turn.depth):
        found = store.turn(known) if known else None
        if found is None:
            return
        yield found
        known = found.turn.asked_by


def _spent_below(store: Store, id: str) -> float:
    """What the turns below one cost; of one that has not ended, what it may."""
    return sum(_cost(row) + _spent_below(store, row.id) for row in store.turns_asked_by(id))


def _cost(row: TurnRow) -> float:
    if row.envelope is not None:
        return row.envelope.cost_usd or 0.0
    return row.turn.limits.cost_usd or 0.0
