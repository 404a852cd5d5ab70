"""The real application under a real uvicorn on a loopback port, with a scratch Ostler."""

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from ostler.server.app import Site, build
from ostler.server.gateway import OwnAddresses, addresses_of
from ostler.server.running import Listening, listen, serving
from ostler.settings import load_settings
from ostler.terminal.viewer_protocol import Rights
from ostler.work import Ostler
from ostler.work.folder_settings import loader
from waiting import PATIENCE


class Yard:
    """A server that answers, and tokens for it. `client` is a program with all rights."""

    def __init__(self, ostler: Ostler, site: Site, listening: Listening, folder: Path) -> None:
        self.ostler, self.site, self.listening, self.folder = ostler, site, listening, folder
        self.port = listening.port
        self.url = f"http://127.0.0.1:{self.port}"
        self.ws = f"ws://127.0.0.1:{self.port}"
        self.auth = site.auth
        self.client: httpx.AsyncClient

    def token(self, rights: Rights = "admin", name: str = "tester", seconds: float = 3600) -> str:
        return self.auth.sign("bearer", rights, name, seconds)

    def bearer(self, rights: Rights = "admin", name: str = "tester") -> dict[str, str]:
        return {"authorization": f"Bearer {self.token(rights, name)}"}

    def as_(self, rights: Rights | None, **options: Any) -> httpx.AsyncClient:
        """A client with these rights, or with none at all."""
        headers = {**(self.bearer(rights) if rights else {}), **options.pop("headers", {})}
        # Nothing here is TLS: without `verify` no certificates are loaded, which takes longer than most requests.
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=PATIENCE, trust_env=False, verify=False, **options
        )

    async def browser(self, rights: Rights = "admin", name: str = "tester") -> httpx.AsyncClient:
        """A client that came by a link, and has a cookie."""
        client = self.as_(None, headers={"origin": self.url})
        answer = await client.post("/api/login", json={"token": self.auth.sign("link", rights, name, 3600)})
        assert answer.status_code == 200, answer.text
        return client


@contextlib.asynccontextmanager
async def yard_at(
    base: Path,
    *,
    door: Callable[[Listening], OwnAddresses] | None = None,
    env: dict[str, str] | None = None,
    **options: Any,
) -> AsyncIterator[Yard]:
    """`options` go to `build`; `env` into the environment of the scratch Ostler."""
    home, folder = base / "home", base / "project"
    home.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    environ = {
        "HOME": str(home),
        "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "OSTLER_HOME": str(base / "state"),
        "OSTLER_ONLY": "script",
        "OSTLER_SCRIPT_SPEED": "0",
        **(env or {}),
    }
    settings = load_settings(folder=str(folder), environ=environ).settings
    listening = listen("127.0.0.1", 0)
    async with Ostler(settings, environ, "up", loader(environ)) as ostler:
        made = door(listening) if door else addresses_of(listening.addresses, listening.port)
        site = build(ostler, made, folder=str(folder), **options)
        yard = Yard(ostler, site, listening, folder)
        async with serving(site, listening), yard.as_("admin") as client:
            yard.client = client
            yield yard


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with yard_at(tmp_path) as yard:
        yield yard
