"""Ostler's own tmux server of a state folder, for a test: whatever happens in it, no pane is left."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from needs import require
from ostler.process import tree
from ostler.work.tuis import delivery


def tmux(state: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """One command for the server of that state folder."""
    argv = ["tmux", "-S", "socket", *words]
    return subprocess.run(argv, cwd=state / "tmux", capture_output=True, text=True, check=False)


def panes(state: Path) -> list[str]:
    """The sessions whose panes there are."""
    if not (state / "tmux").exists():
        return []
    return tmux(state, "list-panes", "-a", "-F", "#{@ostler_session}").stdout.split()


@contextlib.contextmanager
def own_tmux(state: Path, scripted: pytest.MonkeyPatch | None = None) -> Iterator[None]:
    """The scripted agent is ready when its box is drawn: nothing has to be waited for where no state is told."""
    require("tmux")
    if scripted is not None:
        scripted.setattr(delivery, "QUIET", delivery.STEADY)
    try:
        yield
    finally:
        if (state / "tmux").exists():
            tmux(state, "kill-server")
            for pid in _clients(state):  # whose ostler was killed: see docs/visible.md
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)


def _clients(state: Path) -> list[int]:
    """Control clients of this server that are still there."""
    folder = str((state / "tmux").resolve())
    return [pid for pid in tree.processes() if _folder(pid) == folder and "tmux -u" in tree.command(pid)]


def _folder(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""
