"""A server of our own: `ostler up` as a process, its door opened with a token, and who it leaves behind."""

import base64
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from ostler.process import tree
from ostler.server.auth import Authenticator
from ostler.terminal.viewer_protocol import Rights
from prefork import start_ostler
from server.watching import Watcher, watching
from waiting import until

SOON = 60.0  # seconds for what takes a moment, on a machine that is busy


class Served:
    """One state folder, and a server on it that can be killed and started again on the same port."""

    def __init__(self, base: Path, *more: str) -> None:
        """`more` arguments of `ostler up`."""
        base.mkdir(exist_ok=True)
        self.more = more
        self.home, self.state, self.folder = base / "home", base / "state", base / "project"
        for folder in (self.home, self.state, self.folder):
            folder.mkdir(exist_ok=True)
        self.state.chmod(0o700)
        self.log = base / "server.log"
        self.port = free_port()
        self.mark = f"{os.getpid()}-{base.name}"
        self.process: subprocess.Popen[bytes] | None = None
        self.token = self.token_for("admin")
        self.http = httpx.AsyncClient(
            base_url=self.url, headers=self.headers, timeout=SOON, trust_env=False, verify=False
        )
        self.born: set[tree.Member] = set()  # all processes that were seen below the server

    # -- its life

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = start_ostler(
                ["up", "--port", str(self.port), *self.more],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        await until(self._answers)

    async def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return (await self.http.get("/healthz")).status_code == 200
        except httpx.TransportError:
            return False

    async def stop(self) -> int:
        """As `systemctl stop` would; the exit code. Nobody is left of those who lived below it."""
        assert self.process is not None
        self.look()
        self.process.send_signal(signal.SIGTERM)
        code = await self._ended()
        await self.nobody_left()
        return code

    async def kill(self) -> None:
        """kill -9, nothing else."""
        assert self.process is not None
        self.look()
        self.process.kill()
        await self._ended()

    async def _ended(self) -> int:
        assert self.process is not None
        process = self.process
        code: int = await until(lambda: process.poll() is not None and (process.returncode,))
        self.process = None
        return code[0]  # type: ignore[index]

    async def nobody_left(self) -> None:
        await until(lambda: not self.left())

    def left(self) -> list[str]:
        """Whoever of our processes still lives: seen below the server, or with its mark in the environment."""
        marked = {member for member in tree.as_members(tree.processes()) if self._is_marked(member.pid)}
        return [tree.name(member) for member in tree.living(self.born | marked)]

    def _is_marked(self, pid: int) -> bool:
        return f"\0SERVED_BY={self.mark}\0".encode() in b"\0" + tree.read(f"/proc/{pid}/environ", 1 << 17)

    def look(self) -> set[tree.Member]:
        """All that live below the server now."""
        assert self.process is not None
        now = tree.as_members(tree.below([self.process.pid]))
        self.born |= now
        return now

    # -- its insides, as the kernel sees them

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory(self) -> int:
        """Resident, in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def screen_processes(self) -> list[int]:
        return [pid for pid in tree.below([self.pid]) if "ostler.terminal.screen.process" in tree.command(pid)]

    # -- how it is reached

    @property
    def env(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"HOME": str(self.home), "OSTLER_HOME": str(self.state), "SERVED_BY": self.mark}
        return {"PATH": path, "LANG": "C.UTF-8", "OSTLER_ONLY": "script", **own}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def token_for(self, rights: Rights, name: str = "ann") -> str:
        return Authenticator(self.state).sign("bearer", rights, name, 3600)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def watch(self, terminal: str, token: str | None = None, **options: Any) -> Any:
        """A viewer of this terminal: `async with served.watch(id) as viewer`."""
        return self.view(f"/api/terminals/{terminal}/ws", token, **options)

    def follow(self, session: str, **options: Any) -> Any:
        return self.view(f"/api/sessions/{session}/terminal/ws", **options)

    def view(self, path: str, token: str | None = None, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        return watching(f"ws://127.0.0.1:{self.port}{path}", headers, **options)

    def stall(self, terminal: str) -> socket.socket:
        """A viewer by hand, that is let in and then takes nothing."""
        end = socket.socket()
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        end.connect(("127.0.0.1", self.port))
        lines = (
            f"GET /api/terminals/{terminal}/ws HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            f"Authorization: Bearer {self.token}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        )
        end.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        return end

    # -- what is asked of it

    async def session(self) -> str:
        made = await self.http.post("/api/sessions", json={"agent": "script", "folder": str(self.folder)})
        assert made.status_code == 201, made.text
        return str(made.json()["id"])

    async def open(self, session: str, argv: Sequence[str], **fields: Any) -> str:
        made = await self.http.post("/api/terminals", json={"session": session, "argv": list(argv), **fields})
        assert made.status_code == 201, made.text
        return str(made.json()["id"])

    async def python(self, session: str, code: str, **fields: Any) -> str:
        """A terminal in which this program runs; what it prints goes out at once."""
        return await self.open(session, [sys.executable, "-u", "-c", code], **fields)

    async def row(self, terminal: str) -> dict[str, Any]:
        found = await self.http.get(f"/api/terminals/{terminal}")
        assert found.status_code == 200, found.text
        return dict(found.json())

    async def screen(self, terminal: str) -> dict[str, Any]:
        seen = await self.http.get(f"/api/terminals/{terminal}/snapshot")
        assert seen.status_code == 200, seen.text
        return dict(seen.json())

    async def release_all(self) -> None:
        for row in (await self.http.get("/api/terminals")).json()["items"]:
            gone = await self.http.delete(f"/api/terminals/{row['id']}")
            assert gone.status_code == 204, gone.text


@contextlib.asynccontextmanager
async def serving(base: Path, *more: str) -> AsyncIterator[Served]:
    """A started server. Whatever happened, it is stopped and has left nobody behind."""
    served = Served(base, *more)
    try:
        await served.start()
        yield served
        await served.stop()
    except BaseException:
        print(served.log.read_text())
        raise
    finally:
        if served.process is not None:
            served.look()
            served.process.kill()
            served.process.wait()
        tree.send(served.born, signal.SIGKILL)
        await served.http.aclose()


@contextlib.asynccontextmanager
async def nothing_leaks(served: Served, session: str) -> AsyncIterator[None]:
    """What the block opens is closed again: descriptors and processes are as many as before, once all is released."""
    await one_round(served, session)  # what the first terminal starts stays
    descriptors, processes = served.descriptors(), len(served.look())
    yield
    await served.release_all()
    await until(lambda: served.descriptors() <= descriptors and len(served.look()) <= processes)


async def one_round(served: Served, session: str) -> None:
    terminal = await served.open(session, ["echo", "ready"])
    async with served.watch(terminal) as viewer:
        await viewer.until(lambda viewer: viewer.gone)
    await served.release_all()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


__all__ = ["Served", "Watcher", "nothing_leaks", "serving"]
