"""A warden, a quick way to spawn, and waiting for conditions with a deadline."""

import asyncio
import os
import sys
import uuid
from pathlib import Path

import pytest

import waiting
from ostler.process import Warden, chunks, tree

# Leaves a daemon (own session, parent gone) that ignores what can be ignored and says its pid to a file.
DAEMON = """
import os, signal, sys, time
def daemon(path):
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for fd in (0, 1, 2):
        os.close(fd)
    with open(path + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)
    time.sleep(600)
"""


@pytest.fixture(scope="module", autouse=True)
def parts() -> None:
    """The warden is started as ostler starts it."""


@pytest.fixture
def daemon_code():
    return DAEMON


@pytest.fixture
def env():
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


@pytest.fixture
def mark():
    mark = f"test-{uuid.uuid4().hex}"
    yield mark
    tree.end_marked([mark], grace=0)


@pytest.fixture
async def warden():
    warden = await Warden.start()
    yield warden
    await warden.close()


@pytest.fixture
async def spawn(warden, env, mark, tmp_path):
    """Spawns with defaults; releases what it spawned."""
    spawned = []

    async def spawn(*argv, **options):
        process = await warden.spawn(argv, **{"cwd": str(tmp_path), "env": env, "mark": mark, **options})
        spawned.append(process)
        return process

    yield spawn
    for process in spawned:
        process.release()


@pytest.fixture
def python(spawn):
    """Runs Python code in a process."""

    async def python(code, *arguments, **options):
        return await spawn(sys.executable, "-I", "-S", "-c", code, *arguments, **options)

    return python


@pytest.fixture
def read_all():
    async def read_all(fd):
        return b"".join([chunk async for chunk in chunks(fd)])

    return read_all


@pytest.fixture
def read_until():
    async def read_until(fd, needle, limit=30):
        seen = b""
        async with asyncio.timeout(limit):
            async for chunk in chunks(fd):
                seen += chunk
                if needle in seen:
                    return seen
        raise AssertionError(f"{needle!r} never came, only {seen!r}")

    return read_until


@pytest.fixture
def until():
    return waiting.until


@pytest.fixture
def pid_in():
    """The pid that a process writes to a file, 0 until it is there."""

    def pid_in(path):
        return int(Path(path).read_text() or 0) if Path(path).exists() else 0

    return pid_in
