"""What looking at a turn's folder costs: before the turn, and after it when one file changed.

A small repository, one of 5,000 files, and folders of 1, 5,000 and 20,000 files that are in no repository.
"""

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from ostler.work.diff.compare import compare, look

ROUNDS = int(os.environ.get("ROUNDS", "5"))
FOLDERS = {"repository": (20, 5000), "no repository": (1, 5000, 20_000)}
LINES = "a line of a file, as long as lines usually are\n" * 60


def made(base: Path, kind: str, count: int) -> Path:
    folder = base / f"{kind.replace(' ', '-')}-{count}"
    for number in range(count):
        file = folder / str(number % 100) / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n{LINES}")
    if kind == "repository":
        subprocess.run(["git", "init", "-q", folder], check=True)
        subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    return folder


def taken(folder: Path, scratch: Path, number: int) -> tuple[float, float]:
    began = time.perf_counter()
    before = look(str(folder), str(scratch), env={"PATH": os.environ["PATH"]})
    looked = time.perf_counter()
    (folder / "0" / "0.txt").write_text(f"changed {number}\n{LINES}")
    again = time.perf_counter()
    done = compare(before)
    ended = time.perf_counter()
    assert len(done.files) == 1 or done.notice, done
    if done.notice:
        print(done.notice)
    return (looked - began) * 1000, (ended - again) * 1000


def main() -> None:
    print(f"{f'the diff of a turn, ms, median of {ROUNDS}':40} {'before':>8} {'after':>8}")
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        (base / "scratch").mkdir()
        for kind, counts in FOLDERS.items():
            for count in counts:
                folder = made(base, kind, count)
                rows = [taken(folder, base / "scratch", number) for number in range(ROUNDS)]
                before, after = (statistics.median(column) for column in zip(*rows, strict=True))
                print(f"{f'{kind}, {count:,} files':40} {before:8.1f} {after:8.1f}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
