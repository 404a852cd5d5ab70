"""A cgroup of the warden's own, where the kernel lets us have one (v2, and our own cgroup is ours to write).

Whatever its children start stays in it: also a daemon with a session, a parent and an environment of its own, which
neither the tree nor the mark would lead to once the warden is dead.
"""

import contextlib
import os
import signal
from pathlib import Path
from time import sleep

from ostler import clock
from ostler.process.tree import read_all

_PATIENCE = 2.0


def make() -> str:
    """A new, empty one beneath our own; its path, or "" where there may be none."""
    try:
        base = own()
        if base is None or not os.access(base, os.W_OK):
            return ""
        _sweep(base)
        path = base / f"ostler-{os.getpid()}-{os.urandom(4).hex()}"
        path.mkdir()
    except OSError:
        return ""
    return str(path)


def _sweep(base: Path) -> None:
    """Those of processes that were killed stay behind, empty once the warden has ended all."""
    for path in base.glob("ostler-*"):
        pid = path.name.split("-")[1]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            remove(str(path))


def own() -> Path | None:
    """Where this process is in the v2 hierarchy; None if there is none."""
    mount = next((fields[4] for line in _lines("/proc/self/mountinfo") if _is_v2(fields := line.split())), None)
    inside = next((line[3:] for line in _lines("/proc/self/cgroup") if line.startswith("0::")), None)
    return None if mount is None or inside is None else Path(mount) / inside.lstrip("/")


def make_beneath(path: str) -> str:
    """Another one, for one warden; "" if that fails."""
    inner = f"{path}/{os.urandom(4).hex()}"
    try:
        os.mkdir(inner)
    except OSError:
        return ""
    return inner


def pids(path: str) -> list[int]:
    """Who is in it, and in those that they made beneath it."""
    found = []
    for folder, _, _ in os.walk(path):
        found += [int(pid) for pid in read_all(f"{folder}/cgroup.procs").split()]
    return found


def remove(path: str) -> None:
    """Only an empty one can be removed; what is beneath it goes first."""
    for folder, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):  # somebody is in it still: the next ostler removes it
            os.rmdir(folder)


def end(path: str) -> None:
    """Kills whoever is in it, and removes it. Blocks for at most two seconds."""
    give_up = clock.monotonic() + _PATIENCE
    while (left := [pid for pid in pids(path) if pid != os.getpid()]) and clock.monotonic() < give_up:
        for pid in left:
            with contextlib.suppress(OSError):  # it has ended by itself
                os.kill(pid, signal.SIGKILL)
        sleep(0.01)
    remove(path)


def _lines(path: str) -> list[str]:
    return read_all(path).decode(errors="replace").splitlines()


def _is_v2(fields: list[str]) -> bool:
    return "-" in fields and fields[fields.index("-") + 1] == "cgroup2" and fields[3] == "/"
