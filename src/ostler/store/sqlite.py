"""The store: sessions, turns, journals and owners in one SQLite file that many processes share."""

import asyncio
import contextlib
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import (
    EVENT_DECODER,
    AnyEvent,
    Asked,
    AskRow,
    Envelope,
    Owner,
    Session,
    TerminalRow,
    Turn,
    TurnRow,
    TurnState,
)
from ostler.model.pool import PoolTurn, SharedSlots
from ostler.store import asks, changes, outbox, pool, terminals
from ostler.store import once as keys
from ostler.store.faults import sqlite_errors
from ostler.store.files import file_errors, private_folder, session_folder
from ostler.store.last_events import LastEvents
from ostler.store.once import Once
from ostler.store.pool import StartCheck
from ostler.store.rows import TURN, read_session, read_terminal, turn_row
from ostler.store.schema import connect, prepare
from ostler.store.watch import StoreWatch
from ostler.store.writer import Writer

P = ParamSpec("P")
T = TypeVar("T")

MACHINE_NOTE = "machine:id"  # the note that the store of a machine among others has: its id there
_NAME = "ostler.db"
_READ_TIMEOUT = 5.0  # reads run on the event loop: readers hardly ever wait, and must not wait long

_owner = msgspec.json.Decoder(Owner).decode


class Store:
    """Reads are synchronous. Writes are awaited and return once committed; cancelling the wait undoes nothing."""

    def __init__(self, folder: Path, path: Path, timeout: float) -> None:
        self.folder = folder
        self._path = path
        self._lock = threading.Lock()
        self._watches: set[StoreWatch] = set()
        self._last_events = LastEvents(self._read)
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
        with file_errors(path):
            _private_file(path)
        ours = os.access in os.supports_effective_ids
        if not all(os.access(each, os.R_OK | os.W_OK, effective_ids=ours) for each in (folder, path)):
            hint = "Change its permissions, or set OSTLER_HOME to a folder that you can write"
            raise OstlerError("store", f"{path} is not writable", hint)
        with sqlite_errors(path), contextlib.closing(connect(path, timeout, writes=True)) as db:
            prepare(db, path, timeout)
            return cls(folder, path, timeout)

    def close(self) -> None:
        """Commits what was handed over and lets go of the files. May be called twice."""
        self._writer.close()
        for watch in list(self._watches):
            watch.close()
        with self._lock:
            self._reader.close()

    def watch(self) -> StoreWatch:
        """A reader for those who watch; closed with the store, if not before."""
        with sqlite_errors(self._path):
            watch = StoreWatch(self._path, _READ_TIMEOUT, self._watches.discard)
        self._watches.add(watch)
        return watch

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

    def sessions_of(self, ids: Iterable[str]) -> dict[str, Session]:
        """Those of these ids that exist."""
        listed = msgspec.json.encode(sorted(set(ids))).decode()
        return {row.id: row for row in self._sessions("WHERE id IN (SELECT value FROM json_each(?))", listed)}

    def sessions(self) -> list[Session]:
        """Newest used first."""
        return self._sessions("ORDER BY used_at DESC, id")

    def turn(self, id: str) -> TurnRow | None:
        return next(iter(self._turns("WHERE id = ?", id)), None)

    def turns(self, session: str) -> list[TurnRow]:
        """In the order in which they were begun or queued."""
        return self._turns("WHERE session = ? ORDER BY n", session)

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

    def turn_number(self, id: str) -> int:
        """Its place among the turns of its session, from 1; one that was taken back keeps its own."""
        place = "SELECT session, n FROM turns WHERE id = ?"
        found: int = self._read(
            f"SELECT count(*) FROM turns t, ({place}) o WHERE t.session = o.session AND t.n <= o.n", id
        )[0][0]
        return found

    def next_turn(self, session: str) -> str | None:
        """The turn that runs, or else the first one in line."""
        query = f"SELECT id FROM turns WHERE session = ? AND state <> 'ended' {changes.IN_LINE} LIMIT 1"
        found = self._read(query, session)
        return found[0][0] if found else None

    def turns_asked_by(self, id: str) -> list[TurnRow]:
        """The turns that the agent of this one began."""
        return self._turns("WHERE json_extract(CAST(turn AS TEXT), '$.asked_by') = ? ORDER BY n", id)

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
        with sqlite_errors(self._path):
            return [EVENT_DECODER.decode(body) for (body,) in rows]

    def last_event(self, session: str, kind: str, among: int | None = None) -> AnyEvent | None:
        """The newest event of that kind in the session's journal, or `among` so many of its last events."""
        with sqlite_errors(self._path):
            return self._last_events.of(session, kind, among)

    def last_seq(self, session: str) -> int:
        """The seq of the last event, 0 if there is none."""
        found: int = self._read("SELECT coalesce(max(seq), 0) FROM events WHERE session = ?", session)[0][0]
        return found

    def open_asks(self, session: str, turn: str | None = None) -> list[Asked]:
        """What nobody has answered yet, the oldest first; of one turn only if `turn` is given."""
        rows = self._read(asks.SELECT_OPEN, session, turn)
        with sqlite_errors(self._path):
            return [asks.read_asked(body) for (body,) in rows]

    def asks_of_session(self, session: str, since: float, limit: int) -> list[AskRow]:
        """The newest that the session asked since then, and who answered, the oldest first."""
        rows = self._read(asks.SELECT_ROWS_OF_SESSION, session, since, limit)
        with sqlite_errors(self._path):
            return [asks.read_row(*row) for row in reversed(rows)]

    def terminal(self, id: str) -> TerminalRow | None:
        return next(iter(self._terminals("SELECT body FROM terminals WHERE id = ?", id)), None)

    def terminals(self, session: str | None = None, *, live: bool = False) -> list[TerminalRow]:
        """Newest first; of one session if it is given."""
        query, values = terminals.select(session, live)
        return self._terminals(query, *values)

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

    # -- the pool

    def pool_turns(self) -> tuple[PoolTurn, ...]:
        """Those that run or wait, in the order in which they came."""
        with sqlite_errors(self._path), self._lock:
            return pool.living(self._reader)

    def parked(self, now: float) -> dict[str, float]:
        """Accounts whose quota is used up, and until when."""
        with sqlite_errors(self._path), self._lock:
            return pool.parked(self._reader, now)

    def pool_rows(self) -> pool.PoolRows:
        with sqlite_errors(self._path), self._lock:
            return pool.PoolRows(pool.living(self._reader), pool.parked(self._reader, -inf), pool.shared(self._reader))

    def shared_slots(self) -> SharedSlots | None:
        """What this machine has of limits over all machines; None: it has not joined others."""
        with sqlite_errors(self._path), self._lock:
            return pool.shared(self._reader)

    async def change_shared_slots(
        self, change: Callable[[tuple[PoolTurn, ...], SharedSlots | None], SharedSlots | None]
    ) -> tuple[tuple[PoolTurn, ...], SharedSlots | None]:
        """In a transaction of its own: `change` gets the turns that run or wait, and the slots as they are."""
        return await self._write_durable(pool.change_shared, change)

    def spent_since(self, since: float) -> dict[str, float]:
        """Dollars of the turns that ended since then, by profile, or by agent where there is none."""
        with sqlite_errors(self._path), self._lock:
            return pool.spent_since(self._reader, since)

    async def park(self, account: str, until: float, message: str) -> None:
        """Its quota is used up until then."""
        await self._write(pool.park, account, until, message)

    async def unpark(self, account: str) -> bool:
        """Its quota is back. False: it was not parked."""
        return await self._write(pool.unpark, account)

    # -- pipelines: their rows are told apart by their ids, and read by the room that knows them

    def documents(self, query: str, *values: str) -> list[Any]:
        """The bodies, or states, that one of the queries of `store.runs` finds."""
        return [body for (body,) in self._read(query, *values)]

    async def change_documents(self, change: Callable[[sqlite3.Connection], T], *, full: bool = True) -> T:
        """Runs a change of `store.runs` in a transaction of its own; `full`: it also survives a power failure."""
        return await self._writer.write(change, full=full)

    def data_version(self) -> int:
        """Differs from the last answer once anybody, in any process, has committed something."""
        version: int = self._read("PRAGMA data_version")[0][0]
        return version

    # -- writing ------------------------------------------------------------------------------------

    async def add_session(self, session: Session, *, unique: bool = False) -> None:
        """`exists` for an id that is taken; with `unique` for the name of another one too."""
        await self._write_durable(changes.add_session, session, unique)

    async def change_session(self, id: str, /, **fields: Any) -> Session:
        """The session as it is now. `state` follows from the turns: only "closed" and "idle" can be asked for."""
        return await self._write_durable(changes.change_session, id, fields)

    async def rename_session(self, id: str, name: str | None) -> Session:
        """`exists` for the name of another one. None: it has no name any more."""
        return await self._write_durable(changes.rename_session, id, name)

    async def move_session(self, id: str, move: changes.Move) -> Session:
        """The session as it is now. While a turn runs it is `busy`, or with `later` moves at the turn's end."""
        return await self._write_durable(changes.move_session, id, move)

    async def remove_session(self, id: str) -> None:
        """Its files, then its turns, events and terminals. `busy` while one of them lives; can be repeated."""
        await self._write_durable(terminals.close_for_removal, id)
        await asyncio.to_thread(self._remove_files, id)
        await self._write_durable(changes.delete_session, id)

    async def begin_turn(self, row: TurnRow, gate: StartCheck | None = None) -> int | None:
        """Stores the turn as starting and returns the seq of its first event; `busy` unless the session is idle.

        None: `gate` says that it has to wait, and it is queued.
        If the wait is cancelled the turn has begun nevertheless: its owner has to end it.
        """
        return await self._write_uncancellable(changes.begin_turn, row, gate)

    async def queue_turn(self, row: TurnRow) -> None:
        await self._write_durable(changes.queue_turn, row)

    async def begin_turn_once(self, row: TurnRow, once: Once, gate: StartCheck | None = None) -> int | str | None:
        """As `begin_turn`; or the id of the turn that this key began before. `exists` if it asked for another."""
        return await self._write_durable(keys.begin_turn, row, once, gate)

    async def queue_turn_once(self, row: TurnRow, once: Once) -> str | None:
        """As `queue_turn`; or the id of the turn that this key began before."""
        return await self._write_durable(keys.queue_turn, row, once)

    async def claim_turn(self, id: str, owner: str, gate: StartCheck | None = None) -> int | None:
        """Begins a queued turn if it is its session's next, nothing runs there and `gate` lets it pass.

        The seq of its first event, or None.
        """
        return await self._write_durable(changes.claim_turn, id, owner, clock.now(), gate)

    async def adopt_turn(self, id: str, was: str | None, owner: str) -> bool:
        """Gives a turn of an owner that is gone to another one. False: somebody was quicker."""
        return await self._write_durable(changes.adopt_turn, id, was, owner)

    async def renew_turn(self, turn: Turn) -> None:
        """A turn that was queued, as it is now that it begins. Raises bad_request once it runs."""
        await self._write_durable(changes.renew_turn, turn)

    async def change_turn(self, id: str, state: TurnState) -> None:
        await self._write_durable(changes.change_turn, id, state)

    def append(self, session: str, events: Sequence[AnyEvent]) -> "asyncio.Future[None]":
        """Adds stamped events to the journal. A seq that is taken is a `store` error, and none is added."""
        bodies = self._bodies(events)
        return self._writer.write(lambda db: changes.append(db, session, bodies), full=False, settled=True)

    def append_first(self, turn: str, session: str, events: Sequence[AnyEvent]) -> "asyncio.Future[None]":
        """As `append`, and that the turn runs now, in one transaction."""
        bodies = self._bodies(events)
        return self._writer.write(lambda db: changes.append_first(db, turn, session, bodies), full=False, settled=True)

    def end_turn(
        self,
        id: str,
        *,
        last: Sequence[AnyEvent],
        envelope: Envelope,
        counters: Mapping[str, float] | None = None,
        session_changes: Mapping[str, Any] | None = None,
        terminal: tuple[str, Mapping[str, Any]] | None = None,
        outgoing: Sequence[outbox.OutboxRow] = (),
    ) -> "asyncio.Future[Session | None]":
        """Last events, envelope, session and what is to be told of it elsewhere, in one transaction.

        The session as it is then; None, and nothing done, if it had ended. `terminal`: its id, and what is known of its
        end, which is written with the turn's in any case.
        """
        bodies, fields, now = self._bodies(last), session_changes or {}, clock.now()

        def end(db: sqlite3.Connection) -> Session | None:
            if terminal is not None:
                terminals.end_terminal(db, *terminal)
            return changes.end_turn(db, id, bodies, envelope, counters, fields, now, outgoing)

        return self._writer.write(end, full=True, settled=True)

    # -- what is to be told elsewhere

    async def add_to_outbox(self, rows: Sequence[outbox.OutboxRow]) -> int:
        """How many old ones had to go, since there were too many."""
        return await self._write(outbox.add, rows)

    async def claim_outbox(self, now: float, until: float) -> list[outbox.OutboxRow]:
        """The next batch for one target and session: nobody else gets it before `until`."""
        return await self._write(outbox.claim, now, until)

    async def settle_outbox(self, taken: Sequence[int], then: outbox.OutboxRow | None = None) -> None:
        """They were taken, or given up; `then` stands in their place."""
        await self._write(outbox.settle, taken, then)

    async def put_off_outbox(self, rows: Sequence[int], next_at: float) -> None:
        await self._write(outbox.put_off, rows, next_at)

    def outbox_size(self, turn: str | None = None) -> int:
        """How much waits; of one turn only if it is given."""
        where, values = ("WHERE turn = ?", (turn,)) if turn is not None else ("", ())
        found: int = self._read(f"SELECT count(*) FROM outbox {where}", *values)[0][0]
        return found

    def outbox_untried(self) -> int:
        """How much was never tried yet."""
        found: int = self._read("SELECT count(*) FROM outbox WHERE tries = 0")[0][0]
        return found

    def outbox_due(self) -> float | None:
        """When something is to be tried next; None: nothing waits."""
        found: float | None = self._read("SELECT min(next_at) FROM outbox")[0][0]
        return found

    async def append_late(self, session: str, event: AnyEvent) -> bool:
        """An event of a turn that has ended. False, and nothing done, while another one writes the journal."""
        return await self._write(changes.append_late, session, event)

    async def add_terminal(self, row: TerminalRow, limit: int | None = None) -> None:
        """`exists` for the name of a live one of its session, `too_many` when `limit` programs live there."""
        await self._write_durable(terminals.add_terminal, row, limit)

    def add_turn_terminal(self, row: TerminalRow) -> "asyncio.Future[None]":
        """The terminal that shows a turn: with what is written next, a few milliseconds later at most."""
        return self._writer.write(lambda db: terminals.add_terminal(db, row, None), full=False, soon=True)

    async def change_terminal(self, id: str, /, **fields: Any) -> TerminalRow:
        """The terminal as it is now; one that has ended stays as it ended."""
        return await self._write(terminals.change_terminal, id, fields)

    async def end_terminal(self, id: str, /, **fields: Any) -> bool:
        """False, and nothing done, if it had ended already."""
        return await self._write(terminals.end_terminal, id, fields)

    async def remove_terminal(self, id: str) -> None:
        await self._write(terminals.remove_terminal, id)

    async def add_owner(self, owner: Owner) -> None:
        await self._write_durable(changes.add_owner, owner)

    async def remove_owner(self, id: str) -> None:
        await self._write_durable(changes.remove_owner, id)

    async def set_note(self, key: str, value: Any) -> None:
        await self._write(changes.set_note, key, msgspec.json.encode(value))

    # -- below --------------------------------------------------------------------------------------

    def _write_durable(
        self, change: Callable[Concatenate[sqlite3.Connection, P], T], *a: P.args, **k: P.kwargs
    ) -> "asyncio.Future[T]":
        """Survives a power failure: what is promised about sessions and turns."""
        return self._writer.write(lambda db: change(db, *a, **k), full=True)

    def _write_uncancellable(
        self, change: Callable[Concatenate[sqlite3.Connection, P], T], *a: P.args, **k: P.kwargs
    ) -> "asyncio.Future[T]":
        """As `_write_durable`; who waits and is cancelled hears of that once it is known whether it was committed."""
        return self._writer.write(lambda db: change(db, *a, **k), full=True, settled=True)

    def _write(
        self, change: Callable[Concatenate[sqlite3.Connection, P], T], *a: P.args, **k: P.kwargs
    ) -> "asyncio.Future[T]":
        """Survives the death of the process."""
        return self._writer.write(lambda db: change(db, *a, **k), full=False)

    def _read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with sqlite_errors(self._path), self._lock:
            return self._reader.execute(query, values).fetchall()

    def _sessions(self, where: str, *values: Any) -> list[Session]:
        rows = self._read(f"SELECT body FROM sessions {where}", *values)
        with sqlite_errors(self._path):
            return [read_session(body) for (body,) in rows]

    def _turns(self, where: str, *values: Any) -> list[TurnRow]:
        rows = self._read(f"{TURN} {where}", *values)
        with sqlite_errors(self._path):
            return [turn_row(*row) for row in rows]

    def _terminals(self, query: str, *values: Any) -> list[TerminalRow]:
        rows = self._read(query, *values)
        with sqlite_errors(self._path):
            return [read_terminal(body) for (body,) in rows]

    def _owners(self, where: str, *values: Any) -> list[Owner]:
        rows = self._read(f"SELECT body FROM owners {where}", *values)
        with sqlite_errors(self._path):
            return [_owner(body) for (body,) in rows]

    def _bodies(self, events: Sequence[AnyEvent]) -> list[asks.Body]:
        """Encoded by the caller: an event that cannot be stored is its error, and the writer stays quick."""
        try:
            return changes.bodies(events)
        except (TypeError, ValueError, RecursionError) as error:
            raise OstlerError("store", f"an event cannot be stored: {error}") from error

    def _remove_files(self, id: str) -> None:
        import shutil

        with file_errors(session_folder(self.folder, id)):
            try:
                shutil.rmtree(session_folder(self.folder, id))
            except FileNotFoundError:
                pass  # it never had files


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
