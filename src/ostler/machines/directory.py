"""The directory in Postgres: which machines there are, and which sessions each of them has.

The tables are made when the first machine joins. Whatever goes wrong is an OstlerError of kind `store`, which never
holds the address: a password may stand in it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import structs

from ostler.errors import OstlerError
from ostler.machines.model import ANY, MachineFacts, MachineLoad, MachineRow, SessionEntry

if TYPE_CHECKING:  # it takes a while to import, and only those who joined need it
    from psycopg import AsyncConnection

    PostgresConnection = AsyncConnection[tuple[Any, ...]]

SECONDS = 5.0  # for one question
TABLES_LOCK = 0x6F73746C6572  # of those who make the tables

_TABLES = """
CREATE SCHEMA IF NOT EXISTS ostler;
CREATE SEQUENCE IF NOT EXISTS ostler.epochs;
CREATE TABLE IF NOT EXISTS ostler.machines (
    id text PRIMARY KEY, epoch bigint NOT NULL, name text NOT NULL, url text NOT NULL, public_key bytea NOT NULL,
    beat bigint NOT NULL DEFAULT 0, joined_at timestamptz NOT NULL, seen_at timestamptz NOT NULL,
    draining boolean NOT NULL DEFAULT false, left_at timestamptz, facts text NOT NULL
);
ALTER TABLE ostler.machines ADD COLUMN IF NOT EXISTS lease bigint NOT NULL DEFAULT 0;
ALTER TABLE ostler.machines ADD COLUMN IF NOT EXISTS fenced_at_beat bigint;
ALTER TABLE ostler.machines ADD COLUMN IF NOT EXISTS load text NOT NULL DEFAULT '{}';
CREATE TABLE IF NOT EXISTS ostler.slots (
    machine text NOT NULL REFERENCES ostler.machines ON DELETE CASCADE, key text NOT NULL, held int NOT NULL,
    wanted int NOT NULL, granted bigint NOT NULL, PRIMARY KEY (machine, key)
);
CREATE SEQUENCE IF NOT EXISTS ostler.grants;
CREATE TABLE IF NOT EXISTS ostler.spent (
    machine text NOT NULL, day text NOT NULL, who text NOT NULL, usd double precision NOT NULL,
    PRIMARY KEY (day, machine, who)
);
CREATE TABLE IF NOT EXISTS ostler.sessions (
    machine text NOT NULL REFERENCES ostler.machines ON DELETE CASCADE, id text NOT NULL, name text,
    used_at double precision NOT NULL, body text NOT NULL, PRIMARY KEY (machine, id)
);
CREATE INDEX IF NOT EXISTS sessions_by_id ON ostler.sessions (id text_pattern_ops);
CREATE INDEX IF NOT EXISTS sessions_by_name ON ostler.sessions (name);
"""
_MACHINES = """
SELECT id, epoch, name, url, public_key, beat, extract(epoch FROM clock_timestamp() - seen_at)::float8,
    extract(epoch FROM joined_at)::float8, draining, left_at IS NOT NULL, facts, lease,
    fenced_at_beat IS NOT DISTINCT FROM beat, load
FROM ostler.machines
"""
_JOIN = """
INSERT INTO ostler.machines (id, epoch, name, url, public_key, joined_at, seen_at, facts)
VALUES (%s, nextval('ostler.epochs'), %s, %s, %s, clock_timestamp(), clock_timestamp(), %s)
ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, name = excluded.name, url = excluded.url,
    public_key = excluded.public_key, beat = 0, lease = machines.lease + 1, fenced_at_beat = NULL,
    joined_at = excluded.joined_at, seen_at = excluded.seen_at, draining = false, left_at = NULL, facts = excluded.facts
RETURNING epoch, lease
"""
_BEAT = """
UPDATE ostler.machines SET beat = beat + 1, seen_at = clock_timestamp(), load = %s, facts = coalesce(%s, facts)
WHERE id = %s AND epoch = %s AND left_at IS NULL RETURNING extract(epoch FROM clock_timestamp())::float8, lease
"""
_FENCE = """
UPDATE ostler.machines SET lease = lease + 1, fenced_at_beat = beat
WHERE id = %s AND epoch = %s AND lease = %s AND beat = %s AND fenced_at_beat IS DISTINCT FROM beat RETURNING lease
"""
_PUT = """
INSERT INTO ostler.sessions (machine, id, name, used_at, body) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (machine, id) DO UPDATE SET name = excluded.name, used_at = excluded.used_at, body = excluded.body
"""
_FIND = """
SELECT body FROM ostler.sessions WHERE id = %(key)s OR name = %(key)s OR id LIKE %(beginning)s
ORDER BY id, machine LIMIT 50
"""


class Joined(NamedTuple):
    name: str
    epoch: int
    lease: int


class Beat(NamedTuple):
    """`now`: by the clock of the directory. `lease`: another one than before says that this machine was fenced."""

    now: float
    lease: int
    machines: list[MachineRow]  # empty where they were not asked for


class Fenced(OstlerError):
    """Another process speaks for this machine by now, or it was removed."""

    def __init__(self) -> None:
        super().__init__(
            "store",
            "this machine was removed from the directory, or another ostler joined with a copy of its state folder",
            "Restart it: ostler up --join …",
        )


class Directory:
    """One connection, made when it is needed and made anew when it is lost. Calls wait for each other."""

    def __init__(self, url: str) -> None:
        """Raises bad_request for what is not an address of Postgres."""
        if not url.startswith(("postgres://", "postgresql://")):
            raise _bad_address()
        self.url = url  # a password may stand in it: never in arguments, logs or errors
        self._open: PostgresConnection | None = None
        self._turn = asyncio.Lock()

    async def close(self) -> None:
        """May be called twice."""
        async with self._turn:
            await self._drop()

    async def prepare(self) -> None:
        """Makes the tables where they are missing."""
        async with self.asked() as db:
            await db.execute("SELECT pg_advisory_xact_lock(%s)", (TABLES_LOCK,))
            await db.execute(_TABLES)

    # -- machines

    async def join(self, id: str, name: str, url: str, public_key: bytes, facts: MachineFacts) -> Joined:
        """Its name is one that no other living machine has. Whoever joined with this id before is fenced."""
        async with self.asked() as db:
            # Of two of one name the second sees the first.
            await db.execute("SELECT pg_advisory_xact_lock(%s)", (TABLES_LOCK,))
            taken = await _all(
                await db.execute("SELECT name FROM ostler.machines WHERE id <> %s AND left_at IS NULL", (id,))
            )
            name = free_machine_name(name, {ANY, *(row[0] for row in taken)})
            joined = await db.execute(_JOIN, (id, name, url, public_key, as_text(facts)))
            ((epoch, lease),) = await _all(joined)
            await db.execute("DELETE FROM ostler.slots WHERE machine = %s", (id,))
            return Joined(name, epoch, lease)

    async def beat(
        self, id: str, epoch: int, load: MachineLoad, facts: MachineFacts | None = None, *, look: bool = True
    ) -> Beat:
        """A heartbeat; `facts` where they have changed. With `look`, all machines as they are. Raises Fenced."""
        async with self.asked() as db:
            as_json = as_text(facts) if facts is not None else None
            found = await _all(await db.execute(_BEAT, (as_text(load), as_json, id, epoch)))
            if not found:
                raise Fenced
            now, lease = found[0]
            return Beat(now, lease, await _machines(db) if look else [])

    async def fence(self, row: MachineRow) -> bool:
        """Ends the lease of a machine that is silent, and frees what it had. False: it was heard of, or others did."""
        async with self.asked() as db:
            if not await _all(await db.execute(_FENCE, (row.id, row.epoch, row.lease, row.beat))):
                return False
            await db.execute("DELETE FROM ostler.slots WHERE machine = %s", (row.id,))
            return True

    async def machines(self) -> list[MachineRow]:
        """By name."""
        async with self.asked() as db:
            return await _machines(db)

    async def machine(self, id: str) -> MachineRow | None:
        async with self.asked() as db:
            return next(
                (_machine(*row) for row in await _all(await db.execute(f"{_MACHINES} WHERE id = %s", (id,)))), None
            )

    async def leave(self, id: str, epoch: int) -> None:
        async with self.asked() as db:
            await db.execute(
                "WITH gone AS (UPDATE ostler.machines SET left_at = clock_timestamp() WHERE id = %s AND epoch = %s"
                " RETURNING id) DELETE FROM ostler.slots USING gone WHERE machine = gone.id",
                (id, epoch),
            )

    async def drain(self, id: str, draining: bool) -> bool:
        """Whether there is such a machine."""
        async with self.asked() as db:
            done = await db.execute("UPDATE ostler.machines SET draining = %s WHERE id = %s", (draining, id))
            return bool(done.rowcount)

    async def forget(self, id: str) -> bool:
        """Removes a machine with its index of sessions. Whether there was one."""
        async with self.asked() as db:
            return bool((await db.execute("DELETE FROM ostler.machines WHERE id = %s", (id,))).rowcount)

    # -- sessions

    async def put_sessions(
        self, machine: str, epoch: int, entries: Iterable[SessionEntry], removed: Iterable[str], whole: bool
    ) -> None:
        """Tells the index what a machine has. `whole`: and nothing else. Raises Fenced."""
        async with self.asked() as db:
            query = "SELECT 1 FROM ostler.machines WHERE id = %s AND epoch = %s FOR SHARE"
            if not await _all(await db.execute(query, (machine, epoch))):
                raise Fenced
            if whole:
                await db.execute("DELETE FROM ostler.sessions WHERE machine = %s", (machine,))
            gone = list(removed)
            if gone:
                await db.execute("DELETE FROM ostler.sessions WHERE machine = %s AND id = ANY(%s)", (machine, gone))
            rows = [(machine, entry.id, entry.name, entry.used_at, as_text(entry)) for entry in entries]
            if rows:
                async with db.cursor() as cursor:
                    await cursor.executemany(_PUT, rows)

    async def find_sessions(self, key: str) -> list[SessionEntry]:
        """Those of this id or name; else those whose id begins so."""
        beginning = key.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_") + "%"
        async with self.asked() as db:
            rows = await _all(await db.execute(_FIND, {"key": key, "beginning": beginning}))
        found = [msgspec.json.decode(body, type=SessionEntry) for (body,) in rows]
        return [entry for entry in found if key in (entry.id, entry.name)] or found

    async def sessions_of(self, machine: str, limit: int) -> list[SessionEntry]:
        """The last used first."""
        query = "SELECT body FROM ostler.sessions WHERE machine = %s ORDER BY used_at DESC LIMIT %s"
        async with self.asked() as db:
            rows = await _all(await db.execute(query, (machine, limit)))
        return [msgspec.json.decode(body, type=SessionEntry) for (body,) in rows]

    # -- questions

    @asynccontextmanager
    async def asked(self) -> "AsyncIterator[PostgresConnection]":
        """A transaction on the connection. What fails or takes too long ends the connection: the next call has a new
        one.
        """
        import psycopg

        async with self._turn:
            try:
                async with asyncio.timeout(SECONDS):
                    db = await self._connection()
                    async with db.transaction():
                        yield db
            except Fenced:
                raise
            except (psycopg.Error, OSError, TimeoutError) as error:
                await self._drop()
                raise _trouble(error) from None  # its traceback would show the address
            except BaseException:
                await self._drop()
                raise

    async def _connection(self) -> "PostgresConnection":
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        if self._open is None or self._open.closed:
            try:
                port = str(conninfo_to_dict(self.url).get("port") or 0)
            except psycopg.ProgrammingError:  # its words may hold a part of the password
                raise _bad_address() from None
            if not port.replace(",", "").isdigit():  # a part of a password with an `@` or `:` in it
                raise _bad_address()
            self._open = await psycopg.AsyncConnection.connect(
                self.url, autocommit=True, connect_timeout=3, tcp_user_timeout=5000, application_name="ostler"
            )
            # A machine that is stopped or cut off in a transaction must not keep its locks from all others.
            await self._open.execute(f"SET idle_in_transaction_session_timeout = '{SECONDS}s'")
        return self._open

    async def _drop(self) -> None:
        open, self._open = self._open, None
        if open is not None:
            await open.close()


def free_machine_name(name: str, taken: Iterable[str]) -> str:
    """The name, numbered where another machine has it."""
    taken, number, free = set(taken), 2, name
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free


async def _machines(db: "PostgresConnection") -> list[MachineRow]:
    return [_machine(*row) for row in await _all(await db.execute(f"{_MACHINES} ORDER BY name, id"))]


def _machine(
    id: str,
    epoch: int,
    name: str,
    url: str,
    public_key: bytes,
    beat: int,
    age: float,
    joined_at: float,
    draining: bool,
    left: bool,
    facts: str,
    lease: int,
    fenced: bool,
    load: str,
) -> MachineRow:
    return MachineRow(
        id=id,
        epoch=epoch,
        name=name,
        url=url,
        public_key=bytes(public_key),
        beat=beat,
        age=max(0.0, age),
        joined_at=joined_at,
        draining=draining,
        left=left,
        facts=structs.replace(
            msgspec.json.decode(facts, type=MachineFacts), load=msgspec.json.decode(load, type=MachineLoad)
        ),
        lease=lease,
        fenced=fenced,
    )


async def _all(cursor: Any) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = await cursor.fetchall()
    return rows


def as_text(value: Any) -> str:
    """A NUL cannot be kept by Postgres; nothing that we tell has one but by mischief."""
    return msgspec.json.encode(value).decode().replace("\\u0000", "")


def _bad_address() -> OstlerError:
    hint = "Write it as postgres://user@host/database"
    return OstlerError("bad_request", "--join needs the address of a Postgres database", hint)


def _trouble(error: BaseException) -> OstlerError:
    words = "it did not answer in time" if isinstance(error, TimeoutError) else str(error).strip().partition("\n")[0]
    return OstlerError(
        "store", f"the directory (Postgres) cannot be used: {words}", "Check the address, and that Postgres is running"
    )
