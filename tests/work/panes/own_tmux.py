"""Ostler's own tmux server of a state folder, for a test: whatever happens in it, no pane is left."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from needs import require
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
