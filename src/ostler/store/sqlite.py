"""The store: sessions, turns, journals and owners in one SQLite file that many processes share."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from ostler.errors import OstlerError
from ostler.store import changes, terminals
from ostler.store import once as keys
from ostler.store.faults import edge
from ostler.store.files import private_folder, session_folder, typed
from ostler.store.once import Once
from ostler.store.rows import TURN, read_session, read_terminal, turn_row
from ostler.store.schema import connect, prepare
from ostler.store.watch import Watch
from ostler.store.writer import Writer
from ostler.words import EVENT_DECODER, AnyEvent, Envelope, Owner, Session, TerminalRow, TurnRow, TurnState

P = ParamSpec("P")
T = TypeVar("T")

_NAME = "ostler.db"
_READ_TIMEOUT = 5.0  # reads run on the event loop: readers hardly ever wait, and must not wait long

_owner = msgspec.json.Decoder(Owner).decode


class Store:
    """Reads are synchronous. Writes are awaited and return once committed; cancelling the wait undoes nothing."""

    def __init__(self, folder: Path, path: Path, timeout: float) -> None:
        self.folder = folder
        self._path = path
        self._lock = threading.Lock()
        self._watches: list[Watch] = []
        self._reader = connect(path, min(timeout, _READ_TIMEOUT), writes=False)
        try:
            self._writer = Writer(path, timeout)
        except BaseException:
            self._reader.close()
            raise

    @classmethod
    def open(cls, folder: str | Path, *, timeout: float = 30.0) -> "Store":
        """Opens or creates the store of a state folder; raises `store` with what to do.

        `timeout`: how many seconds a write waits for another process that holds the database.
        """
        folder = private_folder(Path(folder).absolute(), known=_NAME)
        path = folder / _NAME
        with typed(path):
            _private_file(path)
        ours = os.access in os.supports_effective_ids
        if not all(os.access(each, os.R_OK | os.W_OK, effective_ids=ours) for each in (folder, path)):
            raise OstlerError("store", f"{path} is not writable", "Change its permissions or choose another folder")
        with edge(path), contextlib.closing(connect(path, timeout, writes=True)) as db:
            prepare(db, path, timeout)
            return cls(folder, path, timeout)

    def close(self) -> None:
        """Commits what was handed over and lets go of the files. May be called twice."""
        self._writer.close()
        for watch in self._watches:
            watch.close()
        with self._lock:
            self._reader.close()

    def watch(self) -> Watch:
        """A reader for those who watch; closed with the store, if not before."""
        with edge(self._path):
            self._watches.append(Watch(self._path, _READ_TIMEOUT))
        return self._watches[-1]

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- reading ------------------------------------------------------------------------------------

    def session(self, id: str) -> Session | None:
        return next(iter(self._sessions("WHERE id = ?", id)), None)

    def find(self, key: str) -> list[Session]:
        """The session of this id; else those of this name; else those whose id begins so. Newest used first."""
        return (
            self._sessions("WHERE id = ?", key)
            or self._sessions("WHERE name = ? ORDER BY used_at DESC, id", key)
            or self._sessions("WHERE ? <> '' AND substr(id, 1, length(?1)) = ?1 ORDER BY used_at DESC, id", key)
        )

    def latest(self, agent: str, folder: str) -> Session | None:
        """The session last used with this agent in this folder, closed ones left out."""
        where = "WHERE agent = ? AND folder = ? AND state <> 'closed' ORDER BY used_at DESC, id LIMIT 1"
        return next(iter(self._sessions(where, agent, folder)), None)

    def sessions(self, *, limit: int | None = None) -> list[Session]:
        """Newest used first."""
        return self._sessions("ORDER BY used_at DESC, id LIMIT ?", -1 if limit is None else limit)

    def turn(self, id: str) -> TurnRow | None:
        return next(iter(self._turns("WHERE id = ?", id)), None)

    def turns(self, session: str) -> list[TurnRow]:
        """In the order in which they were begun or queued."""
        return self._turns("WHERE session = ? ORDER BY n", session)

    def last_turn(self, session: str) -> TurnRow | None:
        return next(iter(self._turns("WHERE session = ? ORDER BY n DESC LIMIT 1", session)), None)

    def last_ended(self, session: str) -> TurnRow | None:
        """Of the turns that have ended, the one that was begun or queued last."""
        where = "WHERE session = ? AND state = 'ended' ORDER BY n DESC LIMIT 1"
        return next(iter(self._turns(where, session)), None)

    def turn_before(self, id: str) -> str | None:
        """The turn of the same session that was begun or queued just before this one."""
        place = "SELECT session, n FROM turns WHERE id = ?"
        query = (
            f"SELECT t.id FROM turns t, ({place}) o WHERE t.session = o.session AND t.n < o.n ORDER BY t.n DESC LIMIT 1"
        )
        found = self._read(query, id)
        return found[0][0] if found else None

    def next_turn(self, session: str) -> str | None:
        """The turn that runs, or else the first one in line."""
        query = f"SELECT id FROM turns WHERE session = ? AND state <> 'ended' {changes.IN_LINE} LIMIT 1"
        found = self._read(query, session)
        return found[0][0] if found else None

    def running_turns(self) -> list[TurnRow]:
        """Every turn that has not ended, queued ones too."""
        return self._turns("WHERE state <> 'ended' ORDER BY n")

    def events(self, session: str, after: int = 0, limit: int | None = None, turn: str | None = None) -> list[AnyEvent]:
        """The session's journal beyond `after`, in order; of one turn only if `turn` is given."""
        where, values = "", [session, after]
        if turn is not None:
            where = "AND turn = ? AND seq >= coalesce((SELECT first_seq FROM turns WHERE id = ?), 0)"
            values += [turn, turn]
        query = f"SELECT body FROM events WHERE session = ? AND seq > ? {where} ORDER BY seq LIMIT ?"
        rows = self._read(query, *values, -1 if limit is None else limit)
        with edge(self._path):
            return [EVENT_DECODER.decode(body) for (body,) in rows]

    def last_event(self, session: str, kind: str) -> AnyEvent | None:
        """The newest event of that kind in the session's journal."""
        head = f'{{"kind":"{kind}"'.encode()
        query = "SELECT body FROM events WHERE session = ? AND substr(body, 1, ?) = ? ORDER BY seq DESC LIMIT 1"
        rows = self._read(query, session, len(head), head)
        with edge(self._path):
            return EVENT_DECODER.decode(rows[0][0]) if rows else None

    def last_seq(self, session: str) -> int:
        """The seq of the last event, 0 if there is none."""
        found: int = self._read("SELECT coalesce(max(seq), 0) FROM events WHERE session = ?", session)[0][0]
        return found

    def terminal(self, id: str) -> TerminalRow | None:
        return next(iter(self._terminals("SELECT body FROM terminals WHERE id = ?", id)), None)

    def terminals(self, session: str | None = None, *, live: bool = False) -> list[TerminalRow]:
        """Newest first; of one session if it is given."""
        query, values = terminals.select(session, live)
        return self._terminals(query, *values)

    def terminals_of_turn(self, turn: str) -> list[TerminalRow]:
        """Newest first."""
        return self._terminals("SELECT body FROM terminals WHERE turn = ? ORDER BY n DESC", turn)

    def owners(self) -> list[Owner]:
        return self._owners("ORDER BY id")

    def owner(self, id: str) -> Owner | None:
        return next(iter(self._owners("WHERE id = ?", id)), None)

    def note(self, key: str) -> Any:
        """The value last set under this key, or None."""
        rows = self._read("SELECT value FROM notes WHERE key = ?", key)
        return msgspec.json.decode(rows[0][0]) if rows else None

    def turn_once(self, session: str, once: Once) -> str | None:
        """The id of the turn that this key began. `exists` if it asked for another."""
        kept = self.note(keys.note(session, once))
        return keys.turn_of(msgspec.convert(kept, keys.Kept), once) if kept is not None else None

    def data_version(self) -> int:
        """Differs from the last answer once anybody, in any process, has committed something."""
        version: int = self._read("PRAGMA data_version")[0][0]
        return version

    # -- writing ------------------------------------------------------------------------------------

    async def add_session(self, session: Session, *, unique: bool = False) -> None:
        """`exists` for an id that is taken; with `unique` for the name of another one too."""
        await self._firmly(changes.add_session, session, unique)

    async def change_session(self, id: str, /, **fields: Any) -> Session:
        """The session as it is now. `state` follows from the turns: only "closed" and "idle" can be asked for."""
        return await self._firmly(changes.change_session, id, fields)

    async def remove_session(self, id: str) -> None:
        """Its files, then its turns, events and terminals. `busy` while one of them lives; can be repeated."""
        await self._firmly(terminals.close_for_removal, id)
        await asyncio.to_thread(self._remove_files, id)
        await self._firmly(changes.delete_session, id)

    async def begin_turn(self, row: TurnRow) -> int:
        """Stores the turn as starting and returns the seq of its first event; `busy` unless the session is idle.

        If the wait is cancelled the turn has begun nevertheless: its owner has to end it.
        """
        return await self._firmly(changes.begin_turn, row)

    async def queue_turn(self, row: TurnRow) -> None:
        await self._firmly(changes.queue_turn, row)

    async def begin_turn_once(self, row: TurnRow, once: Once) -> int | str:
        """As `begin_turn`; or the id of the turn that this key began before. `exists` if it asked for another."""
        return await self._firmly(keys.begin_turn, row, once)

    async def queue_turn_once(self, row: TurnRow, once: Once) -> str | None:
        """As `queue_turn`; or the id of the turn that this key began before."""
        return await self._firmly(keys.queue_turn, row, once)

    async def claim_turn(self, id: str, owner: str) -> int | None:
        """Begins a queued turn if it is its session's next and nothing runs: the seq of its first event, or None."""
        return await self._firmly(changes.claim_turn, id, owner, time.time())

    async def change_turn(self, id: str, state: TurnState) -> None:
        await self._firmly(changes.change_turn, id, state)

    async def append(self, session: str, events: Sequence[AnyEvent]) -> None:
        """Adds stamped events to the journal. A seq that is taken is a `store` error, and none is added."""
        await self._quickly(changes.append, session, self._bodies(events))

    async def append_first(self, turn: str, session: str, events: Sequence[AnyEvent]) -> None:
        """As `append`, and that the turn runs now, in one transaction."""
        await self._firmly(changes.append_first, turn, session, self._bodies(events))

    async def end_turn(
        self,
        id: str,
        *,
        last: Sequence[AnyEvent],
        envelope: Envelope,
        counters: Mapping[str, float] | None = None,
        session_changes: Mapping[str, Any] | None = None,
    ) -> bool:
        """Last events, envelope and session in one transaction. False, and nothing done, if it had ended."""
        return await self._firmly(
            changes.end_turn, id, self._bodies(last), envelope, counters, session_changes or {}, time.time()
        )

    async def add_terminal(self, row: TerminalRow, limit: int | None = None) -> None:
        """`exists` for the name of a live one of its session, `too_many` when `limit` programs live there."""
        await (self._quickly if row.source == "turn" else self._firmly)(terminals.add_terminal, row, limit)

    async def change_terminal(self, id: str, /, **fields: Any) -> TerminalRow:
        """The terminal as it is now; one that has ended stays as it ended."""
        return await self._quickly(terminals.change_terminal, id, fields)

    async def end_terminal(self, id: str, /, **fields: Any) -> bool:
        """False, and nothing done, if it had ended already."""
        return await self._quickly(terminals.end_terminal, id, fields)

    async def remove_terminal(self, id: str) -> None:
        await self._quickly(terminals.remove_terminal, id)

    async def add_owner(self, owner: Owner) -> None:
        await self._firmly(changes.add_owner, owner)

    async def remove_owner(self, id: str) -> None:
        await self._firmly(changes.remove_owner, id)

    async def set_note(self, key: str, value: Any) -> None:
        await self._quickly(changes.set_note, key, msgspec.json.encode(value))

    def set_note_sync(self, key: str, value: Any) -> None:
        self._writer.write_sync(lambda db: changes.set_note(db, key, msgspec.json.encode(value)), full=False)

    async def bump(self, key: str) -> int:
        """Adds one to the number under this key and returns it; no two callers get the same."""
        return await self._quickly(changes.bump, key)

    # -- below --------------------------------------------------------------------------------------

    async def _firmly(self, change: Callable[Concatenate[sqlite3.Connection, P], T], *a: P.args, **k: P.kwargs) -> T:
        """Survives a power failure: what is promised about sessions and turns."""
        return await self._writer.write(lambda db: change(db, *a, **k), full=True)

    async def _quickly(self, change: Callable[Concatenate[sqlite3.Connection, P], T], *a: P.args, **k: P.kwargs) -> T:
        """Survives the death of the process."""
        return await self._writer.write(lambda db: change(db, *a, **k), full=False)

    def _read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with edge(self._path), self._lock:
            return self._reader.execute(query, values).fetchall()

    def _sessions(self, where: str, *values: Any) -> list[Session]:
        rows = self._read(f"SELECT body FROM sessions {where}", *values)
        with edge(self._path):
            return [read_session(body) for (body,) in rows]

    def _turns(self, where: str, *values: Any) -> list[TurnRow]:
        rows = self._read(f"{TURN} {where}", *values)
        with edge(self._path):
            return [turn_row(*row) for row in rows]

    def _terminals(self, query: str, *values: Any) -> list[TerminalRow]:
        rows = self._read(query, *values)
        with edge(self._path):
            return [read_terminal(body) for (body,) in rows]

    def _owners(self, where: str, *values: Any) -> list[Owner]:
        rows = self._read(f"SELECT body FROM owners {where}", *values)
        with edge(self._path):
            return [_owner(body) for (body,) in rows]

    def _bodies(self, events: Sequence[AnyEvent]) -> list[changes.Body]:
        """Encoded by the caller: an event that cannot be stored is its error, and the writer stays quick."""
        try:
            return changes.bodies(events)
        except (TypeError, ValueError, RecursionError) as error:
            raise OstlerError("store", f"An event cannot be stored: {error}") from error

    def _remove_files(self, id: str) -> None:
        with typed(session_folder(self.folder, id)):
            try:
                shutil.rmtree(session_folder(self.folder, id))
            except FileNotFoundError:
                pass


def _private_file(path: Path) -> None:
    """The database file exists and is ours, 0600; SQLite gives -wal and -shm the same mode.

    An existing one is judged by path: closing a descriptor of it would drop the locks of this process.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise OstlerError("store", f"{path} is not a file of ours", "Choose another state folder") from None
        if found.st_mode & 0o077:
            os.chmod(path, 0o600)
