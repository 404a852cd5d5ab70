"""The one warden of an ostler process: started with the first turn, ended with the process."""

import asyncio
from contextlib import suppress
from pathlib import Path

from ostler.errors import OstlerError
from ostler.process import Warden
from ostler.work import leftovers
from ostler.work.turns.artifacts import remove_files


class SharedWarden:
    """Everybody who needs the warden awaits `get`; who will need it soon calls `start`."""

    def __init__(self, store_folder: Path) -> None:
        self._store_folder = store_folder
        self._task: asyncio.Task[Warden] | None = None
        self._noted: tuple[str, ...] = ()  # what tells the next ostler of the warden's cgroup

    def start(self) -> "asyncio.Task[Warden]":
        """Begins with the first turn, or before: it takes a moment to be there. What failed is tried again."""
        if self._task is None or _has_failed(self._task):
            self._task = asyncio.create_task(self._start())
        return self._task

    async def get(self) -> Warden:
        return await asyncio.shield(self.start())

    def pid(self) -> int | None:
        """None until it has started."""
        if self._task is None or not self._task.done() or _has_failed(self._task):
            return None
        return self._task.result().pid

    async def close(self) -> None:
        if self._task is None:
            return
        try:
            warden = await self._task
        except OstlerError:
            return  # it could not be started: the turn that wanted it has said why
        try:
            await warden.close()
        finally:
            remove_files(self._noted)

    async def _start(self) -> Warden:
        warden = await Warden.start()
        if warden.cgroup:
            with suppress(OstlerError):  # a full disk: then the next ostler would not find it
                self._noted = (leftovers.note(self._store_folder, {}, warden.cgroup),)
        return warden


def _has_failed(task: "asyncio.Task[Warden]") -> bool:
    """The machine had no room for it then."""
    return task.done() and (task.cancelled() or task.exception() is not None)
