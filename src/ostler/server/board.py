"""All sessions and terminals as frames for the page: kept once, sent to everybody who watches.

A viewer has no queue: it holds a number, and is told each row that changed since, as it is then.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from ostler.server.streams import frame
from ostler.server.views import SessionView, now_of, session_views
from ostler.store.watch import Watch
from ostler.words import TerminalRow

SESSIONS = 500  # the last used ones are told at first
ENDED_TERMINALS = 1000  # besides all live ones
_TOMBS = 2000
_LINES = 12  # of busy sessions that are read at one refresh: a hundred at once would hold up everybody
_PIECE = 64 * 1024

Key = tuple[str, str]  # what, id
_encode = msgspec.json.Encoder().encode


class Told(Struct):
    """What was last told of a row, and when by our count."""

    n: int
    data: bytes
    gone: bool = False


class Board:
    """What the page shows, as of the last `refresh`."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._n = 0
        self._told: OrderedDict[Key, Told] = OrderedDict()  # in the order of change
        self._all: tuple[int, list[bytes]] = (-1, [])
        self._views: dict[str, SessionView] = {}
        self._sessions_of: dict[str, str] = {}  # terminal → session
        self._said: dict[str, int] = {}  # busy session → seq of its last event that was looked at
        self._sessions: set[str] = set()  # to be read again
        self._terminals: set[str] = set()
        self._tombs = 0
        self._forgotten = 0  # the number up to which removals are no longer known
        self._changed, self._woken = asyncio.Event(), 0
        self._seen = 0  # how far the store's log of changes was read
        self.stale = False
        self._load()

    # -- for viewers

    def everything(self) -> tuple[int, list[bytes]]:
        """All rows, in pieces that all viewers share, and the number to go on from."""
        if self._all[0] != self._n:
            self._all = self._n, _pieces(told.data for told in self._told.values() if not told.gone)
        return self._all

    def since(self, n: int) -> tuple[int, bytes] | None:
        """What changed since; None if too much did: begin anew."""
        if n < self._forgotten:
            return None
        newest: list[bytes] = []
        for told in reversed(self._told.values()):
            if told.n <= n:
                break
            newest.append(told.data)
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
        self.stale = bool(self._sessions or self._terminals or self._said)

    def refresh(self) -> None:
        """Reads again what changed, and what busy sessions said."""
        if self._terminals:
            self._reread_terminals(self._terminals)
        if self._sessions:
            self._reread_sessions(self._sessions)
        self._terminals, self._sessions = set(), set()
        self.stale = self._listen()
        self._wake()

    def _load(self) -> None:
        """Everything anew."""
        self._seen = self._watch.newest_touch()  # first: what changes while we read is read again
        before = {key for key, told in self._told.items() if not told.gone}
        terminals = self._watch.newest_terminals(ENDED_TERMINALS)[::-1]
        views = session_views(self._watch, self._watch.newest_sessions(SESSIONS)[::-1])
        self._tell_terminals(terminals)
        self._tell_sessions(views)
        now = {*(("session", view.id) for view in views), *(("terminal", row.id) for row in terminals)}
        for key in before - now:
            self._gone(*key)
        self._wake()

    # -- below

    def _reread_terminals(self, ids: set[str]) -> None:
        rows = self._watch.terminals(ids)
        self._tell_terminals(rows)
        self._sessions |= {self._sessions_of[id] for id in ids if id in self._sessions_of}
        for id in ids - {row.id for row in rows}:
            self._gone("terminal", id)
            self._sessions_of.pop(id, None)

    def _reread_sessions(self, ids: set[str]) -> None:
        found = self._watch.sessions(ids)
        self._tell_sessions(session_views(self._watch, found))
        for id in ids - {row.id for row in found}:
            self._gone("session", id)

    def _tell_terminals(self, rows: Iterable[TerminalRow]) -> None:
        for row in rows:
            self._sessions_of[row.id] = row.session
            self._tell("terminal", row.id, _encode(row))

    def _tell_sessions(self, views: Iterable[SessionView]) -> None:
        for view in views:
            self._views[view.id] = view
            self._tell("session", view.id, _encode(view))
            if view.state in ("busy", "asking"):
                self._said.setdefault(view.id, 0)
            else:
                self._said.pop(view.id, None)

    def _listen(self) -> bool:
        """The line that says what a busy session does follows its journal. True: some are left for the next time."""
        if not self._said:
            return False
        seqs = self._watch.last_seqs(self._said)
        spoke = [id for id, seq in self._said.items() if seqs.get(id, seq) != seq]
        for id in spoke[:_LINES]:
            del self._said[id]  # who was heard last is the last in line
            self._said[id] = seqs[id]
            now = now_of(self._watch, self._views[id])
            told = {"doing": now.doing, "ask": now.asks.newest, "asks": now.asks.count}
            self._tell_sessions([msgspec.structs.replace(self._views[id], **told)])
        return len(spoke) > _LINES

    def _tell(self, what: str, id: str, data: bytes) -> None:
        self._put((what, id), frame(what, data), gone=False)

    def _gone(self, what: str, id: str) -> None:
        told = self._told.get((what, id))
        if told is None or told.gone:
            return
        self._views.pop(id, None)
        self._said.pop(id, None)
        self._put((what, id), frame("gone", _encode({"what": what, "id": id})), gone=True)
        self._tombs += 1
        if self._tombs > 2 * _TOMBS:
            self._forget_tombs()

    def _put(self, key: Key, data: bytes, *, gone: bool) -> None:
        before = self._told.get(key)
        if before is not None and before.data == data:
            return
        if before is not None and before.gone:
            self._tombs -= 1
        self._n += 1
        self._told[key] = Told(self._n, data, gone)
        self._told.move_to_end(key)

    def _forget_tombs(self) -> None:
        """A viewer that is so slow that it misses a removal begins anew (see `since`)."""
        tombs = [key for key, told in self._told.items() if told.gone]
        for key in tombs[:-_TOMBS]:
            self._forgotten = self._told.pop(key).n
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
