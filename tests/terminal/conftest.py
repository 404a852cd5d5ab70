"""Screens, and programs in real terminals."""

import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest_asyncio

from ostler.process import Size, Warden, tree
from ostler.process.pty import Pty
from ostler.terminal.live import LiveTerminal
from ostler.terminal.screen.screens import Screens
from terminal.watching import row

Run = Callable[..., Awaitable[tuple[LiveTerminal, Pty]]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def screens() -> AsyncIterator[Screens]:
    """For all tests of a file, which have one loop then: a screen process takes longer to start than they do."""
    screens = Screens()
    yield screens
    await screens.close()
    assert screens.pids == []


@pytest_asyncio.fixture(loop_scope="module")
async def own_screens() -> AsyncIterator[Screens]:
    screens = Screens()
    yield screens
    await screens.close()


@pytest_asyncio.fixture(loop_scope="module")
async def run(screens: Screens, tmp_path: Path) -> AsyncIterator[Run]:
    """Runs a program in a live terminal; ends what is left of it."""
    warden = await Warden.start()
    mark = f"test-{uuid.uuid4().hex}"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm-256color", "LANG": "C.UTF-8", "PS1": "$ "}
    started: list[Pty] = []

    async def run(*argv: str, **options: Any) -> tuple[LiveTerminal, Pty]:
        process = await warden.spawn(
            argv, cwd=str(tmp_path), env=env, mark=mark, stdin=None, tty=Size(80, 24), keep_stdin=True
        )
        pty = Pty(process)
        started.append(pty)
        terminal = LiveTerminal(row(), screens, controls=pty, **options)
        pty.start(terminal.output, lambda: terminal.crowded)
        return terminal, pty

    yield run
    for pty in started:
        pty.close()
    await warden.close()
    tree.end_marked([mark], grace=0)
