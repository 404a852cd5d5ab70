"""Runs of pipelines and their nodes, as documents: what is in them is known to the room of pipelines alone."""

import sqlite3
from collections.abc import Callable, Iterable

RUN = "SELECT body FROM runs WHERE id = ?"
RUN_STATE = "SELECT state FROM runs WHERE id = ?"
RUNS = "SELECT body FROM runs ORDER BY created_at DESC, id"
RUNS_OPEN = "SELECT body FROM runs WHERE state IN ('running', 'cancelling')"
STATES_LIKE = "SELECT state FROM runs WHERE substr(id, 1, length(?1)) = ?1"
RUNS_LIKE = "SELECT body FROM runs WHERE substr(id, 1, length(?1)) = ?1 ORDER BY created_at DESC"
NODES = "SELECT body FROM nodes WHERE run = ? ORDER BY node"
NODE = "SELECT body FROM nodes WHERE run = ? AND node = ?"


def save_run(
    db: sqlite3.Connection, id: str, created_at: float, state: str, body: bytes, nodes: Iterable[tuple[str, bytes]]
) -> None:
    """With its nodes, instead of those that it had."""
    db.execute(
        "INSERT INTO runs (id, created_at, state, body) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET state = excluded.state, body = excluded.body",
        (id, created_at, state, body),
    )
    db.execute("DELETE FROM nodes WHERE run = ?", (id,))
    db.executemany("INSERT INTO nodes (run, node, body) VALUES (?, ?, ?)", [(id, *node) for node in nodes])


def change_run(db: sqlite3.Connection, id: str, change: Callable[[bytes], tuple[str, bytes]]) -> bytes | None:
    """The run as it is then; None: there is none. `change` gives its new state and body."""
    found = db.execute(RUN, (id,)).fetchone()
    if found is None:
        return None
    state, body = change(found[0])
    db.execute("UPDATE runs SET state = ?, body = ? WHERE id = ?", (state, body, id))
    return body


def change_node(db: sqlite3.Connection, run: str, node: str, change: Callable[[bytes | None], bytes]) -> bytes:
    """The node as it is then; `change` gets None for one that was never stored."""
    found = db.execute(NODE, (run, node)).fetchone()
    body = change(found[0] if found else None)
    db.execute("INSERT OR REPLACE INTO nodes (run, node, body) VALUES (?, ?, ?)", (run, node, body))
    return body
