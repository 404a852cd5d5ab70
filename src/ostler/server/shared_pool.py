"""What this machine has of limits over all machines: asked for in Postgres, kept in the store for all its processes.

The store never allows more than Postgres has granted: what is given back is taken out of the store first, and what is
new is put into it last. Once the lease of this machine has run out, nothing that these limits count may start.
"""

import asyncio
from collections.abc import Mapping

from msgspec import structs

from ostler import clock
from ostler.errors import OstlerError
from ostler.machines import states
from ostler.machines.membership import Membership
from ostler.machines.slots import Lapsed, Leaseholder, Slots
from ostler.model.pool import PoolTurn, SharedSlots
from ostler.settings import SharedSpending
from ostler.store import Store
from ostler.supervise import Loop
from ostler.work import Ostler
from ostler.work.pool.decide import key_text, limits_by_key
from ostler.work.pool.pool import SharedDemand, shared_use
from ostler.work.pool.spending import day_of, midnight

_AGAIN = 0.25  # seconds before slots that others have are asked for again, at least
_AGAIN_EACH = 0.005  # the same for each machine that waits: 200 questions a second, however many there are
_PACE = 0.01  # seconds between two looks at least: many may write at once
_SPENT_EACH = 10.0  # seconds between looks at what others have spent


class SharedPool:
    """From `start` to `stop`. Without limits over all machines in the settings nothing is asked."""

    def __init__(self, ostler: Ostler, membership: Membership) -> None:
        self._o, self._membership, self._store = ostler, membership, ostler.store
        self._limits = {key_text(key): most for key, most in limits_by_key(ostler.settings.pool.shared).items()}
        self._spending = ostler.settings.spending.shared != SharedSpending()
        self._lease = 0
        self._held: dict[str, int] = {}  # what the store allows
        self._waiting = 0  # machines that wait for slots
        self._asked: SharedDemand | None = None
        self._due = float("-inf")
        self._others: dict[str, float] = {}
        self._day, self._reported, self._reported_at = "", dict[str, float](), float("-inf")
        self._watch = ostler.store.watch()
        self._asking = Loop("sharing limits with other machines", self._step, longest=1.0)

    @property
    def trouble(self) -> Exception | None:
        return self._asking.trouble

    async def start(self) -> None:
        """What another server of this state folder has left in the store does not count."""
        if self._limits or self._spending:
            await self._store.change_shared_slots(lambda turns, before: SharedSlots())
            self._asking.start()
        else:
            await forget_shared(self._store)

    async def stop(self) -> None:
        await self._asking.stop()
        self._watch.close()
        await forget_shared(self._store)

    async def _step(self) -> None:
        """Asks when turns came or ended here, and at times: what others have given back is not told."""
        version = self._store.data_version()
        demand = self._o.pool.shared_demand() if self._limits else SharedDemand({}, {})
        if demand != self._asked or clock.monotonic() >= self._due:
            await self._share(demand.wanted)
            self._asked, self._due = demand, clock.monotonic() + self._pause(demand.wanted)
        await self._changed(version)

    def _pause(self, wanted: Mapping[str, int]) -> float:
        if any(self._held.get(key, 0) < count for key, count in wanted.items()):
            self._membership.keep_watch()  # one that has died may hold them
            return max(_AGAIN, self._waiting * _AGAIN_EACH)
        return states.BEAT if wanted else _SPENT_EACH

    async def _share(self, wanted: Mapping[str, int]) -> None:
        membership = self._membership
        if self._lease != membership.lease:  # nothing of before is ours
            await self._give_back({})
            self._lease = membership.lease
        holder = Leaseholder(membership.directory, membership.id, membership.epoch, self._lease)
        kept, until = await self._give_back(wanted), membership.leased_until
        try:
            slots = await holder.take_slots(wanted, kept, self._limits) if self._limits else Slots({}, 0)
            await self._report_spent(holder)
        except Lapsed:
            await self._give_back({})
            raise OstlerError("store", "the lease of this machine has ended: it asks for its slots again") from None
        self._waiting, self._held = slots.waiting, {key: given.start for key, given in slots.granted.items()}
        held = SharedSlots(held=self._held, until=until, spent=self._others, day=self._day)
        await self._store.change_shared_slots(lambda turns, before: held)

    async def _give_back(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """From now on no more may start than is wanted. What of each limit this machine must still have then."""

        def lowered(turns: tuple[PoolTurn, ...], before: SharedSlots | None) -> SharedSlots:
            slots = before or SharedSlots()
            held = {key: min(slots.held.get(key, 0), wanted.get(key, 0)) for key in self._limits}
            return structs.replace(slots, held=held)

        turns, slots = await self._store.change_shared_slots(lowered)
        assert slots is not None
        running = shared_use((turn for turn in turns if turn.runs), self._o.settings.pool.shared)
        return {key: max(running.get(key, 0), slots.held.get(key, 0)) for key in self._limits}

    async def _report_spent(self, holder: Leaseholder) -> None:
        if not self._spending:
            return
        now = clock.now()
        day, spent = day_of(now), self._store.spent_since(midnight(now))
        if (day, spent) == (self._day, self._reported) and clock.monotonic() - self._reported_at < _SPENT_EACH:
            return
        self._others = await holder.report_spent(day, spent)
        self._day, self._reported, self._reported_at = day, spent, clock.monotonic()

    async def _changed(self, version: int) -> None:
        """Waits until somebody wrote to the store, or until it is time to ask again."""
        await asyncio.sleep(_PACE)
        if self._store.data_version() != version:
            return
        commits = self._watch.commits()
        try:
            await commits.wait(max(0.0, self._due - clock.monotonic()))
        finally:
            commits.close()


async def forget_shared(store: Store) -> None:
    """Of a machine that is alone: only its own limits count."""
    if store.shared_slots() is not None:
        await store.change_shared_slots(lambda turns, before: None)
