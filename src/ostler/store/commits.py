"""Wakes those who watch a store when anybody, in any process, writes to it.

Every commit is written to the WAL, and inotify tells of that. It does so a moment before the commit can be read, so
whoever was woken has to look again soon. Where inotify is not to be had, nobody is woken: then one looks at times.
"""

import asyncio
import ctypes
import logging
import os
from pathlib import Path

_IN_MODIFY = 0x2
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # inotify's own have the same values

_log = logging.getLogger(__name__)


class Commits:
    """`wait` is for one task at a time. Closed by its owner."""

    def __init__(self, database: Path) -> None:
        self._fd = _watched(Path(f"{database}-wal"))

    @property
    def works(self) -> bool:
        """Whether anybody is ever woken."""
        return self._fd >= 0

    async def wait(self, seconds: float) -> bool:
        """True once something was written since the last call; False after so many seconds."""
        if not self.works:
            await asyncio.sleep(seconds)
            return False
        loop, written = asyncio.get_running_loop(), asyncio.Event()
        # The reader is there only meanwhile: writes that come while nobody waits wake nobody.
        loop.add_reader(self._fd, written.set)
        try:
            async with asyncio.timeout(seconds):
                await written.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._fd)
        os.read(self._fd, 64 * 1024)  # what was written is not told, nor does it matter
        return True

    def close(self) -> None:
        """May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _watched(path: Path) -> int:
    """A descriptor that can be read once the file was written to; -1 if there is no such thing."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        return -1
    fd: int = libc.inotify_init1(_FLAGS)
    if fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(fd)
        fd = -1
    if fd < 0:
        _log.warning("writes to %s are not seen at once: %s", path, os.strerror(ctypes.get_errno()))
    return fd
