"""A second ostler process with a terminal in it, started by tests; `main` is what runs in it."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ostler.settings import load_settings
from ostler.work import Ostler
from ostler.work.sessions.rows import new_session_row
from prefork import start_python
from work.scripted import Stable

RUN = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from work.far import main
asyncio.run(main(*sys.argv[2:]))
"""


class Far(NamedTuple):
    """The process, and the session and terminal that it owns. It closes in order when its stdin ends."""

    process: "subprocess.Popen[str]"
    session: str
    terminal: str

    async def close(self) -> None:
        await asyncio.to_thread(self.process.communicate)
        assert self.process.returncode == 0


async def far(stable: Stable, argv: Sequence[str], session: str = "", **env: str) -> Far:
    """Starts it and waits until its terminal is open."""
    process = start_python(
        RUN,
        str(Path(__file__).parent.parent),
        session,
        *argv,
        cwd=stable.folder,
        env={**stable.env, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    told = json.loads(await asyncio.to_thread(process.stdout.readline))
    return Far(process, told["session"], told["terminal"])


async def main(session: str, *argv: str) -> None:
    async with Ostler(load_settings(folder=".", environ=os.environ).settings, os.environ) as o:
        if not session:
            row = new_session_row(o.store, o.settings, agent="script", folder=os.getcwd())
            await o.store.add_session(row)
            session = row.id
        terminal = await o.terminals.open(session, argv)
        print(json.dumps({"session": session, "terminal": terminal.row.id}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
