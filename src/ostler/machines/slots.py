"""Slots of limits that hold over all machines, and what was spent: in Postgres, while a machine's lease lasts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ostler.machines.directory import Directory
from ostler.machines.shares import Granted, Share, grant

if TYPE_CHECKING:
    from ostler.machines.directory import PostgresConnection

_LOCK = 0x6F73746C6573  # of those who change slots
_LEASE = "SELECT 1 FROM ostler.machines WHERE id = %s AND epoch = %s AND lease = %s AND left_at IS NULL FOR SHARE"
_PUT = """
INSERT INTO ostler.slots (machine, key, held, wanted, granted) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (machine, key) DO UPDATE SET held = excluded.held, wanted = excluded.wanted, granted = excluded.granted
"""
_SPENT = """
INSERT INTO ostler.spent (machine, day, who, usd) VALUES (%s, %s, %s, %s)
ON CONFLICT (day, machine, who) DO UPDATE SET usd = excluded.usd
"""


class Slots(NamedTuple):
    """What a machine has of each limit, and how many machines wait for more than they have."""

    granted: dict[str, Granted]
    waiting: int


class Lapsed(Exception):
    """The lease under which something was asked for has ended: what it gave is gone."""


class Leaseholder:
    """A machine under one lease."""

    def __init__(self, directory: Directory, machine: str, epoch: int, lease: int) -> None:
        self._directory, self._machine = directory, machine
        self._lease = (machine, epoch, lease)

    async def take_slots(self, wanted: Mapping[str, int], kept: Mapping[str, int], limits: Mapping[str, int]) -> Slots:
        """What this machine has of each limit from now on. `kept`: what it must not lose of it, since it runs.

        Raises Lapsed.
        """
        async with self._directory.asked() as db:
            await db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            await self._check(db)
            shares = await _shares(db)
            granted = {}
            for key, most in limits.items():
                of_key = shares.get(key, {})
                mine = of_key.get(self._machine, Share())
                asked = Share(held=mine.held, wanted=wanted.get(key, 0), granted=mine.granted)
                given = grant(self._machine, {**of_key, self._machine: asked}, most, kept.get(key, 0))
                granted[key] = given
                if (given.held, asked.wanted) != (mine.held, mine.wanted):
                    await self._put(db, key, given.held, asked, mine)
            return Slots(granted, len({name for each in shares.values() for name in each if each[name].waits}))

    async def _put(self, db: "PostgresConnection", key: str, held: int, asked: Share, before: Share) -> None:
        if not held and not asked.wanted:
            await db.execute("DELETE FROM ostler.slots WHERE machine = %s AND key = %s", (self._machine, key))
            return
        granted = before.granted
        if held > before.held:
            ((granted,),) = await (await db.execute("SELECT nextval('ostler.grants')")).fetchall()
        await db.execute(_PUT, (self._machine, key, held, asked.wanted, granted))

    async def report_spent(self, day: str, spent: Mapping[str, float]) -> dict[str, float]:
        """What all other machines spent on this day, by profile or agent. Older days are forgotten. Raises Lapsed."""
        async with self._directory.asked() as db:
            await self._check(db)
            async with db.cursor() as cursor:
                await cursor.executemany(_SPENT, [(self._machine, day, who, usd) for who, usd in spent.items()])
            await db.execute("DELETE FROM ostler.spent WHERE machine = %s AND day < %s", (self._machine, day))
            query = "SELECT who, sum(usd) FROM ostler.spent WHERE day = %s AND machine <> %s GROUP BY who"
            return dict(await (await db.execute(query, (day, self._machine))).fetchall())

    async def _check(self, db: "PostgresConnection") -> None:
        if not await (await db.execute(_LEASE, self._lease)).fetchall():
            raise Lapsed


async def _shares(db: "PostgresConnection") -> dict[str, dict[str, Share]]:
    """Of each limit what each machine has."""
    found: dict[str, dict[str, Share]] = {}
    for machine, key, held, wanted, granted in await (
        await db.execute("SELECT machine, key, held, wanted, granted FROM ostler.slots")
    ).fetchall():
        found.setdefault(key, {})[machine] = Share(held=held, wanted=wanted, granted=granted)
    return found
