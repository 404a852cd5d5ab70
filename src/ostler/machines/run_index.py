"""Runs of pipelines that all machines know of, in Postgres: who has which, what came of its nodes, and which wait.

A run belongs to one machine under one number, its fence. Whoever claims it counts the fence up: what a machine writes
under an older one is refused.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.machines.directory import TABLES_LOCK, Directory, as_text
from ostler.machines.states import BEAT

if TYPE_CHECKING:
    from ostler.machines.directory import PostgresConnection

SILENT = 2 * BEAT  # seconds without a heartbeat after which others look at a machine whose runs they may take over
_OPEN = "r.state IN ('running', 'cancelling')"
_TABLES = """
CREATE TABLE IF NOT EXISTS ostler.runs (
    id text PRIMARY KEY, machine text, fence bigint NOT NULL, state text NOT NULL, takeover boolean NOT NULL,
    wants text NOT NULL, body text NOT NULL, came_from text NOT NULL DEFAULT '', created_at double precision NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS runs_open ON ostler.runs (machine) WHERE state IN ('running', 'cancelling');
CREATE TABLE IF NOT EXISTS ostler.run_nodes (
    run text NOT NULL REFERENCES ostler.runs ON DELETE CASCADE, node text NOT NULL, body text NOT NULL,
    PRIMARY KEY (run, node)
);
"""
# A machine is lost that has left, was removed, or is silent for so long that its lease was ended.
_LOST = "(m.id IS NULL OR m.left_at IS NOT NULL OR m.fenced_at_beat IS NOT DISTINCT FROM m.beat)"
_RUNS = f"""
SELECT r.id, r.machine, coalesce(m.name, ''), r.machine IS NOT NULL AND {_LOST}, r.fence, r.state, r.takeover, r.wants,
    r.body, r.came_from, r.created_at
FROM ostler.runs r LEFT JOIN ostler.machines m ON m.id = r.machine
"""
_ADD = """
INSERT INTO ostler.runs (id, machine, fence, state, takeover, wants, body, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING 1
"""
_PUT_RUN = """
UPDATE ostler.runs SET state = %s, body = %s, changed_at = clock_timestamp()
WHERE id = %s AND machine = %s AND fence = %s RETURNING 1
"""
_PUT_NODE = """
WITH mine AS (SELECT id FROM ostler.runs WHERE id = %s AND machine = %s AND fence = %s FOR SHARE)
INSERT INTO ostler.run_nodes (run, node, body) SELECT id, %s, %s FROM mine
ON CONFLICT (run, node) DO UPDATE SET body = excluded.body RETURNING 1
"""
_CLAIM = f"""
UPDATE ostler.runs SET machine = %(me)s, fence = fence + 1, changed_at = clock_timestamp(),
    came_from = coalesce((SELECT m.name FROM ostler.machines m WHERE m.id = runs.machine), '')
WHERE id = %(id)s AND fence = %(fence)s AND machine IS NOT DISTINCT FROM %(machine)s
    AND state IN ('running', 'cancelling')
    AND (machine IS NULL OR takeover AND NOT EXISTS (
        SELECT 1 FROM ostler.machines m WHERE m.id = runs.machine AND NOT {_LOST}
    ))
    AND EXISTS (
        SELECT 1 FROM ostler.machines m WHERE m.id = %(me)s AND m.epoch = %(epoch)s AND NOT m.draining AND NOT {_LOST}
    )
RETURNING fence
"""


class RunWants(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a machine must have that runs it. What is empty does not matter."""

    machine: str = ""  # its name or id, or ANY
    labels: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    repo: str = ""  # as `host/owner/name`
    below: str = ""  # where in the repository
    folder: str = ""  # where there is no repository: this very path
    version: str = ""  # of the workflows that its steps belong to


class RunClaim(NamedTuple):
    """By what a machine may write to a run."""

    machine: str
    fence: int


class IndexedRun(Struct, frozen=True, kw_only=True):
    """A run as all machines know it. `body` is known to the room of pipelines alone."""

    id: str
    body: bytes
    created_at: float
    machine: str | None = None  # None: it waits for one
    machine_name: str = ""
    lost: bool = False  # its machine has left, was removed, or its lease was ended
    fence: int = 0
    state: str = "running"
    takeover: bool = False
    wants: RunWants = RunWants()
    came_from: str = ""  # the name of the machine that had it before


class RunMoved(OstlerError):
    """The run belongs to another machine by now, or to another process of this one."""

    def __init__(self, run: str, machine: str = "") -> None:
        self.machine = machine
        super().__init__("busy", f"{run} {went_on(machine)}", "See it on the page, or there: ostler pipeline show")


def went_on(machine: str) -> str:
    return f"has moved to machine {machine}" if machine else "has moved to another machine"


class RunIndex:
    """Uses the connection of a directory. Raises what that raises."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    async def prepare(self) -> None:
        """Makes the tables where they are missing; those of the directory are there."""
        async with self._directory.asked() as db:
            await db.execute("SELECT pg_advisory_xact_lock(%s)", (TABLES_LOCK,))
            await db.execute(_TABLES)

    async def add(self, run: IndexedRun) -> bool:
        """False: there is a run of this id already, on whatever machine."""
        wants, body = as_text(run.wants), _stored(run.body)
        row = (run.id, run.machine, run.fence, run.state, run.takeover, wants, body, run.created_at)
        async with self._directory.asked() as db:
            return bool(await _all(db, _ADD, row))

    # -- by the machine that has it

    async def put_run(self, id: str, claim: RunClaim, state: str, body: bytes) -> None:
        """Raises RunMoved."""
        async with self._directory.asked() as db:
            written = await _all(db, _PUT_RUN, (state, _stored(body), id, *claim))
        if not written:
            await self._refuse(id)

    async def put_node(self, id: str, claim: RunClaim, node: str, body: bytes) -> None:
        """Raises RunMoved."""
        async with self._directory.asked() as db:
            written = await _all(db, _PUT_NODE, (id, *claim, node, _stored(body)))
        if not written:
            await self._refuse(id)

    async def check(self, id: str, claim: RunClaim) -> None:
        """Raises RunMoved."""
        found = await self.find(id)
        if found is None or (found.machine, found.fence) != claim:
            raise RunMoved(id, found.machine_name if found is not None else "")

    async def _refuse(self, id: str) -> None:
        found = await self.find(id)
        raise RunMoved(id, found.machine_name if found is not None else "")

    # -- by all

    async def find(self, id: str) -> IndexedRun | None:
        async with self._directory.asked() as db:
            return next((_run(*row) for row in await _all(db, f"{_RUNS} WHERE r.id = %s", (id,))), None)

    async def find_all(self, ids: Iterable[str]) -> dict[str, IndexedRun]:
        async with self._directory.asked() as db:
            return {row[0]: _run(*row) for row in await _all(db, f"{_RUNS} WHERE r.id = ANY(%s)", (list(ids),))}

    async def nodes(self, id: str) -> list[bytes]:
        query = "SELECT body FROM ostler.run_nodes WHERE run = %s ORDER BY node"
        async with self._directory.asked() as db:
            return [body.encode() for (body,) in await _all(db, query, (id,))]

    async def open_runs(self, me: str) -> list[IndexedRun]:
        """Those that have not ended and may concern this machine, the oldest first: its own, those that wait for a
        machine, and those that may be taken over from a machine that is lost, or has been silent for a while.
        """
        silent = f"({_LOST} OR m.seen_at < clock_timestamp() - {SILENT} * interval '1 second')"
        which = f"WHERE {_OPEN} AND (r.machine IS NULL OR r.machine = %s OR r.takeover AND {silent})"
        async with self._directory.asked() as db:
            return [_run(*row) for row in await _all(db, f"{_RUNS} {which} ORDER BY r.created_at, r.id", (me,))]

    async def runs_of(self, machine: str | None, limit: int) -> list[IndexedRun]:
        """Those of a machine; of None, those that wait for one. The newest first."""
        which = f"WHERE r.machine IS NOT DISTINCT FROM %s AND (r.machine IS NOT NULL OR {_OPEN})"
        async with self._directory.asked() as db:
            rows = await _all(db, f"{_RUNS} {which} ORDER BY r.created_at DESC, r.id LIMIT %s", (machine, limit))
            return [_run(*row) for row in rows]

    async def claim(self, run: IndexedRun, me: str, epoch: int) -> IndexedRun | None:
        """The run as one of this machine, if it is still as it was seen and nobody has it; None: it is not so."""
        given = {"me": me, "epoch": epoch, "id": run.id, "fence": run.fence, "machine": run.machine}
        async with self._directory.asked() as db:
            claimed = await _all(db, _CLAIM, given)
        return await self.find(run.id) if claimed else None

    async def cancel_waiting(self, id: str) -> bool:
        """Whether it waited for a machine; then it is removed."""
        async with self._directory.asked() as db:
            query = "DELETE FROM ostler.runs WHERE id = %s AND machine IS NULL RETURNING 1"
            return bool(await _all(db, query, (id,)))

    async def sweep(self, machine: str, days: float) -> None:
        """Forgets what has ended on a machine so long ago: the machine itself still knows it."""
        query = f"""
            DELETE FROM ostler.runs r WHERE r.machine = %s AND NOT ({_OPEN})
            AND r.changed_at < clock_timestamp() - %s * interval '1 day'
        """
        async with self._directory.asked() as db:
            await db.execute(query, (machine, days))


def _run(
    id: str,
    machine: str | None,
    name: str,
    lost: bool,
    fence: int,
    state: str,
    takeover: bool,
    wants: str,
    body: str,
    came_from: str,
    created_at: float,
) -> IndexedRun:
    return IndexedRun(
        id=id,
        machine=machine,
        machine_name=name,
        lost=lost,
        fence=fence,
        state=state,
        takeover=takeover,
        wants=msgspec.json.decode(wants, type=RunWants),
        body=body.encode(),
        came_from=came_from,
        created_at=created_at,
    )


async def _all(db: "PostgresConnection", query: str, given: Any) -> list[tuple[Any, ...]]:
    cursor = await db.execute(query, given)
    rows: list[tuple[Any, ...]] = await cursor.fetchall()
    return rows


def _stored(body: bytes) -> str:
    """As Postgres takes it: without NUL, which only mischief has."""
    return body.decode().replace("\\u0000", "")
