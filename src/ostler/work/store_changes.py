"""Waiting for what others write to the store."""

import asyncio

from ostler import clock
from ostler.store import Store
from ostler.work.transports.stop import Stop

_POLL = 0.05
_PATIENCE = 1.0


async def change_since(store: Store, version: int, stop: Stop | None = None) -> None:
    """Waits until somebody wrote to the store; a second at most, since a dead owner writes nothing."""
    deadline = clock.monotonic() + _PATIENCE
    while store.data_version() == version and clock.monotonic() < deadline:
        if stop is not None and stop.problem is not None:
            return
        await asyncio.sleep(_POLL)
