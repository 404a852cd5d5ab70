"""Follows the file that a CLI keeps of its conversation: its new records, as they come."""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ostler.agents import Agent, decode
from ostler.agents.adapter import located
from ostler.agents.values import Record
from ostler.process import LineFramer
from ostler.process.lines import OutputLine

_PIECE = 4 << 20  # bytes that are read at once
_HEAD = 1 << 20

Fits = Callable[[str, Sequence[Record]], bool]


class Transcript:
    """One conversation's file, which may not be there yet. Nothing here raises: without it, other signals count."""

    def __init__(self, agent: Agent, home: str, environ: Mapping[str, str]) -> None:
        self._agent, self._home, self._environ = agent, home, environ
        self._globs: Sequence[str] = ()
        self._others: frozenset[str] | None = None  # that were there when it began
        self._fits: Fits = lambda path, head: True
        self.path: str | None = None
        self._offset = 0
        self._framer = LineFramer()

    def begin(self, globs: Sequence[str], fits: Fits | None = None) -> None:
        """A turn begins: what stands in the file by now is of turns before.

        Where the globs are not exact, `fits` tells the file by its first records among those that are new.
        """
        self._globs, self._fits = globs, fits or self._fits
        if self.path is None:
            found = self._candidates()
            if self._others is None:
                self._others = frozenset(found) if fits else frozenset()
            self.path = found[0] if found and not fits else None
        if self.path is not None:
            self._offset = _size(self.path)
            self._framer = LineFramer()

    @property
    def bookmark(self) -> tuple[str | None, int, tuple[str, ...]]:
        """Where the turn's records begin, for `resume`: the file and its size then, and files that were there."""
        return self.path, self._offset, tuple(self._others or ())

    def resume(
        self, globs: Sequence[str], fits: Fits | None, bookmark: tuple[str | None, int, tuple[str, ...]]
    ) -> None:
        """A turn that began in another process goes on: its records are read from its beginning."""
        self._globs, self._fits = globs, fits or self._fits
        self.path, self._offset, others = bookmark
        self._others = frozenset(others)
        self._framer = LineFramer()

    def records(self) -> list[Record]:
        """What is new."""
        if self.path is None:
            self.path = next((path for path in self._candidates() if self._is_ours(path)), None)
        if self.path is None:
            return []
        data = _read(self.path, self._offset, _PIECE)
        self._offset += len(data)
        return [record for line in self._framer.feed(data) if (record := _record(line)) is not None]

    def _is_ours(self, path: str) -> bool:
        if self._others and path in self._others:
            return False
        lines = LineFramer().feed(_read(path, 0, _HEAD))
        return self._fits(path, [record for line in lines if (record := _record(line)) is not None])

    def _candidates(self) -> list[str]:
        """Regular files that match, the newest first."""
        found: dict[str, float] = {}
        for each in self._globs:
            folder, pattern = located(self._agent, each, self._home, self._environ)
            try:
                for path in Path(folder).glob(pattern):
                    info = path.lstat()
                    if stat.S_ISREG(info.st_mode):
                        found[str(path)] = info.st_mtime
            except (OSError, ValueError, NotImplementedError):
                continue  # no such folder, or a file that was removed meanwhile: looked for again
        return sorted(found, key=lambda path: found[path], reverse=True)


def _record(line: OutputLine) -> Record | None:
    record = None if line.cut else decode(line.data)
    return record if isinstance(record, dict) else None


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _read(path: str, offset: int, size: int) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            file.seek(offset)
            return file.read(size)
    except OSError:
        return b""
