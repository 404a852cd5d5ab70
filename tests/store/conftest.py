"""Makers of small whole values, a store in a scratch folder, and scripts run as real second processes."""

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ostler.model import Ended, Envelope, Session, Text, Turn, TurnRow
from ostler.store import Store


def session(id: str = "k3", **fields: Any) -> Session:
    return Session(**{"id": id, "agent": "script", "folder": "/w", "created_at": 1.0, "used_at": 1.0, **fields})


def row(id: str, session: str = "k3", **fields: Any) -> TurnRow:
    turn = Turn(id=id, session=session, agent="script", prompt=f"do {id}", folder="/w")
    return TurnRow(**{"id": id, "session": session, "state": "starting", "turn": turn, "created_at": 2.0, **fields})


def envelope(turn: str, session: str = "k3", **fields: Any) -> Envelope:
    plain = {"status": "ok", "outcome": "done", "summary": "s", "text": "t", "agent": "script", "served_by": "script"}
    return Envelope(**{**plain, "turn": turn, "session": session, "started_at": 2.0, "duration_ms": 5, **fields})


def texts(first: int, count: int, turn: str = "t1") -> list[Text]:
    return [Text(seq=seq, at=float(seq), turn=turn, text=f"event {seq}") for seq in range(first, first + count)]


def ended(seq: int, turn: str = "t1") -> Ended:
    return Ended(seq=seq, at=float(seq), turn=turn, outcome="done")


async def begin_old_turn(store: Store, row: TurnRow) -> None:
    """Begins a turn in a store of the first version, which knows nothing of the pool."""
    columns = "id, session, state, created_at, first_seq, turn"
    values = (row.id, row.session, "starting", row.created_at, 1, msgspec.json.encode(row.turn))
    await store._writer.write(
        lambda db: db.execute(f"INSERT INTO turns ({columns}) VALUES (?, ?, ?, ?, ?, ?)", values), full=True
    )
    await store.change_session(row.session, turns=1)


async def bump(store: Store, key: str) -> int:
    """Reads and writes in one transaction: the number under this key grows by one, and no two callers get the same."""

    def grown(db: sqlite3.Connection) -> int:
        found = db.execute("SELECT value FROM notes WHERE key = ?", (key,)).fetchone()
        count = int(found[0]) + 1 if found else 1
        db.execute("INSERT OR REPLACE INTO notes (key, value) VALUES (?, ?)", (key, b"%d" % count))
        return count

    return await store._writer.write(grown, full=False)


@pytest.fixture
def make() -> SimpleNamespace:
    makers = {"session": session, "row": row, "envelope": envelope, "texts": texts, "ended": ended, "bump": bump}
    return SimpleNamespace(**makers, begin_old_turn=begin_old_turn)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state", timeout=5) as store:
        yield store


PRELUDE = """
import asyncio, os, sys
from ostler.store import Store
from ostler.model import *
sys.path.insert(0, {here!r})
from conftest import session, row, envelope, texts, ended, bump
folder = sys.argv[1]
"""


@pytest.fixture
def script() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts a Python script, with the makers above at hand, as a process with text pipes; ended with the test."""
    started: list[subprocess.Popen[str]] = []

    from prefork import start_python  # not for the scripts, which import the makers

    def start(code: str, *args: object, **options: Any) -> "subprocess.Popen[str]":
        text = PRELUDE.format(here=str(Path(__file__).parent)) + code
        pipe = subprocess.PIPE
        streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe}
        started.append(start_python(text, *map(str, args), **streams, text=True, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
