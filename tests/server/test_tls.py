"""TLS that the server ends itself: page, API, WebSockets, the command line beside it, and machines that have joined."""

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from certificates import Authority, Issued, private_bytes
from machines.conftest import database, postgres  # noqa: F401
from ostler.errors import OstlerError
from ostler.server.machine_client import MachineClient, no_body
from ostler.server.tls import TlsFiles, fingerprint_of, server_tls
from prefork import run_ostler
from server.served import Served
from server.watching import watching
from waiting import until

pytestmark = pytest.mark.asyncio


class Secure(Served):
    """`ostler up --tls-cert`, asked by somebody who trusts its authority alone."""

    def __init__(self, base: Path, authority: Authority, issued: Issued, *more: str) -> None:
        super().__init__(base, "--tls-cert", str(issued.certificate), "--tls-key", str(issued.key), *more)
        self.tls = ssl.create_default_context(cafile=str(authority.file))
        self.http = httpx.AsyncClient(base_url=self.url, headers=self.headers, trust_env=False, verify=self.tls)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def cli(self, *args: str) -> "subprocess.CompletedProcess[str]":
        return await asyncio.to_thread(run_ostler, args, cwd=self.folder, env=self.env)


@asynccontextmanager
async def secure(base: Path, authority: Authority, issued: Issued, *more: str) -> AsyncIterator[Secure]:
    served = Secure(base, authority, issued, *more)
    try:
        await served.start()
        yield served
        assert await served.stop() == 0
    finally:
        if served.process is not None:
            print(served.log.read_text())
            served.process.kill()
            served.process.wait()
        await served.http.aclose()


async def test_everything_that_a_server_gives_comes_by_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    async with secure(tmp_path / "hawk", authority, authority.issue("127.0.0.1")) as hawk:
        link = json.loads((await hawk.cli("link", "--json")).stdout)["link"]
        assert link.startswith(f"{hawk.url}/#t=") and f"ostler is up at {hawk.url}" in hawk.log.read_text()
        made = (await hawk.http.post("/api/links", json={"rights": "view"})).json()["url"]
        assert made.startswith(f"{hawk.url}/#t=")
        async with httpx.AsyncClient(base_url=hawk.url, trust_env=False, verify=hawk.tls) as browser:
            login = {"token": link.partition("#t=")[2]}
            welcome = await browser.post("/api/login", json=login, headers={"Origin": hawk.url})
            assert welcome.status_code == 200 and "; Secure" in welcome.headers["set-cookie"], welcome.text
            assert (await browser.get("/api/me")).status_code == 200  # by the cookie
            plain = {"Origin": hawk.url.replace("https", "http")}
            assert (await browser.post("/api/links", json={}, headers=plain)).status_code == 403
        session = await hawk.session()
        terminal = await hawk.open(session, ["cat"])
        url = f"{hawk.url.replace('http', 'ws')}/api/terminals/{terminal}/ws"
        async with watching(url, hawk.headers, ssl=hawk.tls) as viewer:
            await viewer.take()
            await viewer.type("hay")
            await viewer.until(lambda viewer: viewer.shows("hay"))
        async with httpx.AsyncClient(trust_env=False) as stranger:
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await stranger.get(f"{hawk.url}/healthz")
            with pytest.raises(httpx.TransportError):
                await stranger.get(f"http://127.0.0.1:{hawk.port}/healthz")


async def test_machines_with_tls_of_their_own_join_each_other(tmp_path: Path, database: str) -> None:  # noqa: F811
    """The door's certificate is for a name that nobody asks for here: its own command line knows it all the same."""
    authority = Authority(tmp_path / "ca")
    more = ("--join", database, "--ca", str(authority.file))
    async with secure(tmp_path / "owl", authority, authority.issue("127.0.0.1"), *more, "--as", "owl") as owl:
        door = Secure(tmp_path / "hawk", authority, authority.issue("stable.example"), *more, "--as", "hawk")
        door.tls.check_hostname = False
        await door.start()
        try:
            told = await until(lambda: _machines(door))
            assert {each["name"]: each["url"] for each in told} == {"hawk": door.url, "owl": owl.url}
            done = await door.cli("run", "--on", "owl", "-C", str(owl.folder), "--json", "script", "[[say:neigh]]")
            assert done.returncode == 0, done.stderr
            envelope = json.loads(done.stdout)
            assert (envelope["text"], envelope["folder"]) == ("neigh", str(owl.folder))
            assert f"{owl.url}" in (await door.cli("machines")).stdout
            session = envelope["session"]
            opened = await door.http.post("/api/terminals", json={"session": session, "argv": ["cat"]})
            url = f"{door.url.replace('http', 'ws')}/api/terminals/{opened.json()['id']}/ws"
            async with watching(url, door.headers, ssl=door.tls) as viewer:
                await viewer.take()
                await viewer.type("oats")
                await viewer.until(lambda viewer: viewer.shows("oats"))
        finally:
            await door.stop()
            await door.http.aclose()


async def _machines(served: Secure) -> list[dict[str, Any]] | None:
    told: list[dict[str, Any]] = (await served.http.get("/api/machines")).json()["items"]
    return told if len(told) == 2 and all(each["agents"] for each in told) else None


async def test_another_certificate_than_the_known_one_is_told_nothing(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    known, other = authority.issue("known.example"), authority.issue("other.example")
    heard = []

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):  # the first one has left
            heard.append(await reader.readline())
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            writer.close()

    server = await asyncio.start_server(met, "127.0.0.1", 0, ssl=server_tls(_files(other)))
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = MachineClient(url, fingerprint=fingerprint_of(_files(known)))
        with pytest.raises(ConnectionAbortedError, match="not the one of the server"):
            await client.request("GET", "/secret", [], no_body())
        client = MachineClient(url, fingerprint=fingerprint_of(_files(other)))
        async with await client.request("GET", "/", [], no_body()) as answer:
            assert answer.status == 204
    assert [line for line in heard if line] == [b"GET / HTTP/1.1\r\n"]


def _files(issued: Issued) -> TlsFiles:
    return TlsFiles(certificate=str(issued.certificate), key=str(issued.key))


async def test_files_that_cannot_be_used_are_refused_with_a_remedy(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    good, other = authority.issue("a.example"), authority.issue("b.example")
    (tmp_path / "hay.pem").write_text("hay")
    (tmp_path / "locked.key").write_bytes(private_bytes(ec.generate_private_key(ec.SECP256R1()), b"secret"))
    cases = [
        (tmp_path / "none.pem", good.key, "none.pem cannot be read: No such file or directory", "--tls-cert FILE"),
        (good.certificate, tmp_path, "cannot be read: Is a directory", "--tls-key FILE"),
        (good.certificate, other.key, "b.example.key does not belong to the certificate", "requested with"),
        (tmp_path / "hay.pem", good.key, "cannot be used for TLS", "PEM form"),
        (good.certificate, tmp_path / "hay.pem", "cannot be used for TLS", "PEM form"),
        (good.certificate, tmp_path / "locked.key", "the TLS key is encrypted", "openssl pkey"),
    ]
    for certificate, key, message, remedy in cases:
        with pytest.raises(OstlerError) as raised:
            server_tls(TlsFiles(certificate=str(certificate), key=str(key)))
        assert raised.value.kind == "bad_request"
        assert message in raised.value.message and remedy in raised.value.hint, str(raised.value)


async def test_the_command_says_so_and_takes_nothing(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    good, other = authority.issue("a.example"), authority.issue("b.example")
    served = Secure(tmp_path / "hawk", authority, good)
    half = await served.cli("up", "--tls-cert", str(good.certificate))
    assert half.returncode == 2 and "--tls-cert and --tls-key must be given together" in half.stderr
    for more in ((), ("--detach",)):
        wrong = await served.cli("up", "--tls-cert", str(good.certificate), "--tls-key", str(other.key), *more)
        assert wrong.returncode == 2 and "does not belong to the certificate" in wrong.stderr
    await served.http.aclose()
