"""Real CLIs against the scripted model: a fresh HOME, dummy keys, and a network of loopback only."""

import contextlib
import ctypes
import fcntl
import os
import shutil
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostler.testing.model import ScriptedModel
from real.yard import Yard

_CLONE_NEWNET = 0x40000000
SLOW = ("gemini", "opencode", "qwen", "claude")


def pytest_configure(config: pytest.Config) -> None:
    alone_with_loopback()


def alone_with_loopback() -> None:
    """As root, this process moves into a network namespace that has only loopback."""
    if os.geteuid() == 0 and ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) == 0:
        _bring_up_loopback()


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        up = struct.pack("16sh14x", b"lo", 0x1 | 0x40)
        fcntl.ioctl(sock.fileno(), 0x8914, up)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # One CLI is run by one worker, since some of them take 2 GB. The slow ones begin, so that none of them is the last.
    items.sort(key=lambda item: SLOW.index(agent_of(item)) if agent_of(item) in SLOW else len(SLOW))
    for item in items:
        item.add_marker(pytest.mark.together(agent_of(item)))


def agent_of(item: pytest.Item) -> str:
    return (
        isinstance(item, pytest.Function) and hasattr(item, "callspec") and item.callspec.params.get("agent")
    ) or "any"


@pytest.fixture
def yard(agent: str, request: pytest.FixtureRequest) -> Iterator[Yard]:
    """A set-up in which the user's own settings are the agent's defaults, or (`permissive`) allow everything."""
    if not os.environ.get("OSTLER_TEST_CLIS"):
        pytest.fail("run `make test-real`: the real CLIs are not installed")
    base = Path.home() / ".cache" / "ostler" / "test-real" / f"{os.getpid()}-{agent}-{abs(hash(request.node.nodeid))}"
    shutil.rmtree(base, ignore_errors=True)  # not under /tmp: codex refuses to work there
    base.mkdir(parents=True)
    permissive = "permissive" in request.fixturenames
    with ScriptedModel(scenario="text") as model:
        yield Yard(agent, base, model, permissive)
    shutil.rmtree(base, ignore_errors=True)
    # codex's sandbox leaves these empty mount points, which would make one project of all of /tmp, with settings.
    for name in (".git", ".codex", ".agents"):
        with contextlib.suppress(OSError):
            Path("/tmp", name).rmdir()


@pytest.fixture
def permissive() -> bool:
    """Asks for a HOME and folder whose own settings allow everything."""
    return True
