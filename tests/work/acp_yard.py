"""ACP agents by a command line of the settings, under a real Ostler."""

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from ostler.model import AnyEvent, Asked, Ended, Envelope
from ostler.settings import load_settings
from ostler.testing import agent
from ostler.work import LiveSession, Ostler
from ostler.work.dialogs.asks import AskAnswer

SCRIPTED = (sys.executable, "-IS", agent.__file__, "--acp")

# Hands on what it reads to the agent, and keeps what was said on both sides.
TEE = """
import subprocess, sys, threading
agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def pump(source, sink, log):
    with open(log, "ab") as file:
        for line in source:
            file.write(line)
            file.flush()
            sink.write(line)
            sink.flush()
    sink.close()
threading.Thread(target=pump, args=(sys.stdin.buffer, agent.stdin, sys.argv[1] + ".client"), daemon=True).start()
pump(agent.stdout, sys.stdout.buffer, sys.argv[1] + ".agent")
"""


def overheard(log: Path) -> tuple[str, ...]:
    """The scripted agent, with both sides of the talk in `LOG.client` and `LOG.agent`."""
    return (sys.executable, "-c", TEE, str(log), *SCRIPTED)


def frames(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_bytes().splitlines()]


class AcpYard:
    """A state folder, a project folder, and an agent named `mine`."""

    def __init__(self, base: Path, argv: Sequence[str] = SCRIPTED, loose: bool = True, settings: str = "") -> None:
        self.base, self.home, self.folder = base, base / "home", base / "project"
        self.home.mkdir()
        self.folder.mkdir()
        config = self.home / ".config" / "ostler" / "config.toml"
        config.parent.mkdir(parents=True)
        # JSON's lists and strings are TOML's.
        config.write_text(
            ('loose = ["mine"]\n' if loose else "")
            + f'env = {{ OSTLER_SCRIPT_SPEED = "0", OSTLER_SCRIPT_HOME = {json.dumps(str(base / "script"))} }}\n'
            + f"[acp]\nmine = {json.dumps(list(argv))}\n{settings}"
        )
        self.environ = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "OSTLER_HOME": str(base / "state"),
        }

    @contextlib.asynccontextmanager
    async def ostler(self, **flags: Any) -> AsyncIterator[Ostler]:
        settings = load_settings(folder=str(self.folder), environ=self.environ, flags=flags).settings
        async with Ostler(settings, self.environ) as o:
            yield o

    async def session(self, o: Ostler, **options: Any) -> LiveSession:
        return await o.session("mine", folder=str(self.folder), **{"access": "full", **options})


async def turn(
    o: Ostler, live: LiveSession, prompt: str, option: str = "allow", **options: Any
) -> tuple[Envelope, list[AnyEvent]]:
    """One turn; what it asks of a person is answered so, or not at all."""
    events: list[AnyEvent] = []
    async for event in live.run(prompt, **options):
        events.append(event)
        if option and isinstance(event, Asked) and event.id in {ask.id for ask in o.open_asks(event.turn)}:
            await o.answer(live.id, AskAnswer(ask=event.id, option=option, by="a person"))
    assert live.last is not None
    assert [type(e) for e in events].count(Ended) == 1
    return live.last, events


def pid_of(o: Ostler, live: LiveSession) -> int:
    return o.dialogs._live[live.id].dialog.process.pid
