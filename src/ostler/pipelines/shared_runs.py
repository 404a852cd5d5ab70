"""The run of a process whose machine has joined others: all that it writes of it, Postgres has first.

What a machine writes that is not its run's any more is refused: then nothing is written here, either.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import structs

from ostler import clock
from ostler.errors import OstlerError
from ostler.machines.run_index import RunClaim, RunIndex, RunMoved, went_on
from ostler.pipelines.model import NodeRow, RunRow
from ostler.pipelines.runs import Runs
from ostler.store import Store
from ostler.store.sqlite import MACHINE_NOTE
from ostler.supervise import Loop

_LOOK = 1.0  # seconds between looks at whether the run is still ours
_AGAIN = 0.5  # seconds before Postgres is tried again, which is away
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)


class SharedRuns(Runs):
    """For one run. Whoever writes waits while Postgres is away; and for ever, once the run is another machine's."""

    def __init__(self, store: Store, index: RunIndex, run: RunRow) -> None:
        super().__init__(store)
        self._index, self._id = index, run.id
        self._writing = asyncio.Lock()
        self.claim_held = RunClaim(str(store.note(MACHINE_NOTE)), run.fence)
        self._moved: asyncio.Future[RunMoved] = asyncio.get_running_loop().create_future()

    async def change(self, id: str, **fields: Any) -> RunRow:
        row = structs.replace(self._known(), **fields)
        await self._until_written(lambda: self._index.put_run(id, self.claim_held, row.state, _encode(row)))
        return await super().change(id, **fields)

    async def _update_node(self, run: str, node: str, change: Callable[[NodeRow], NodeRow], full: bool) -> NodeRow:
        async with self._writing:  # items of a node change it side by side
            row = change(self.node(run, node))
            await self._until_written(lambda: self._index.put_node(run, self.claim_held, node, _encode(row)))
            return await super()._update_node(run, node, change, full)

    async def until_moved(self) -> RunMoved:
        """Waits until another machine has the run."""
        looking = Loop(f"looking whether run {self._id} is still ours", self._look, longest=_LOOK)
        looking.start()
        try:
            return await asyncio.shield(self._moved)
        finally:
            await looking.stop()

    async def _look(self) -> None:
        """While Postgres is away nobody can claim it without our hearing of it afterwards."""
        try:
            await self._index.check(self._id, self.claim_held)
        except RunMoved as moved:
            self._note(moved)
        await asyncio.sleep(_LOOK)

    async def keep_moved(self, moved: RunMoved) -> None:
        """Says here where the run is."""
        await mark_moved(Runs(self._store), self._known(), moved.machine)

    def _known(self) -> RunRow:
        row = self.get(self._id)
        assert row is not None
        return row

    async def _until_written(self, write: Callable[[], Awaitable[None]]) -> None:
        while not await self._is_written(write):
            await asyncio.sleep(_AGAIN)

    async def _is_written(self, write: Callable[[], Awaitable[None]]) -> bool:
        try:
            await write()
        except RunMoved as moved:
            self._note(moved)
            await asyncio.Future()  # whoever runs the nodes ends them all
        except OstlerError as error:
            _log.info("run %s waits for Postgres: %s", self._id, error)
            return False
        return True

    def _note(self, moved: RunMoved) -> None:
        if not self._moved.done():
            self._moved.set_result(moved)


async def mark_moved(runs: Runs, run: RunRow, machine: str) -> None:
    """Of a run that another machine has by now. One that has ended here before stays as it is."""
    row = runs.get(run.id)
    if row is not None and row.state in ("running", "cancelling") and row.fence == run.fence:
        words = f"it {went_on(machine)}"
        await runs.change(run.id, state="moved", owner=None, error=words, ended_at=clock.now())
