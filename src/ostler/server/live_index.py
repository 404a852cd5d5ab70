"""All sessions, terminals and runs of pipelines as frames for the page: kept once, sent to everybody who watches.

A viewer has no queue: it holds a number, and is told each row that changed since, as it is then.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct

from ostler.model import TerminalRow
from ostler.server.replies import frame
from ostler.server.run_views import RunView, run_views
from ostler.server.views import SessionView, now_of, session_views
from ostler.store.watch import StoreWatch

SESSIONS = 500  # the last used ones are told at first
ENDED_TERMINALS = 1000  # besides all live ones
RUNS = 200  # the newest
_TOMBS = 2000
_LINES = 12  # of busy sessions that are read at one refresh: a hundred at once would hold up everybody
_PIECE = 64 * 1024

RowKind = Literal["session", "terminal", "run"]
RowKey = tuple[RowKind, str]  # what, id
_encode = msgspec.json.Encoder().encode


class Removed(Struct, frozen=True, kw_only=True):
    """A row that is no more."""

    what: RowKind
    id: str


class SentRow(Struct):
    """What was last told of a row, and when by our count."""

    n: int
    data: bytes
    gone: bool = False


class LiveIndex:
    """What the page shows, as of the last `refresh`."""

    def __init__(self, watch: StoreWatch) -> None:
        self._watch = watch
        self._n = 0
        self._sent: OrderedDict[RowKey, SentRow] = OrderedDict()  # in the order of change
        self._all: tuple[int, list[bytes]] = (-1, [])
        self._views: dict[str, SessionView] = {}
        self._sessions_of: dict[str, str] = {}  # terminal → session
        self._busy: dict[str, int] = {}  # busy session → seq of its last event that was looked at
        self._sessions: set[str] = set()  # to be read again
        self._terminals: set[str] = set()
        self._runs: set[str] = set()
        self._tombs = 0
        self._forgotten = 0  # the number up to which removals are no longer known
        self._changed, self._woken = asyncio.Event(), 0
        self._seen = 0  # how far the store's log of changes was read
        self.stale = False
        self._foreign: set[RowKey] = set()  # of other machines
        self._load()

    # -- for viewers

    def everything(self) -> tuple[int, list[bytes]]:
        """All rows, in pieces that all viewers share, and the number to go on from."""
        if self._all[0] != self._n:
            self._all = self._n, _pieces(sent.data for sent in self._sent.values() if not sent.gone)
        return self._all

    def since(self, n: int) -> tuple[int, bytes] | None:
        """What changed since; None if too much did: begin anew."""
        if n < self._forgotten:
            return None
        newest: list[bytes] = []
        for sent in reversed(self._sent.values()):
            if sent.n <= n:
                break
            newest.append(sent.data)
        return self._n, b"".join(reversed(newest))

    async def beyond(self, n: int) -> None:
        """Waits until something has changed since."""
        while self._n <= n:
            await self._changed.wait()

    # -- for the one who looks at the store

    def look(self) -> None:
        """Something was written: notes which rows are to be read again."""
        touched = self._watch.touched(self._seen)
        if touched.lost:
            self._load()
            return
        self._seen = touched.last
        self._sessions |= touched.sessions
        self._terminals |= touched.terminals
        self._runs |= touched.runs
        self.stale = bool(self._sessions or self._terminals or self._runs or self._busy)

    def refresh(self) -> None:
        """Reads again what changed, and what busy sessions said."""
        if self._terminals:
            self._reread_terminals(self._terminals)
        if self._sessions:
            self._reread_sessions(self._sessions)
        if self._runs:
            self._put_runs(run_views(self._watch, self._runs))
        self._terminals, self._sessions, self._runs = set(), set(), set()
        self.stale = self._refresh_busy()
        self._wake()

    def _load(self) -> None:
        """Everything anew."""
        self._seen = self._watch.newest_touch()  # first: what changes while we read is read again
        before = {key for key, sent in self._sent.items() if not sent.gone}
        terminals = self._watch.newest_terminals(ENDED_TERMINALS)[::-1]
        views = session_views(self._watch, self._watch.newest_sessions(SESSIONS)[::-1])
        runs = run_views(self._watch, self._watch.newest_runs(RUNS))
        self._put_terminals(terminals)
        self._put_sessions(views)
        self._put_runs(runs)
        now: set[RowKey] = {("session", view.id) for view in views}
        now |= {("terminal", row.id) for row in terminals} | {("run", run.id) for run in runs}
        for key in before - now - self._foreign:
            self._gone(*key)
        self._wake()

    # -- for those who follow other machines

    def put_foreign(self, what: RowKind, id: str, data: bytes) -> None:
        """A row of another machine. One of ours with the same id stays."""
        known = self._sent.get((what, id))
        if known is None or known.gone or (what, id) in self._foreign:
            self._foreign.add((what, id))
            self._put_row(what, id, data)
            self._wake()

    def remove_foreign(self, what: RowKind, id: str) -> None:
        if (what, id) in self._foreign:
            self._foreign.discard((what, id))
            self._gone(what, id)
            self._wake()

    # -- below

    def _reread_terminals(self, ids: set[str]) -> None:
        rows = self._watch.terminals(ids)
        self._put_terminals(rows)
        self._sessions |= {self._sessions_of[id] for id in ids if id in self._sessions_of}
        for id in ids - {row.id for row in rows}:
            self._gone("terminal", id)
            self._sessions_of.pop(id, None)

    def _reread_sessions(self, ids: set[str]) -> None:
        found = self._watch.sessions(ids)
        self._put_sessions(session_views(self._watch, found))
        for id in ids - {row.id for row in found}:
            self._gone("session", id)

    def _put_terminals(self, rows: Iterable[TerminalRow]) -> None:
        for row in rows:
            self._sessions_of[row.id] = row.session
            self._put_row("terminal", row.id, _encode(row))

    def _put_sessions(self, views: Iterable[SessionView]) -> None:
        for view in views:
            self._views[view.id] = view
            self._put_row("session", view.id, _encode(view))
            if view.state in ("busy", "asking"):
                self._busy.setdefault(view.id, 0)
            else:
                self._busy.pop(view.id, None)

    def _put_runs(self, views: Iterable[RunView]) -> None:
        for view in views:
            key: RowKey = ("run", view.id)
            if view.state != "moved":
                self._foreign.discard(key)
            elif key in self._foreign:
                continue  # the machine that has it by now has told of it
            else:
                self._foreign.add(key)
            self._put_row("run", view.id, _encode(view))

    def _refresh_busy(self) -> bool:
        """The line that says what a busy session does follows its journal. True: some are left for the next time."""
        if not self._busy:
            return False
        seqs = self._watch.last_seqs(self._busy)
        changed = [id for id, seq in self._busy.items() if seqs.get(id, seq) != seq]
        for id in changed[:_LINES]:
            del self._busy[id]  # who was heard last is the last in line
            self._busy[id] = seqs[id]
            now = now_of(self._watch, self._views[id])
            changes = {"doing": now.doing, "ask": now.asks.newest, "asks": now.asks.count}
            self._put_sessions([msgspec.structs.replace(self._views[id], **changes)])
        return len(changed) > _LINES

    def _put_row(self, what: RowKind, id: str, data: bytes) -> None:
        self._put((what, id), frame(what, data), gone=False)

    def _gone(self, what: RowKind, id: str) -> None:
        sent = self._sent.get((what, id))
        if sent is None or sent.gone:
            return
        self._views.pop(id, None)
        self._busy.pop(id, None)
        self._put((what, id), frame("gone", _encode(Removed(what=what, id=id))), gone=True)
        self._tombs += 1
        if self._tombs > 2 * _TOMBS:
            self._forget_tombs()

    def _put(self, key: RowKey, data: bytes, *, gone: bool) -> None:
        before = self._sent.get(key)
        if before is not None and before.data == data:
            return
        if before is not None and before.gone:
            self._tombs -= 1
        self._n += 1
        self._sent[key] = SentRow(self._n, data, gone)
        self._sent.move_to_end(key)

    def _forget_tombs(self) -> None:
        """A viewer that is so slow that it misses a removal begins anew (see `since`)."""
        tombs = [key for key, sent in self._sent.items() if sent.gone]
        for key in tombs[:-_TOMBS]:
            self._forgotten = self._sent.pop(key).n
        self._tombs = _TOMBS

    def _wake(self) -> None:
        if self._woken != self._n:
            self._woken = self._n
            self._changed.set()
            self._changed = asyncio.Event()


def _pieces(frames: Iterable[bytes]) -> list[bytes]:
    """Joined to pieces of some size."""
    pieces: list[bytes] = []
    piece: list[bytes] = []
    size = 0
    for data in frames:
        piece.append(data)
        size += len(data)
        if size >= _PIECE:
            pieces.append(b"".join(piece))
            piece, size = [], 0
    return [*pieces, b"".join(piece)] if piece else pieces
