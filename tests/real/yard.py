"""A place to run one real CLI in: a HOME, a folder, a scripted model, and the environment that joins them."""

import base64
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ostler.model import AnyEvent, Envelope
from ostler.process import tree
from ostler.settings import load_settings, recorded_answers, trust_file
from ostler.testing.model import ScriptedModel
from ostler.work import LiveSession, Ostler
from ostler.work.known_agents import agents_of
from ostler.work.project_config import read_project_config, remember_answer

PIXEL = base64.b64decode(  # a PNG
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
# What the CLIs said of their versions and flags, in tests before: to ask is half of what a short test costs.
ASKED: dict[str, Any] = {}
AGENTS = ("claude", "codex", "gemini", "qwen", "opencode", "copilot")


def each(agents: Iterable[str], core: Iterable[str]) -> pytest.MarkDecorator:
    """A test with each of these agents; only some of them in CI, where one agent's test says much of the others'."""
    return pytest.mark.parametrize(
        "agent", [pytest.param(agent, marks=[pytest.mark.core] if agent in core else []) for agent in agents]
    )


def setup_of(agent: str) -> ModuleType:
    name = agent.replace("-", "_")
    path = Path(__file__).parent / f"setup_{name}.py"
    spec = importlib.util.spec_from_file_location(f"ostler_setup_{name}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Yard:
    """One agent's place to run: a HOME, a folder, a model, and the environment that joins them."""

    def __init__(self, agent: str, base: Path, model: ScriptedModel, permissive: bool) -> None:
        self.agent = agent
        self.model = model
        self.home, self.folder = base / "home", base / "project"
        self.home.mkdir(parents=True)
        self.folder.mkdir()
        (self.folder / "README.md").write_text("# A project\n")
        subprocess.run(["git", "init", "-q", str(self.folder)], check=True)
        setup = setup_of(agent)
        self.quirks: dict[str, Any] = setup.QUIRKS
        clis, node = Path(os.environ["OSTLER_TEST_CLIS"]), os.environ["OSTLER_TEST_NODE"]
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{clis}/node_modules/.bin:{node}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "OSTLER_HOME": str(base / "state"),
            **setup.setup(self.home, self.folder, model.url, permissive),
        }

        if permissive:
            self.trust()  # what the folder allows counts: an access must hold all the same

    def trust(self) -> None:
        """The user trusts all that the folder brings for the agent, as it is now."""
        settings = load_settings(folder=str(self.folder), environ=self.env).settings
        agent, list_file = agents_of(settings)[self.agent], trust_file(self.env)
        remember_answer(
            read_project_config(str(self.folder), agent, str(self.home), recorded_answers(list_file)),
            agent,
            list_file,
            True,
        )

    @property
    def server_error(self) -> int:
        """The status of a model server that is down, which the CLI does not retry for minutes."""
        return int(self.quirks.get("server_error", 500))

    def asking(self, command: str) -> str:
        """A prompt by which the agent wants to run a command that it asks about."""
        tool = self.quirks.get("asks_with")
        return f"[[tool:{tool[0]}:{json.dumps({**tool[1], 'cmd': command})}]]" if tool else f"[[shell:{command}]]"

    @contextlib.asynccontextmanager
    async def ostler(self, **env: str) -> AsyncIterator[Ostler]:
        environ = {**self.env, **env}
        settings = load_settings(folder=str(self.folder), environ=environ).settings
        async with Ostler(settings, environ) as o:
            for key, value in ASKED.items():
                await o.store.set_note(key, value)
            yield o
            ASKED.update(
                (key, o.store.note(key)) for (key,) in o.store._read("SELECT key FROM notes WHERE key LIKE 'probe:%'")
            )

    async def session(self, o: Ostler, **options: Any) -> LiveSession:
        return await o.session(self.agent, folder=str(self.folder), **options)

    async def turn(
        self, prompt: str, *, session: dict[str, Any] | None = None, **options: Any
    ) -> tuple[Envelope, list[AnyEvent]]:
        """One turn in a new session; nothing may be left running after it."""
        async with self.ostler() as o:
            live = await self.session(o, **(session or {}))
            events = [event async for event in live.run(prompt, **options)]
            assert live.last is not None
            assert tree.marked(live.last.turn) == []
            return live.last, events

    def cli(self, *args: str) -> "subprocess.Popen[bytes]":
        """`ostler …` as a real process, in the agent's folder."""
        return subprocess.Popen(
            [sys.executable, "-m", "ostler", *args],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
