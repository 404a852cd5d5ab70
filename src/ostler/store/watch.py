"""What those who watch a store read of it: what changed since, journals as they are stored, many rows at once."""

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ostler.model import Asked, Session, TerminalRow, TurnRow
from ostler.store import asks
from ostler.store.faults import sqlite_errors
from ostler.store.rows import TURN, read_session, read_terminal, turn_row
from ostler.store.schema import connect

if TYPE_CHECKING:  # only who waits for writes needs it
    from ostler.store.commits import Commits

Stored = tuple[int, bytes]  # an event as it is stored: seq, JSON


class Touched(Struct, frozen=True, kw_only=True):
    """What changed since a look. `lost`: too much to tell it apart, everything may have changed."""

    last: int  # from where to look the next time
    sessions: frozenset[str] = frozenset()
    terminals: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()
    lost: bool = False


class StoreWatch:
    """A reader with a connection of its own: what it reads never holds up those who work.

    Ids that are gone are left out of the answers.
    """

    def __init__(self, path: Path, timeout: float, closed: Callable[["StoreWatch"], None] = lambda _: None) -> None:
        self._path = path
        self._closed = closed
        self._lock = threading.Lock()
        self._db = connect(path, timeout, writes=False)

    def close(self) -> None:
        """May be called twice."""
        with self._lock:
            self._db.close()
        self._closed(self)

    # -- what changed

    def commits(self) -> "Commits":
        """Wakes whoever waits for the next write. Closed by its owner."""
        self.newest_touch()  # the WAL is there from the first read on
        from ostler.store.commits import Commits

        return Commits(self._path)

    def version(self) -> int:
        """Differs from the last answer once anybody, in any process, has committed something."""
        version: int = self._read("PRAGMA data_version")[0][0]
        return version

    def newest_touch(self) -> int:
        found: int = self._read("SELECT coalesce(max(n), 0) FROM touched")[0][0]
        return found

    def touched(self, after: int) -> Touched:
        """Sessions, terminals and runs of pipelines that were added, changed or removed since `after`."""
        rows = self._read("SELECT n, what, id FROM touched WHERE n > ? ORDER BY n", after)
        if not rows:
            return Touched(last=after)
        ids: dict[str, set[str]] = {"session": set(), "terminal": set(), "run": set()}
        for _, what, id in rows:
            ids.setdefault(what, set()).add(id)
        return Touched(
            last=rows[-1][0],
            sessions=frozenset(ids["session"]),
            terminals=frozenset(ids["terminal"]),
            runs=frozenset(ids["run"]),
            lost=rows[0][0] != after + 1,
        )

    # -- journals

    def last_seqs(self, sessions: Iterable[str]) -> dict[str, int]:
        """The seq of each session's last event; 0 where there is none."""
        query = (
            "SELECT id, coalesce((SELECT seq FROM events WHERE session = id ORDER BY seq DESC LIMIT 1), 0)"
            " FROM sessions WHERE id IN (SELECT value FROM json_each(?))"
        )
        return dict(self._read(query, _list(sessions)))

    def journal(self, session: str, after: int, limit: int, size: int) -> list[Stored]:
        """At most `limit` events beyond `after`, in order; fewer when they have `size` bytes together."""
        query = "SELECT seq, body FROM events WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"
        return self._some_events(query, session, after, limit, size)

    def journal_before(self, session: str, before: int, limit: int, size: int) -> list[Stored]:
        """At most `limit` of the last events before `before`, in order; fewer when they have `size` bytes together."""
        query = "SELECT seq, body FROM events WHERE session = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
        return self._some_events(query, session, before, limit, size)[::-1]

    def _some_events(self, query: str, session: str, bound: int, limit: int, size: int) -> list[Stored]:
        found: list[Stored] = []
        with sqlite_errors(self._path), self._lock:
            for seq, body in self._db.execute(query, (session, bound, limit)):
                found.append((seq, body))
                size -= len(body)
                if size <= 0:
                    break
        return found

    def newest_events(self, session: str, limit: int, enough: Callable[[bytes], bool]) -> None:
        """Hands over events, the newest first, until there are `enough`, or `limit`."""
        query = "SELECT body FROM events WHERE session = ? ORDER BY seq DESC LIMIT ?"
        with sqlite_errors(self._path), self._lock:
            for (body,) in self._db.execute(query, (session, limit)):
                if enough(body):
                    return

    def open_asks(self, session: str) -> tuple[int, Asked | None]:
        """How many asks of a session are open, and the newest of them."""
        count: int = self._read(asks.COUNT_OPEN, session)[0][0]
        newest = self._read(asks.SELECT_NEWEST, session, None) if count else []
        with sqlite_errors(self._path):
            return count, asks.read_asked(newest[0][0]) if newest else None

    # -- rows

    def newest_sessions(self, limit: int) -> list[Session]:
        """The last used first."""
        rows = self._read("SELECT body FROM sessions ORDER BY used_at DESC, id LIMIT ?", limit)
        return self._decoded(read_session, rows)

    def sessions(self, ids: Iterable[str]) -> list[Session]:
        query = "SELECT body FROM sessions WHERE id IN (SELECT value FROM json_each(?))"
        return self._decoded(read_session, self._read(query, _list(ids)))

    def current_turns(self, sessions: Iterable[str]) -> dict[str, TurnRow]:
        """Of each session the turn that runs, or else its last one."""
        query = (
            f"{TURN} WHERE n IN (SELECT coalesce("
            "(SELECT n FROM turns WHERE session = value AND state <> 'ended' AND state <> 'queued' LIMIT 1),"
            "(SELECT n FROM turns WHERE session = value ORDER BY n DESC LIMIT 1)) FROM json_each(?))"
        )
        rows = self._read(query, _list(sessions))
        with sqlite_errors(self._path):
            return {row.session: row for row in (turn_row(*row) for row in rows)}

    def turn_numbers(self, turns: Iterable[str]) -> dict[str, int]:
        """The place of each among the turns of its session, from 1."""
        query = (
            "SELECT t.id, (SELECT count(*) FROM turns o WHERE o.session = t.session AND o.n <= t.n)"
            " FROM turns t WHERE t.id IN (SELECT value FROM json_each(?))"
        )
        return dict(self._read(query, _list(turns)))

    def queued(self) -> dict[str, int]:
        """How many turns wait in line, by session."""
        query = "SELECT session, count(*) FROM turns WHERE state <> 'ended' AND state = 'queued' GROUP BY session"
        return dict(self._read(query))

    def newest_turn(self) -> int:
        """The number of the turn that was stored last."""
        found: int = self._read("SELECT coalesce(max(n), 0) FROM turns")[0][0]
        return found

    def outcomes(self, after: int, among: Iterable[int] = ()) -> list[tuple[int, str, str | None]]:
        """Of the turns beyond number `after` and those `among`: number, agent and outcome (None: not ended)."""
        query = (
            "SELECT n, json_extract(CAST(turn AS TEXT), '$.agent'),"
            " CASE state WHEN 'ended' THEN json_extract(CAST(envelope AS TEXT), '$.outcome') END"
            " FROM turns WHERE n > ? OR n IN (SELECT value FROM json_each(?))"
        )
        return self._read(query, after, msgspec.json.encode(list(among)).decode())

    def live_terminals(self, sessions: Iterable[str]) -> dict[str, list[str]]:
        """The ids of the live terminals of each session that has some, the newest first."""
        query = (
            "SELECT session, id FROM terminals WHERE state = 'live'"
            " AND session IN (SELECT value FROM json_each(?)) ORDER BY n DESC"
        )
        found: dict[str, list[str]] = {}
        for session, id in self._read(query, _list(sessions)):
            found.setdefault(session, []).append(id)
        return found

    def newest_terminals(self, ended: int) -> list[TerminalRow]:
        """All live ones, and of those that have ended so many of the newest."""
        query = (
            "SELECT body FROM (SELECT n, body FROM terminals WHERE state = 'live' UNION ALL"
            " SELECT * FROM (SELECT n, body FROM terminals WHERE state <> 'live' ORDER BY n DESC LIMIT ?))"
            " ORDER BY n DESC"
        )
        return self._decoded(read_terminal, self._read(query, ended))

    def terminals(self, ids: Iterable[str]) -> list[TerminalRow]:
        query = "SELECT body FROM terminals WHERE id IN (SELECT value FROM json_each(?)) ORDER BY n DESC"
        return self._decoded(read_terminal, self._read(query, _list(ids)))

    def newest_runs(self, limit: int) -> list[str]:
        """The ids of runs of pipelines, the newest first."""
        return [id for (id,) in self._read("SELECT id FROM runs ORDER BY created_at DESC, id LIMIT ?", limit)]

    def runs(self, ids: Iterable[str]) -> list[tuple[bytes, list[bytes]]]:
        """Runs as they are stored, the oldest first, each with those of its nodes that are stored."""
        wanted = _list(ids)
        nodes: dict[str, list[bytes]] = {}
        for run, body in self._read(
            "SELECT run, body FROM nodes WHERE run IN (SELECT value FROM json_each(?))", wanted
        ):
            nodes.setdefault(run, []).append(body)
        query = "SELECT id, body FROM runs WHERE id IN (SELECT value FROM json_each(?)) ORDER BY created_at, id DESC"
        return [(body, nodes.get(id, [])) for id, body in self._read(query, wanted)]

    # -- below

    def _read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with sqlite_errors(self._path), self._lock:
            return self._db.execute(query, values).fetchall()

    def _decoded(self, read: Any, rows: Sequence[tuple[bytes]]) -> list[Any]:
        with sqlite_errors(self._path):
            return [read(body) for (body,) in rows]


def _list(values: Iterable[str]) -> str:
    return msgspec.json.encode(list(values)).decode()
