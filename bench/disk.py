"""What this disk takes for what every turn does: a new folder with a file in it, and a write that is flushed.

Figures of turns depend on both. ext4 without a journal, as small virtual machines have it, passes over each inode that
was deleted within the last minutes before it gives out one: after a bench or a test run has removed its thousands of
files, a new one takes up to a millisecond instead of some ten microseconds, and a turn up to three times as long.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

TRIES = 50
SLOW = 0.2  # ms


def disk_line(folder: Path) -> str:
    """Both figures, for the last line of a bench."""
    new, flush = new_file_ms(folder), flush_ms(folder)
    hint = "; SLOW: many files were deleted just now, measure again in some minutes" if new > SLOW else ""
    return f"on this disk a new folder with a file takes {new:.2f} ms, a flush {flush:.2f}{hint}"


def new_file_ms(folder: Path) -> float:
    numbers = iter(range(TRIES))

    def make() -> None:
        place = folder / f"probe-{next(numbers)}"
        place.mkdir()
        (place / "file").touch()

    return median_ms(make)


def flush_ms(folder: Path) -> float:
    with open(folder / "probe", "wb") as file:

        def write() -> None:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())

        return median_ms(write)


def median_ms(work: Callable[[], None]) -> float:
    taken = []
    for _ in range(TRIES):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(disk_line(Path(name)))
