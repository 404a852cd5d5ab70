"""Machines with `https` addresses: a proxy with TLS before one of them, whose certificate is checked."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from certificates import Authority, Issued
from machines.conftest import database, postgres  # noqa: F401
from ostler.errors import OstlerError
from ostler.machines import membership, states
from ostler.machines.membership import JoinOptions
from ostler.server.running import check_join
from relay import pass_on
from server.machine_yards import joined_yard
from server.watching import watching

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (membership, states):
        monkeypatch.setattr(module, "BEAT", 0.05)


class Proxy:
    """TLS outside, plain HTTP inside; it is told later where that is."""

    port = 0
    target = 0

    async def met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer))


@asynccontextmanager
async def proxy(issued: Issued) -> AsyncIterator[Proxy]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*issued)
    made = Proxy()
    server = await asyncio.start_server(made.met, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


async def test_a_machine_behind_tls_is_asked_and_its_certificate_checked(tmp_path: Path, database: str) -> None:  # noqa: F811
    good, wrong = Authority(tmp_path / "good"), Authority(tmp_path / "wrong")
    async with (
        proxy(good.issue("127.0.0.1")) as tls,
        joined_yard(tmp_path, "owl", database, url=f"https://127.0.0.1:{tls.port}") as owl,
    ):
        tls.target = owl.port
        body = {"agent": "script", "folder": str(owl.folder)}
        async with joined_yard(tmp_path, "hawk", database, ca=str(good.file)) as hawk:
            made = await hawk.client.post("/api/sessions?machine=owl", json=body)
            assert made.status_code == 201, made.text
            session = made.json()["id"]
            opened = await hawk.client.post("/api/terminals", json={"session": session, "argv": ["cat"]})
            url = f"{hawk.ws}/api/terminals/{opened.json()['id']}/ws"
            async with watching(url, hawk.bearer("type")) as viewer:
                await viewer.take()
                await viewer.type("hay")
                await viewer.until(lambda viewer: viewer.shows("hay"))
        for name, ca in (("crow", str(wrong.file)), ("wren", "")):  # another authority; those of the system alone
            async with joined_yard(tmp_path, name, database, ca=ca) as other:
                refused = await other.client.get(f"/api/sessions/{session}")
                assert refused.status_code == 502 and "certificate" in refused.json()["detail"].lower()


async def test_a_file_without_certificates_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "hay.pem").write_text("hay")
    for path in (tmp_path / "hay.pem", tmp_path / "nothing.pem"):
        with pytest.raises(OstlerError) as raised:
            check_join(JoinOptions(directory="postgres://u@h/d", name="hawk", ca=str(path)), "127.0.0.1")
        assert raised.value.kind == "bad_request" and str(path) in str(raised.value)
