"""A server as a process: one to a folder, ended in order with everybody connected, and back after a kill -9."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from ostler.errors import OstlerError
from ostler.model import Session
from ostler.process import tree
from ostler.server.auth import Authenticator
from ostler.server.lock import ServerLock, Serves, who_serves
from ostler.server.ports import checked_host, listen, who_listens
from ostler.store import Store
from prefork import start_ostler
from waiting import until


class Process:
    """`ostler up` as a process of its own, on one state folder."""

    def __init__(self, base: Path) -> None:
        self.home, self.folder, self.state = base / "home", base / "project", base / "state"
        self.home.mkdir()
        self.folder.mkdir()
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "OSTLER_HOME": str(self.state),
            "OSTLER_ONLY": "script",
        }
        self.started: list[subprocess.Popen[bytes]] = []
        self.facts: dict[str, Any] = {}

    async def start(self, *args: str) -> "subprocess.Popen[bytes]":
        process = start_ostler(
            ["up", "--json", *args],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.started.append(process)
        assert process.stdout is not None
        read = asyncio.to_thread(self._facts, process)
        self.facts = await asyncio.wait_for(read, 60)
        return process

    def _facts(self, process: "subprocess.Popen[bytes]") -> dict[str, Any]:
        assert process.stdout is not None and process.stderr is not None
        text = b""
        while not text.rstrip().endswith(b"}"):
            line = process.stdout.readline()
            assert line, process.stderr.read().decode()
            text += line
        facts: dict[str, Any] = json.loads(text)
        return facts

    async def ended(self, process: "subprocess.Popen[bytes]") -> tuple[int, str]:
        """Exit code and what it said on stderr."""
        _, err = await asyncio.wait_for(asyncio.to_thread(process.communicate), 60)
        return process.returncode, err.decode()

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.facts["url"], headers=self.bearer, timeout=60, trust_env=False, verify=False
        )

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {Authenticator(self.state).sign('bearer', 'admin', 'tester', 3600)}"}

    async def session(self, client: httpx.AsyncClient) -> str:
        answer = await client.post("/api/sessions", json={"agent": "claude", "folder": str(self.folder)})
        assert answer.status_code == 201, answer.text
        id: str = answer.json()["id"]
        return id

    async def turn(self, client: httpx.AsyncClient, session: str, prompt: str) -> str:
        """Begins a turn; its agent runs when this returns."""
        answer = await client.post(f"/api/sessions/{session}/turns", json={"prompt": prompt})
        assert answer.status_code == 202, answer.text
        id: str = answer.json()["id"]
        await until(lambda: tree.marked(id))
        return id


@pytest.fixture
async def up(tmp_path: Path) -> AsyncIterator[Process]:
    up = Process(tmp_path)
    yield up
    for process in up.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def below(process: "subprocess.Popen[bytes]") -> set[tree.Member]:
    return tree.as_members(tree.below([process.pid]))


def command_line(pid: int) -> list[str]:
    return tree.read_all(f"/proc/{pid}/cmdline").decode().split("\0")


async def test_dialogs_that_are_to_be_kept_started_are_started_with_it(up: Process) -> None:
    settings = up.home / ".config" / "ostler" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[pool]\nwarm = { claude = 1 }\n")
    process = await up.start()
    (agent,) = await until(lambda: [each for each in below(process) if "--dialog" in command_line(each.pid)])
    process.terminate()
    assert (await up.ended(process))[0] == 0 and tree.identity(agent.pid) is None


# -- the end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_it_ends_in_order(up: Process, number: int) -> None:
    process = await up.start()
    async with up.client() as client:
        assert (await client.get("/healthz")).status_code == 200
        process.send_signal(number)
        assert await up.ended(process) == (0, "")
    assert who_serves(up.state) is None


async def test_it_ends_with_everybody_connected(up: Process) -> None:
    """Streams and sockets end with a word; a turn is cancelled; nothing is left. Nothing on stderr: in time."""
    process = await up.start()
    async with up.client() as client:
        id = await up.session(client)
        await up.turn(client, id, "[[never_end:true]]")
        url = up.facts["url"].replace("http", "ws")
        streams = [client.stream("GET", "/api/live", headers={"accept": "text/event-stream"})]
        streams.append(client.stream("GET", f"/api/sessions/{id}/events", headers={"accept": "text/event-stream"}))
        async with streams[0] as live, streams[1] as events:
            assert (live.status_code, events.status_code) == (200, 200)
            async with connect(f"{url}/api/sessions/{id}/terminal/ws", additional_headers=up.bearer) as viewer:
                await viewer.recv()
                born = below(process)
                process.terminate()
                with pytest.raises(ConnectionClosed) as closed:
                    while True:
                        await viewer.recv()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
            assert await events.aread() is not None  # a broken connection would raise
            assert await live.aread() is not None
        assert await up.ended(process) == (0, "")
    await until(lambda: not tree.living(born))
    with Store.open(up.state) as store:
        assert [row.envelope.outcome for row in store.turns(id) if row.envelope] == ["cancelled"]
        assert store.running_turns() == [] and [owner.role for owner in store.owners()] == []


async def test_it_ends_although_somebody_does_not_read(up: Process) -> None:
    """More is to be sent than all buffers hold."""
    with Store.open(up.state) as store:
        rows = [
            Session(id=f"s{n}", agent="claude", folder="/w", created_at=n, used_at=n, title="x" * 20_000)
            for n in range(400)
        ]
        await asyncio.gather(*map(store.add_session, rows))
    process = await up.start()
    head = f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{up.facts['port']}\r\n"
    deaf = []
    for _ in range(3):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        one.connect(("127.0.0.1", up.facts["port"]))
        one.sendall(f"{head}Authorization: {up.bearer['authorization']}\r\n\r\n".encode())
        assert await asyncio.to_thread(one.recv, 12) == b"HTTP/1.1 200"
        deaf.append(one)
    process.terminate()
    code, said = await up.ended(process)
    assert code == 0 and "did not end within" not in said
    for one in deaf:
        one.close()


async def test_a_second_signal_ends_it_at_once(up: Process) -> None:
    """A turn that takes its time to end does not hold up who is in a hurry; its processes are ended all the same."""
    process = await up.start()
    async with up.client() as client:
        id = await up.session(client)
        await up.turn(client, id, '[[ignore:["SIGINT", "SIGTERM"]]] [[never_end:true]]')
        born = below(process)
        process.terminate()
        await until(lambda: process.poll() is not None or not _connects(up.facts["port"]))
        process.terminate()
        code, _ = await up.ended(process)
        assert code == 130
    await until(lambda: not tree.living(born))


def _connects(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


# -- after a kill -9 ----------------------------------------------------------------------------------


async def test_after_a_kill_it_comes_back_with_everything(up: Process) -> None:
    process = await up.start()
    port = up.facts["port"]
    link = up.facts["link"].partition("#t=")[2]
    async with httpx.AsyncClient(base_url=up.facts["url"], timeout=60, trust_env=False, verify=False) as browser:
        assert (await browser.post("/api/login", json={"token": link})).status_code == 200
        id = await up.session(browser)
        turn = await up.turn(browser, id, "[[never_end:true]]")
        born = below(process)
        process.kill()
        await up.ended(process)
        await until(lambda: not tree.living(born))

        process = await up.start()
        assert up.facts["port"] == port
        assert (await browser.get("/api/me")).json()["pid"] == process.pid
        assert [each["id"] for each in (await browser.get("/api/sessions")).json()["items"]] == [id]
        assert (await browser.get(f"/api/turns/{turn}")).json()["outcome"] == "crashed"
        assert (await browser.post("/api/login", json={"token": link})).status_code == 401
    process.terminate()
    assert await up.ended(process) == (0, "")


# -- one server to a folder ---------------------------------------------------------------------------


def test_a_lock_is_for_one(tmp_path: Path) -> None:
    first = ServerLock(tmp_path / "state")
    assert first.last is None
    first.write(Serves(pid=os.getpid(), port=1234, url="http://127.0.0.1:1234", started_at=1.0))
    with pytest.raises(OstlerError) as caught:
        ServerLock(tmp_path / "state")
    assert caught.value.exit_code == 2
    assert f"process {os.getpid()} at http://127.0.0.1:1234" in caught.value.message
    assert "ostler link" in caught.value.hint
    serves = who_serves(tmp_path / "state")
    assert serves == Serves(pid=os.getpid(), port=1234, url="http://127.0.0.1:1234", started_at=1.0)
    first.release()
    assert who_serves(tmp_path / "state") is None
    second = ServerLock(tmp_path / "state")
    assert second.last == serves  # its port is remembered
    second.release()


def test_who_only_looks_does_not_hold_up_who_starts(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    looks = "import os\nfrom ostler.server.lock import who_serves\nwhile True: who_serves({!r}); os.write(1, b'.')"
    looking = subprocess.Popen([sys.executable, "-c", looks.format(str(tmp_path))], stdout=subprocess.PIPE)
    assert looking.stdout is not None
    try:
        for _ in range(50):
            assert looking.stdout.read(20)  # it has looked twenty times more, and looks on
            ServerLock(tmp_path).release()
    finally:
        looking.kill()
        looking.communicate()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', "\0" * 100])
def test_a_damaged_lock_file_is_only_a_lost_memory(tmp_path: Path, content: str) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "server.lock").write_text(content)
    assert who_serves(tmp_path) is None
    lock = ServerLock(tmp_path)
    assert lock.last is None
    lock.release()


def test_a_stale_lock_is_taken_over(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom ostler.server.lock import ServerLock, Serves\nimport os\n"
        f"lock = ServerLock({str(tmp_path / 'state')!r})\nlock.write(Serves(pid=os.getpid(), port=7))\n"
        "print('held', flush=True)\ntime.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    with pytest.raises(OstlerError, match=f"process {holder.pid}"):
        ServerLock(tmp_path / "state")
    holder.kill()
    holder.communicate()
    lock = ServerLock(tmp_path / "state")
    assert lock.last is not None and lock.last.port == 7
    lock.release()


async def test_of_many_that_start_at_once_one_serves(up: Process) -> None:
    processes = [
        start_ostler(
            ["up", "--json"],
            cwd=up.folder, env=up.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]  # fmt: skip
    up.started += processes
    await until(lambda: sum(process.poll() is None for process in processes) == 1, 60)
    serving = next(process for process in processes if process.poll() is None)
    for process in processes:
        if process is not serving:
            _, err = process.communicate()
            assert process.returncode == 2 and f"process {serving.pid}".encode() in err
    found = await until(lambda: (serves := who_serves(up.state)) and serves.url and serves)
    assert found.pid == serving.pid
    serving.terminate()
    assert await up.ended(serving) == (0, "")


# -- ports --------------------------------------------------------------------------------------------


def test_both_loopbacks_are_listened_on() -> None:
    listening = listen("127.0.0.1", 0)
    try:
        assert listening.addresses[0] == "127.0.0.1"
        if socket.has_ipv6 and len(listening.addresses) == 2:
            assert listening.addresses[1] == "::1"
            assert {each.getsockname()[1] for each in listening.sockets} == {listening.port}
        with pytest.raises(OSError):
            listen("127.0.0.1", listening.port)
        assert who_listens(listening.port).startswith(f"{os.getpid()} (")
    finally:
        listening.close()
    assert who_listens(listening.port) == ""
    listen("127.0.0.1", listening.port).close()  # free again at once


def _refused(host: str, expose: bool = False) -> str:
    with pytest.raises(OstlerError) as caught:
        checked_host(host, expose)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_beyond_the_loopback_only_for_those_who_mean_it() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "10.0.0.1", "fe80::1", "8.8.8.8"):
        assert "--expose" in _refused(host)
        assert checked_host(host, True) == host
    for host in ("127.0.0.1", "127.0.0.9", "::1"):
        assert checked_host(host, False) == host
    assert checked_host("localhost", False) == "127.0.0.1"
    for host in ("", "example.org", "127.0.0.1:80", "*", "127.1"):
        assert "is not an IP address" in _refused(host, expose=True)


async def test_small_answers_are_sent_at_once() -> None:
    """No piece of an answer waits until the one before is acknowledged."""
    made: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end = writer.get_extra_info("socket")
        made.set_result(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listening = listen("127.0.0.1", 0)
    server = await asyncio.start_server(connected, sock=listening.sockets[0])
    _, writer = await asyncio.open_connection("127.0.0.1", listening.port)
    assert await made == 1
    writer.close()
    server.close()
    listening.close()
