"""What an attacker behind a wall goes for, and how it is judged from outside."""

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ostler.process import landlock
from security import attack

TRIES = 147

OTHER = "import os, sys; os.open('.', os.O_RDONLY); print('up', flush=True); sys.stdin.read()"


# What Landlock and the filter do not hold back; signals are held from version 6 on.
NOT_HELD = set() if landlock.abi() >= 6 else {"signals_another", "stops_another", "signals_another_by_its_descriptor"}
if os.geteuid() == 0:  # CAP_PERFMON reads it since kernel 6.16 or so, whatever Landlock says
    NOT_HELD.add("reads_the_environment_of_another")
# Needs what a machine may lack, or may forbid to everybody: no try that must get through without a wall.
MAY_FAIL = {
    *("by_another_user", "by_sudo", "in_a_user_namespace", "with_a_mount", "in_a_new_root", "with_bubblewrap"),
    *("through_a_handle", "with_a_descriptor_of_another", "make_unnamed", "with_copy_file_range", "with_a_device"),
}


class Told(NamedTuple):
    """What the attacker says of itself: how much it tried, and what got through of what cannot be seen from outside."""

    tried: int
    planted: int
    through: set[str]


def told(text: str) -> Told:
    """Found in its output, whatever an agent made of that."""
    found = re.search(r"tried=(\d+) planted=(\d+) through=([a-z_,]*);", text)
    assert found is not None, text
    return Told(int(found[1]), int(found[2]), {*filter(None, found[3].split(","))})


class World(NamedTuple):
    """Outside of the wall: victims, a home, a process and a socket."""

    out: Path
    home: Path
    pid: int
    path: str

    @property
    def argv(self) -> list[str]:
        return [sys.executable, attack.__file__, str(self.out), str(self.home), str(self.pid), self.path]

    def taken(self) -> set[str]:
        """The tries on files that got through."""
        return {name for name in attack.FILES if self._is_taken(self.out / name)}

    def planted(self) -> list[str]:
        """The files that grant power which it could write."""
        return [path for path in attack.POWER if self._is_planted(self.home / path)]

    def _is_planted(self, path: Path) -> bool:
        return path.is_file() and path.read_bytes().startswith(attack.TEXT)

    def _is_taken(self, victim: Path) -> bool:
        new = victim.with_name(f"{victim.name}.new")
        return os.path.lexists(new) or not victim.exists() or victim.read_text() != "kept"


@contextlib.contextmanager
def world_in(tmp_path: Path, home: Path | None = None) -> Iterator[World]:
    """Victims, and what else an attacker may go for, in that folder."""
    out, home = tmp_path / "out", home or tmp_path / "victims-home"
    out.mkdir()
    home.mkdir(exist_ok=True)
    for name in attack.FILES:
        (out / name).write_text("kept")
    path = str(tmp_path / "s")
    other = subprocess.Popen([sys.executable, "-c", OTHER], cwd=out, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        with socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX) as abstract:
            for each, address in ((named, path), (abstract, "\0" + path)):
                each.bind(address)
                each.listen(16)
            assert other.stdout is not None and other.stdout.readline() == b"up\n"
            yield World(out, home, other.pid, path)
    finally:
        other.communicate()
