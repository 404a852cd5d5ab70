"""Ends that the store did not take when they came (a full disk): kept here, and written as soon as it does."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from ostler.errors import OstlerError
from ostler.supervise import Loop

StoreWrite = Callable[[], Awaitable[object]]

_LONGEST = 5.0  # seconds between two tries
_LAST_TRY = 5.0  # seconds that the end of the process may take for it

_log = logging.getLogger(__name__)


class Unwritten:
    """The ends of turns and terminals that this process owes the store. Nobody waits for them meanwhile."""

    def __init__(self) -> None:
        self._owed: dict[str, StoreWrite] = {}
        self._some = asyncio.Event()
        self._writing = Loop("writing what the store did not take", self._step, longest=_LONGEST)

    def __contains__(self, id: str) -> bool:
        return id in self._owed

    async def write(self, id: str, write: StoreWrite) -> None:
        """Writes now, or keeps it for later where the store is in trouble. Raises what else is wrong with it."""
        try:
            await write()
        except OstlerError as error:
            if error.kind != "store":
                raise
            self.keep(id, write)

    def keep(self, id: str, write: StoreWrite) -> None:
        """`write` is called until it succeeds; it must do no harm when it is called again."""
        _log.warning("the end of %s cannot be written now: it is tried again", id)
        self._owed[id] = write
        self._some.set()
        self._writing.start()

    async def write_all(self) -> bool:
        """Tries all of it once. False: nothing was written. Raises `store` when something is left."""
        trouble: OstlerError | None = None
        written = False
        for id, write in list(self._owed.items()):
            try:
                await write()
                written = True
            except OstlerError as error:
                if error.kind == "store":
                    trouble = error
                    continue
                _log.error("the end of %s cannot be written: %s", id, error)  # nor ever will be: its row is gone
            if self._owed.get(id) is write:
                del self._owed[id]
        if trouble is not None:
            raise trouble
        if not self._owed:  # something may have been added while the rest was written
            self._some.clear()
        return written

    async def close(self) -> None:
        """The last try. What is left then is found at the next start, which can say less about it."""
        await self._writing.stop()
        if not self._owed:
            return
        with contextlib.suppress(OstlerError, TimeoutError):  # told below, for each that is left
            async with asyncio.timeout(_LAST_TRY):
                await self.write_all()
        for id in self._owed:
            _log.error("the end of %s could not be written", id)

    async def _step(self) -> None:
        await self._some.wait()
        await self.write_all()
