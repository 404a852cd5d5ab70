"""The one thread of a process that writes: commits at once, and what arrived meanwhile as one batch."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from ostler.errors import OstlerError
from ostler.store.faults import translate
from ostler.store.schema import connect

T = TypeVar("T")
_log = logging.getLogger(__name__)
# Errors that speak of one write's values, not of the state of the database.
_OWN = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    OverflowError,
    UnicodeError,
)
_SOON = 0.005  # seconds
_BATCH = 1000  # writes in one transaction: others of this store want their turn too


class Commit(asyncio.Future[T]):
    """The result of a write that was handed over. Cancelling the wait takes effect only when the write has committed
    or failed: until then its outcome is not known.
    """

    def cancel(self, msg: Any = None) -> bool:
        return False


class _Write(Generic[T]):
    """Something to do in a transaction, and whom to tell once it is committed."""

    __slots__ = ("change", "error", "full", "future", "result")

    def __init__(self, change: Callable[[sqlite3.Connection], T], full: bool, future: asyncio.Future[T]):
        self.change = change
        self.full = full
        self.future = future
        self.result: T | None = None
        self.error: Exception | None = None


class Writer:
    """Owns the writing connection. A write that was handed over is committed even if its caller is cancelled."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._db = connect(path, timeout, writes=True)
        self._full: bool | None = None
        self._queue: SimpleQueue[_Write[Any] | None] = SimpleQueue()
        self._held: list[tuple[_Write[Any], asyncio.TimerHandle]] = []  # what goes with the next write
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="ostler-store", daemon=True)
        self._thread.start()

    def write(
        self, change: Callable[[sqlite3.Connection], T], *, full: bool, soon: bool = False, settled: bool = False
    ) -> "asyncio.Future[T]":
        """Hands `change` over to be run in a transaction: its result once that is committed.

        `full`: the commit also survives a power failure. `soon`: it goes with the next write, a few milliseconds later
        at most, and needs no commit of its own. `settled`: see Commit. Raises what `change` raised, or `store`.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = Commit(loop=loop) if settled else loop.create_future()
        write = _Write(change, full, future)
        if soon:
            self._hold(write, loop)
        else:
            self._put(write)
        return future

    def close(self) -> None:
        """Commits what was handed over, then ends the thread. May be called twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._hand_over()
            self._queue.put(None)
        self._thread.join()
        self._db.close()

    def _put(self, write: _Write[Any]) -> None:
        with self._lock:
            self._refuse_closed()
            self._hand_over()
            self._queue.put(write)

    def _hold(self, write: _Write[Any], loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._refuse_closed()
            self._held.append((write, loop.call_later(_SOON, self._release)))

    def _release(self) -> None:
        with self._lock:
            self._hand_over()

    def _hand_over(self) -> None:
        for write, timer in self._held:
            timer.cancel()
            self._queue.put(write)
        self._held.clear()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise OstlerError("store", f"{self._path} is closed")

    def _work(self) -> None:
        going = True
        while going:
            batch = [self._queue.get()]
            while len(batch) < _BATCH and batch[-1] is not None:
                try:
                    batch.append(self._queue.get_nowait())
                except Empty:
                    break
            going = batch[-1] is not None
            writes = [write for write in batch if write is not None]
            if writes:
                self._commit(writes)
            for loop in {write.future.get_loop() for write in writes}:
                _resolve(loop, [write for write in writes if write.future.get_loop() is loop])

    def _commit(self, writes: list[_Write[Any]]) -> None:
        """One transaction. What one write did wrong is its own; what SQLite failed at is everybody's."""
        try:
            self._begin(any(write.full for write in writes))
            for write in writes:
                self._attempt(write, alone=len(writes) == 1)
            if self._db.in_transaction:
                self._db.execute("COMMIT")
        except Exception as error:  # whatever it is: nobody may wait for ever
            _log.warning("%d writes failed: %s", len(writes), translate(error, self._path))
            for write in writes:
                write.error = translate(error, self._path)
            self._recover()

    def _begin(self, full: bool) -> None:
        if full != self._full:
            self._db.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            self._full = full
        self._db.execute("BEGIN IMMEDIATE")

    def _attempt(self, write: _Write[Any], alone: bool) -> None:
        """What fails is taken back: `alone` with the transaction, else by a savepoint."""
        if not alone:
            self._db.execute("SAVEPOINT one")
        try:
            write.result = write.change(self._db)
        except _OWN as error:
            write.error = translate(error, self._path)
        except sqlite3.Error:
            raise
        except Exception as error:
            write.error = error
        if write.error is not None:
            self._db.execute("ROLLBACK" if alone else "ROLLBACK TO one")
        if not alone:
            self._db.execute("RELEASE one")

    def _recover(self) -> None:
        """After a failed batch the connection is usable again; a broken one is replaced."""
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error:
            try:
                fresh = connect(self._path, self._timeout, writes=True)
            except sqlite3.Error as error:
                _log.error("%s cannot be opened again: %s", self._path, error)
                return  # the next write meets the same trouble, and says so
            _log.warning("%s was opened again", self._path)
            self._db.close()
            self._db, self._full = fresh, None


def _resolve(loop: asyncio.AbstractEventLoop, writes: list[_Write[Any]]) -> None:
    """Those who wait in this loop: it is woken once for all of them."""
    try:
        loop.call_soon_threadsafe(_settle, writes)
    except RuntimeError:
        pass  # the loop was closed: nobody waits any more


def _settle(writes: list[_Write[Any]]) -> None:
    for write in writes:
        if write.future.done():
            continue  # its caller was cancelled; the write stands
        if write.error is not None:
            write.future.set_exception(write.error)
        else:
            write.future.set_result(write.result)
