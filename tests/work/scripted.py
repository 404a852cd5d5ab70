"""The scripted agent under a real Ostler, for the tests of the work room."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

from ostler.model import AnyEvent, Envelope
from ostler.process import tree
from ostler.settings import load_settings
from ostler.testing.clock import Clock
from ostler.testing.launched import ScriptedAgent
from ostler.work import LiveSession, Ostler
from prefork import start_ostler

T = TypeVar("T")


class Stable:
    """A state folder, a project folder and the scripted agent: all that a turn needs."""

    def __init__(self, base: Path, agent: ScriptedAgent) -> None:
        self.script = agent
        self.state, self.home, self.folder = base / "state", base / "home", base / "project"
        self.home.mkdir()
        self.folder.mkdir()

    @property
    def env(self) -> dict[str, str]:
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "OSTLER_HOME": str(self.state)}
        return {**env, **self.script.env}

    @contextlib.asynccontextmanager
    async def ostler(self, role: str = "api", **env: str) -> AsyncIterator[Ostler]:
        environ = {**self.env, **env}
        async with Ostler(load_settings(folder=str(self.folder), environ=environ).settings, environ, role) as o:
            yield o

    async def turn(
        self, prompt: str = "go", *, agent: str = "script", **options: Any
    ) -> tuple[Envelope, list[AnyEvent]]:
        """One turn in a session of its own. Whatever happened, no process of it is left."""
        async with self.ostler() as o:
            session = await o.session(agent, folder=str(self.folder))
            events = [event async for event in session.run(prompt, **options)]
            assert session.last is not None
            assert tree.marked(session.last.turn) == []
            assert o.store.events(session.id) == events
            return session.last, events

    def cli(self, *args: str, **env: str) -> "subprocess.Popen[str]":
        """`ostler …` as a process of its own."""
        return start_ostler(
            args,
            cwd=self.folder,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


async def collect(session: LiveSession, prompt: str, **options: Any) -> list[AnyEvent]:
    return [event async for event in session.run(prompt, **options)]


async def turn_until(clock: Clock, seconds: float, task: "asyncio.Task[T]") -> T:
    """Turns the clock until the task is done: for what begins to count at a moment that nobody tells."""
    while not task.done():
        await clock.turn(seconds)
        await asyncio.sleep(0.05)
    return await task
