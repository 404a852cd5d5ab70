"""What a test may need of the machine that not every machine has: all skips are decided here.

`@needs("mount")` skips a test where that is missing. Where nothing may be skipped (OSTLER_TEST_NO_SKIP, as in CI),
only what no package could bring may be missing: what the kernel or the container does not allow.
"""

import functools
import glob
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ostler.process import cgroup, landlock
from ostler.store import beneath

# The one without a window first: it takes half of the time.
_CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Debian keeps the programs of each version in a folder that is not on PATH.
POSTGRES = max(map(os.path.dirname, glob.glob("/usr/lib/postgresql/*/bin/postgres")), default="")
CHROMIUM = next(filter(None, map(shutil.which, _CHROMIUMS)), None)


class Need(NamedTuple):
    is_met: Callable[[], bool]
    reason: str  # of the skip
    machine: bool = False  # it depends on the machine alone, so CI may do without


def _is_root() -> bool:
    return os.geteuid() == 0


def _may_mount() -> bool:
    """Root in a plain container may not."""
    with tempfile.TemporaryDirectory(prefix="ostler-test-") as folder:
        mount = ["mount", "-t", "tmpfs", "none", folder]
        if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
            return False
        subprocess.run(["umount", "-l", folder], check=True)
        return True


def _may_make_cgroups() -> bool:
    group = cgroup.make()
    cgroup.remove(group)
    return bool(group)


def _may_make_networks() -> bool:
    """Namespaces, and a cable between two of them."""
    name = f"ostler-test-{os.getpid()}"
    ip = shutil.which("ip")
    if ip is None or subprocess.run([ip, "netns", "add", name], capture_output=True, check=False).returncode:
        return False
    cable = [ip, "-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1"]
    made = subprocess.run(cable, capture_output=True, check=False).returncode == 0
    subprocess.run([ip, "netns", "del", name], check=True)
    return made


def _has_loopback_alone() -> bool:
    """As the tests of real CLIs, where root runs them (tests/real/conftest.py)."""
    return [name for _, name in socket.if_nameindex()] == ["lo"]


NEEDS = {
    "root": Need(_is_root, "only root can give files away", machine=True),
    "mount": Need(_may_mount, "this machine does not let us mount a disk", machine=True),
    "networks": Need(_may_make_networks, "this machine does not let us make networks", machine=True),
    "loopback": Need(_has_loopback_alone, "only root can cut a test off from the network", machine=True),
    "cgroup": Need(_may_make_cgroups, "this machine does not let us make a cgroup", machine=True),
    "landlock": Need(lambda: landlock.abi() >= landlock.LEAST_ABI, "this kernel has no Landlock", machine=True),
    "openat2": Need(beneath._has_openat2, "this kernel or sandbox has no openat2", machine=True),
    "setpriv": Need(lambda: bool(shutil.which("setpriv")), "setpriv is not installed"),
    "tmux": Need(lambda: bool(shutil.which("tmux")), "tmux is not installed"),
    "chromium": Need(lambda: CHROMIUM is not None, "Chromium is not installed"),
    "postgres": Need(lambda: bool(POSTGRES), "Postgres is not installed"),
    "git": Need(lambda: Path(__file__).parents[1].joinpath(".git").exists(), "this is not a git checkout"),
}


def needs(name: str) -> pytest.MarkDecorator:
    """The test is skipped where that is missing; it is looked for when the test is about to run."""
    assert name in NEEDS, f"{name} is not in NEEDS"
    return pytest.mark.needs(name)


def require(name: str) -> None:
    """The same within a fixture."""
    if not is_met(name):
        pytest.skip(NEEDS[name].reason)


@functools.cache
def is_met(name: str) -> bool:
    return NEEDS[name].is_met()


def may_be_skipped(reason: str) -> bool:
    """Whether a skip for that reason is none of CI's business."""
    return any(need.machine and need.reason == reason for need in NEEDS.values())


STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "socket.bind"}
NOT_QUICK = "starts a process or a server, as no test of `make quick` may"
refused: list[str] = []  # what the test that runs wanted to start


def refuse_starts(event: str, args: object) -> None:
    """For `sys.addaudithook`: a test that starts something is skipped."""
    if event in STARTS:
        refused.append(event)
        pytest.skip(NOT_QUICK)
