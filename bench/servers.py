"""For echo.py and fanout.py: an ostler server and a terminado server, each with one program in a terminal."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ostler.server.auth import Authenticator

TICKS = os.sysconf("SC_CLK_TCK")
TERMINADO = """
import asyncio, json, sys, terminado, tornado.web
async def main(port, argv):
    terminals = terminado.SingleTermManager(shell_command=json.loads(argv))
    app = tornado.web.Application([(r"/ws", terminado.TermSocket, {"term_manager": terminals})])
    app.listen(int(port), "127.0.0.1")
    await asyncio.Event().wait()
asyncio.run(main(*sys.argv[1:]))
"""


class Server(NamedTuple):
    name: str
    pid: int
    port: int
    path: str  # of the WebSocket that shows the terminal
    headers: dict[str, str]

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}{self.path}"

    def cpu(self) -> float:
        """Seconds that it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> int:
        """Resident, in KB."""
        return int(Path(f"/proc/{self.pid}/status").read_text().split("VmRSS:")[1].split()[0])


@contextlib.contextmanager
def ostler(argv: Sequence[str], **fields: Any) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as base:
        port = free_port()
        home, state = Path(base, "home"), Path(base, "state")
        home.mkdir(mode=0o700)
        state.mkdir(mode=0o700)
        env = {"HOME": str(home), "OSTLER_HOME": str(state), "OSTLER_ONLY": "script", "PATH": os.environ["PATH"]}
        command = [sys.executable, "-m", "ostler", "up", "--port", str(port)]
        with running(command, env, base) as process:
            listens(port, process)
            headers = {"Authorization": f"Bearer {Authenticator(state).sign('bearer', 'admin', 'bench', 3600)}"}
            session = post(port, headers, "/api/sessions", agent="script", folder=base)["id"]
            row = post(port, headers, "/api/terminals", session=session, argv=list(argv), **fields)
            yield Server("ostler", process.pid, port, f"/api/terminals/{row['id']}/ws", headers)


@contextlib.contextmanager
def terminado(argv: Sequence[str]) -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-c", TERMINADO, str(port), json.dumps(list(argv))]
    with running(command, dict(os.environ), "/") as process:
        listens(port, process)
        yield Server("terminado", process.pid, port, "/ws", {"Origin": f"http://127.0.0.1:{port}"})


@contextlib.contextmanager
def running(argv: list[str], env: dict[str, str], folder: str) -> Iterator["subprocess.Popen[bytes]"]:
    quiet = subprocess.DEVNULL
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(argv, env=env, cwd=folder, stdin=quiet, stdout=log, stderr=log) as process,
    ):
        try:
            yield process
        except BaseException:
            log.seek(0)
            print(log.read().decode(), file=sys.stderr)
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()


def listens(port: int, process: "subprocess.Popen[bytes]") -> None:
    while process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise SystemExit(f"{process.args} has ended")


def post(port: int, headers: dict[str, str], path: str, **body: Any) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        json.dumps(body).encode(),
        {**headers, "Content-Type": "application/json"},
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        return json.load(answer)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def percentile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else float("nan")
