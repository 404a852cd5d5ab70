"""Where DBOS keeps the steps of a run: in a SQLite file of the run, or in the Postgres of the machines."""

import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import Any, Protocol

from ostler.machines.directory import Directory
from ostler.pipelines.model import WORKFLOW_VERSION

SCHEMA = "ostler_steps"  # in Postgres; all runs of all machines share it
_MIGRATING = 0x6F73746C6574  # the lock of those who make DBOS's tables
_CONNECTIONS = 3  # of a run's process
_AGAIN = 0.3  # seconds before Postgres is tried again
_DAY = 86400.0


_OPEN = "SELECT id FROM ostler.runs WHERE state IN ('running', 'cancelling')"
_ENDED = f"SELECT workflow_uuid FROM {SCHEMA}.workflow_status WHERE executor_id NOT IN ({_OPEN})"
_VERSIONS = f"DELETE FROM {SCHEMA}.application_versions WHERE split_part(version_name, ':', 2) NOT IN ({_OPEN})"
_PARTS = ("workflow_input", "workflow_output", "operation_outputs", "workflow_status")


class Steps(Protocol):
    """A place for steps. `poll`: seconds between two looks at a workflow that was recovered."""

    poll: float

    def config(self) -> dict[str, Any]:
        """What of DBOS's settings says where its tables are, and which workflows are those of this run."""
        ...

    def launch(self, launch: Any) -> None:
        """Calls `launch` once the place can be used."""
        ...

    def forget(self) -> None:
        """The run has ended, and nobody will ask for its steps any more."""
        ...

    def close(self) -> None: ...


class SqliteSteps:
    """A file of the run's folder. It stays when the run has ended."""

    poll = 0.02

    def __init__(self, folder: Path) -> None:
        self._database = folder / "dbos.sqlite"

    def config(self) -> dict[str, Any]:
        return {
            "system_database_url": f"sqlite:///{self._database}",
            "executor_id": "local",
            "application_version": WORKFLOW_VERSION,
        }

    def launch(self, launch: Any) -> None:
        """A file that a kill has left half made is begun anew.

        Its write-ahead log, which the file remembers, makes a commit one flush to the disk instead of several.
        """
        if self._database.exists() and _is_half_made(self._database):
            for end in ("", "-wal", "-shm"):
                Path(f"{self._database}{end}").unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(self._database)) as db:
            db.execute("PRAGMA journal_mode = WAL")
        launch()

    def forget(self) -> None:
        pass

    def close(self) -> None:
        pass


def _is_half_made(database: Path) -> bool:
    """DBOS makes its first tables one by one, and then notes that they are there: before that nothing is in them."""
    with contextlib.closing(sqlite3.connect(database)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return "dbos_migrations" in tables and not db.execute("SELECT 1 FROM dbos_migrations").fetchone()


class PostgresSteps:
    """Shared by all runs of all machines: a workflow belongs to a run by its executor and version.

    The version names the run, too: a process takes nothing else from DBOS's queues, by which workflows are recovered.
    """

    poll = 0.2

    def __init__(self, url: str, run: str) -> None:
        import sqlalchemy

        self._url, self._run = url, run
        self._closed = threading.Event()
        # DBOS would read the address in another way than the directory does, and show it. It waits for a connection for
        # as long as Postgres is away.
        self._engine = sqlalchemy.create_engine(
            "postgresql+psycopg://",
            creator=self._connect,
            pool_size=_CONNECTIONS,
            max_overflow=0,
            pool_timeout=_DAY,
            pool_pre_ping=True,
        )

    def config(self) -> dict[str, Any]:
        return {
            "system_database_url": "postgresql:///ostler",  # only says what kind it is
            "system_database_engine": self._engine,
            "dbos_system_schema": SCHEMA,
            "sys_db_polling_concurrency": 1,
            "executor_id": self._run,
            "application_version": self._version,
        }

    @property
    def _version(self) -> str:
        return f"{WORKFLOW_VERSION}:{self._run}"

    def _connect(self) -> Any:
        """A connection, however long it takes: DBOS would take some failures to connect for the end of a workflow."""
        import psycopg

        while True:
            try:
                db = psycopg.connect(self._url, connect_timeout=3, tcp_user_timeout=5000, application_name="ostler run")
                # A machine that is stopped or cut off in a transaction must not keep its locks from all others.
                db.execute("SET idle_in_transaction_session_timeout = '10s'")
                db.commit()
                return db
            except psycopg.OperationalError:
                if self._closed.wait(_AGAIN):
                    raise

    def launch(self, launch: Any) -> None:
        """Tables are made by one process at a time: DBOS's own lock is given up after a while.

        Nobody waits for the lock inside Postgres: an index that is made CONCURRENTLY would wait for those who wait.
        """
        from dbos._migration import should_migrate  # not exported, but what DBOS itself asks first

        if not should_migrate(self._engine, SCHEMA, False):
            launch()
            return
        with contextlib.closing(self._connect()) as db:
            db.autocommit = True
            while db.execute("SELECT pg_try_advisory_lock(%s)", (_MIGRATING,)).fetchone() != (True,):
                if self._closed.wait(_AGAIN):
                    return
            launch()

    def forget(self) -> None:
        from dbos import DBOS

        found = DBOS.list_workflows(executor_id=self._run, load_input=False, load_output=False)
        if found:
            DBOS.delete_workflows([each.workflow_id for each in found])
        with contextlib.closing(self._connect()) as db:
            db.execute(f"DELETE FROM {SCHEMA}.application_versions WHERE version_name = %s", (self._version,))
            db.commit()

    def close(self) -> None:
        self._closed.set()
        self._engine.dispose()


async def sweep_steps(directory: Directory) -> None:
    """Forgets the steps of all runs that the index has as ended, or does not have: no process was left to do so."""
    async with directory.asked() as db:
        ((there,),) = await (await db.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.workflow_status",))).fetchall()
        if there is None:
            return
        ended = [id for (id,) in await (await db.execute(_ENDED)).fetchall()]
        for part in _PARTS if ended else ():
            await db.execute(f"DELETE FROM {SCHEMA}.{part} WHERE workflow_uuid = ANY(%s)", (ended,))
        await db.execute(_VERSIONS)
