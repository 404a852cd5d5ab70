"""Servers that have joined each other, in one process: each with a state folder, a port and a key of its own."""

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from ostler.machines.directory import Directory
from ostler.machines.membership import JoinOptions, Membership, machine_id
from ostler.machines.model import MachineFacts
from ostler.server.app import build
from ostler.server.running import ServerOptions, listen, own_addresses, serving
from ostler.server.shared_pool import SharedPool
from ostler.settings import load_settings
from ostler.work import Ostler
from ostler.work.folder_settings import loader
from server.conftest import Yard


class MachineYard(Yard):
    membership: Membership
    shared: SharedPool


@contextlib.asynccontextmanager
async def joined_yard(
    base: Path, name: str, database: str, told: MachineFacts | None = None, config: str = "", **more: str
) -> AsyncIterator[MachineYard]:
    """`told`: what it tells of itself. `config`: its settings, as TOML. `more`: how it joins."""
    home, folder = base / name / "home", base / name / "project"
    home.mkdir(parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    (home / ".config" / "ostler").mkdir(parents=True, exist_ok=True)
    (home / ".config" / "ostler" / "config.toml").write_text(config)
    environ = {
        "HOME": str(home),
        "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "OSTLER_HOME": str(base / name / "state"),
        "OSTLER_ONLY": "script",
        "OSTLER_SCRIPT_SPEED": "0",
    }
    settings = load_settings(folder=str(folder), environ=environ).settings
    listening = listen("127.0.0.1", 0)
    join = JoinOptions(**{"directory": database, "name": name, "url": f"http://127.0.0.1:{listening.port}", **more})

    async def facts() -> MachineFacts:
        return told or MachineFacts()

    async with Ostler(settings, environ, "up", loader(environ)) as ostler:
        id = await machine_id(ostler.store)
        async with Membership(Directory(database), id, join, ostler.store.watch(), facts) as membership:
            own = own_addresses(listening, ServerOptions(folder=str(folder), join=join))
            site = build(ostler, own, folder=str(folder), membership=membership)
            yard = MachineYard(ostler, site, listening, folder)
            yard.membership, yard.shared = membership, SharedPool(ostler, membership)
            await yard.shared.start()
            try:
                async with serving(site, listening), yard.as_("admin") as client:
                    yard.client = client
                    yield yard
            finally:
                await yard.shared.stop()
