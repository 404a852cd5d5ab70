"""The tables, their versions, and how a database is made ready."""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ostler import clock
from ostler.errors import OstlerError

APPLICATION = 0x4F53544C  # "OSTL": tells our database from a stranger's

# Each entry brings the version before it to the next; entries are only ever added.
VERSIONS: tuple[str, ...] = (
    """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        name TEXT,
        agent TEXT NOT NULL,
        folder TEXT NOT NULL,
        state TEXT NOT NULL,
        used_at REAL NOT NULL,
        body BLOB NOT NULL
    );
    CREATE INDEX sessions_by_name ON sessions (name);
    CREATE INDEX sessions_by_place ON sessions (agent, folder, used_at);
    CREATE INDEX sessions_by_use ON sessions (used_at);

    CREATE TABLE turns (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        state TEXT NOT NULL,
        owner TEXT,
        created_at REAL NOT NULL,
        ended_at REAL,
        first_seq INTEGER NOT NULL DEFAULT 0,
        turn BLOB NOT NULL,
        envelope BLOB,
        counters BLOB
    );
    CREATE INDEX turns_by_session ON turns (session, n);
    CREATE INDEX turns_living ON turns (session, n) WHERE state <> 'ended';

    CREATE TABLE events (
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL CHECK (seq > 0),
        turn TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (session, seq)
    ) WITHOUT ROWID;

    CREATE TABLE owners (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE notes (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
    """,
    """
    CREATE TABLE terminals (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        source TEXT NOT NULL,
        state TEXT NOT NULL,
        turn TEXT,
        body BLOB NOT NULL
    );
    CREATE INDEX terminals_by_session ON terminals (session, n);
    CREATE INDEX terminals_living ON terminals (session, n) WHERE state = 'live';
    CREATE INDEX terminals_by_turn ON terminals (turn) WHERE turn IS NOT NULL;

    -- Which rows changed, in order, whoever changed them: viewers read only those again. The newest
    -- changes alone are kept; whoever is further behind reads everything anew.
    CREATE TABLE touched (n INTEGER PRIMARY KEY, what TEXT NOT NULL, id TEXT NOT NULL);
    CREATE TRIGGER touched_cut AFTER INSERT ON touched BEGIN
        DELETE FROM touched WHERE n <= new.n - 10000;
    END;
    CREATE TRIGGER session_added AFTER INSERT ON sessions BEGIN
        INSERT INTO touched (what, id) VALUES ('session', new.id);
    END;
    CREATE TRIGGER session_changed AFTER UPDATE ON sessions BEGIN
        INSERT INTO touched (what, id) VALUES ('session', new.id);
    END;
    CREATE TRIGGER session_gone AFTER DELETE ON sessions BEGIN
        INSERT INTO touched (what, id) VALUES ('session', old.id);
    END;
    CREATE TRIGGER terminal_added AFTER INSERT ON terminals BEGIN
        INSERT INTO touched (what, id) VALUES ('terminal', new.id);
    END;
    CREATE TRIGGER terminal_changed AFTER UPDATE ON terminals BEGIN
        INSERT INTO touched (what, id) VALUES ('terminal', new.id);
    END;
    CREATE TRIGGER terminal_gone AFTER DELETE ON terminals BEGIN
        INSERT INTO touched (what, id) VALUES ('terminal', old.id);
    END;
    """,
    """
    CREATE TABLE asks (
        turn TEXT NOT NULL,
        id TEXT NOT NULL,
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL,  -- of the event that says what was asked
        asked_at REAL NOT NULL,
        answered_at REAL,
        option TEXT NOT NULL DEFAULT '',
        answered_by TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (turn, id)
    ) WITHOUT ROWID;
    CREATE INDEX asks_open ON asks (session, seq) WHERE answered_at IS NULL;

    -- Of turns that run while the store is brought here; those that have ended ask nothing any more.
    INSERT OR REPLACE INTO asks (turn, id, session, seq, asked_at)
        SELECT t.id, json_extract(CAST(e.body AS TEXT), '$.id'), e.session, e.seq,
               coalesce(json_extract(CAST(e.body AS TEXT), '$.at'), 0)
        FROM turns t JOIN events e ON e.session = t.session AND e.seq >= t.first_seq AND e.turn = t.id
        WHERE t.state NOT IN ('ended', 'queued') AND substr(CAST(e.body AS TEXT), 1, 15) = '{"kind":"asked"'
        ORDER BY e.seq;
    UPDATE asks SET (answered_at, option, answered_by) = (
        SELECT coalesce(json_extract(CAST(e.body AS TEXT), '$.at'), 0), json_extract(CAST(e.body AS TEXT), '$.option'),
               json_extract(CAST(e.body AS TEXT), '$.by')
        FROM events e WHERE e.session = asks.session AND e.seq > asks.seq AND e.turn = asks.turn
            AND substr(CAST(e.body AS TEXT), 1, 18) = '{"kind":"answered"'
            AND json_extract(CAST(e.body AS TEXT), '$.id') = asks.id
        ORDER BY e.seq LIMIT 1
    ) WHERE EXISTS (
        SELECT 1 FROM events e WHERE e.session = asks.session AND e.seq > asks.seq AND e.turn = asks.turn
            AND substr(CAST(e.body AS TEXT), 1, 18) = '{"kind":"answered"'
            AND json_extract(CAST(e.body AS TEXT), '$.id') = asks.id
    );
    """,
    """
    CREATE TABLE outbox (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        target TEXT NOT NULL,
        folder TEXT NOT NULL,
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        turn TEXT NOT NULL,
        what TEXT NOT NULL,
        body BLOB NOT NULL,
        created_at REAL NOT NULL,
        tries INTEGER NOT NULL DEFAULT 0,
        next_at REAL NOT NULL DEFAULT 0
    );
    CREATE INDEX outbox_by_target ON outbox (target, folder, session, n);
    CREATE INDEX outbox_by_turn ON outbox (turn);
    """,
    """
    ALTER TABLE turns ADD COLUMN claim BLOB;
    ALTER TABLE turns ADD COLUMN began_at REAL;
    CREATE INDEX turns_by_end ON turns (ended_at) WHERE ended_at IS NOT NULL;

    CREATE TABLE parked (account TEXT PRIMARY KEY, until REAL NOT NULL, message TEXT NOT NULL) WITHOUT ROWID;
    """,
    """
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        created_at REAL NOT NULL,
        state TEXT NOT NULL,
        body BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX runs_by_time ON runs (created_at);
    CREATE TABLE nodes (
        run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        node TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (run, node)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TRIGGER run_added AFTER INSERT ON runs BEGIN
        INSERT INTO touched (what, id) VALUES ('run', new.id);
    END;
    CREATE TRIGGER run_changed AFTER UPDATE ON runs BEGIN
        INSERT INTO touched (what, id) VALUES ('run', new.id);
    END;
    CREATE TRIGGER run_gone AFTER DELETE ON runs BEGIN
        INSERT INTO touched (what, id) VALUES ('run', old.id);
    END;
    CREATE TRIGGER node_added AFTER INSERT ON nodes BEGIN
        INSERT INTO touched (what, id) VALUES ('run', new.run);
    END;
    CREATE TRIGGER node_changed AFTER UPDATE ON nodes BEGIN
        INSERT INTO touched (what, id) VALUES ('run', new.run);
    END;
    """,
    """
    -- A server looks at them every second.
    CREATE INDEX runs_open ON runs (id) WHERE state IN ('running', 'cancelling');
    """,
    "CREATE INDEX asks_of_session ON asks (session, seq);",
)


def connect(path: Path, timeout: float, *, writes: bool) -> sqlite3.Connection:
    """A connection to an existing database; transactions are ours to begin and end."""
    uri = f"file:{quote(str(path))}?mode=rw"
    db = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA journal_size_limit = 16777216")
        if not writes:
            db.execute("PRAGMA query_only = ON")
    except BaseException:
        db.close()
        raise
    return db


def prepare(db: sqlite3.Connection, path: Path, timeout: float) -> None:
    """Puts the database in WAL mode and brings its tables to this version, also when others do so just now."""
    _check(db, path)
    _use_wal(db, path, clock.monotonic() + timeout)
    if _version(db) == len(VERSIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        _check(db, path)
        for text in VERSIONS[_version(db) :]:
            for statement in _statements(text):
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {len(VERSIONS)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _statements(text: str) -> Iterator[str]:
    """One at a time: several at once would be a transaction of their own. Triggers have semicolons within."""
    statement = ""
    for part in text.split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    yield statement  # unfinished: SQLite says what is wrong


def _check(db: sqlite3.Connection, path: Path) -> None:
    version = _version(db)
    if version > len(VERSIONS):
        raise OstlerError(
            "store",
            f"{path} was written by a newer ostler (store version {version}, this one knows {len(VERSIONS)})",
            "Upgrade ostler, or choose another state folder",
        )
    # In this order: another process may make the store between the two, tables and id in one commit.
    empty = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    made = db.execute("PRAGMA application_id").fetchone()[0]
    if made != APPLICATION and not empty:
        raise OstlerError("store", f"{path} is not a store of ostler", "Move it away, or choose another state folder")


def _use_wal(db: sqlite3.Connection, path: Path, deadline: float) -> None:
    while True:
        try:
            mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            # Two processes that create the store at once: the change of mode does not wait by itself.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or clock.monotonic() > deadline:
                raise
            time.sleep(0.005)
            continue
        if mode != "wal":
            hint = "Choose a state folder on a local disk"
            raise OstlerError("store", f"{path} is on a file system without shared memory", hint)
        return


def _version(db: sqlite3.Connection) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version
