"""The nouns of a diff: what is told, within which bounds, and why there is none."""

from msgspec import Struct

from ostler import clock
from ostler.model import FileChange


class Diff(Struct, frozen=True):
    """What a turn changed in its folder: a unified diff, the files, and what is missing from it."""

    text: str = ""
    files: tuple[FileChange, ...] = ()
    notice: str = ""


class Bounds(Struct, frozen=True, kw_only=True):
    """How much a look may cost. Beyond it there is no diff, and a notice."""

    git_seconds: float = 10.0
    git_bytes: int = 256 << 20  # changed and untracked content that git has to hash
    git_file: int = 32 << 20  # a bigger file is named in the diff, its content is not shown
    nested: int = 16  # repositories within the folder
    plain_seconds: float = 2.0
    plain_files: int = 20_000
    plain_bytes: int = 64 << 20
    text: int = 64 << 20  # the diff itself


class Skipped(Exception):
    """There is no diff; says why."""


class Deadline:
    """A point in time that work must not pass."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.at = clock.monotonic() + seconds

    def left(self) -> float:
        """Seconds that remain. Raises Skipped when there are none."""
        left = self.at - clock.monotonic()
        if left <= 0:
            raise self.passed()
        return left

    def passed(self) -> Skipped:
        return Skipped(f"no diff: looking at the folder took longer than {self.seconds:g} s")
