"""Which turn stands behind a mark: the one whose agent, or a program of its, began something."""

from collections.abc import Mapping
from typing import Any

from ostler.model import TurnRow
from ostler.process.tree import MARK
from ostler.store import Store

_PANE = "pane-"


def asked_by(store: Store, environ: Mapping[str, str]) -> dict[str, Any]:
    """Of a turn that a process with this environment begins: who asked for it, and its depth."""
    mark = environ.get(MARK)
    row = turn_of_mark(store, mark) if mark else None
    return {"asked_by": row.id, "depth": row.turn.depth + 1} if row is not None else {}


def turn_of_mark(store: Store, mark: str) -> TurnRow | None:
    """By the mark of a process of its: a turn, a session (a process for many turns) or a terminal has given it."""
    if (row := store.turn(mark)) is not None:
        return row
    terminal = store.terminal(mark)
    session = terminal.session if terminal is not None else mark.removeprefix(_PANE)
    current = store.next_turn(session)
    if current is not None:
        return store.turn(current)
    turns = store.turns(session)
    return turns[-1] if turns else None
