"""What a screen process is doing right now, in memory that outlives it: if it dies, that is what it died of."""

import mmap
import os
import struct
from typing import NamedTuple

OPEN, FEED, RESIZE, LOOK, DRAW, KEEP = range(1, 7)

_FORM = struct.Struct("=QQQQ")
_NOTHING = bytes(_FORM.size)


class Doing(NamedTuple):
    """`number` is the offset after the bytes of a FEED, the count of a RESIZE, the ask of a LOOK; else 0."""

    id: int  # of the screen
    what: int
    number: int = 0
    size: int = 0  # bytes of a FEED


class StepNote:
    """Shared by ostler, which makes it, and the screen process, which writes it."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, _FORM.size)

    def begin(self, id: int, what: int, number: int = 0, size: int = 0) -> None:
        _FORM.pack_into(self._memory, 0, id, what, number, size)

    def rest(self) -> None:
        """Nothing is being done: who dies now died of something else."""
        self._memory[:] = _NOTHING

    def read(self) -> Doing | None:
        doing = Doing(*_FORM.unpack_from(self._memory))
        return doing if doing.id else None

    def close(self) -> None:
        self._memory.close()


def step_note_file() -> int:
    """A file without a name, for `StepNote`; the caller closes it."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("ostler-screen")
    else:
        import tempfile

        fd, name = tempfile.mkstemp()
        os.unlink(name)
    os.truncate(fd, _FORM.size)
    return fd
