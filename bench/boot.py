"""How long `ostler up` takes until it answers, with an empty store and with a thousand sessions, and after kill -9.

CPU is that of the server until then. BESIDE may name the interpreter of another ostler, measured in the same rounds.
"""

import asyncio
import http.client
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ostler.model import Session
from ostler.server.auth import Authenticator
from ostler.store import Store

ROUNDS = int(os.environ.get("ROUNDS", "7"))
PYTHONS = {"": sys.executable, **({", the other one": os.environ["BESIDE"]} if os.environ.get("BESIDE") else {})}
TICK = 1000 / os.sysconf("SC_CLK_TCK")  # ms


def main() -> None:
    with tempfile.TemporaryDirectory() as base:
        few, many = Path(base, "few"), Path(base, "many")
        asyncio.run(filled(few, 0))
        asyncio.run(filled(many, 1_000))
        cases = {"empty store": (few, False), "1,000 sessions": (many, False), "… after kill -9": (many, True)}
        for name, (state, kill) in cases.items():
            boots: dict[str, list[tuple[float, float]]] = {which: [] for which in PYTHONS}
            for _ in range(ROUNDS):
                for which, python in PYTHONS.items():
                    boots[which].append(boot(state, kill, python))
            for which, taken in boots.items():
                ms, cpu = [each for each, _ in taken], [each for _, each in taken]
                median, spent = statistics.median(ms), statistics.median(cpu)
                shown = f"{median:5.0f} ms (best {min(ms):.0f}), CPU {spent:.0f} (best {min(cpu):.0f})"
                print(f"up, {name + which:32} first answer after {shown}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    parts = {"python -c pass": "pass", "import uvicorn": "import uvicorn"}
    parts["import the server"] = "import ostler.server.app"
    for name, code in parts.items():
        took = [run(code) for _ in range(ROUNDS)]
        print(f"{name:20} {statistics.median(took):5.0f} ms")


async def filled(state: Path, count: int) -> None:
    with Store.open(state) as store:
        now = time.time()
        rows = (
            Session(id=f"s{n}", agent="claude", folder="/w", created_at=now, used_at=now - n, title="x" * 60)
            for n in range(count)
        )
        await asyncio.gather(*map(store.add_session, rows))


def boot(state: Path, kill: bool, python: str) -> tuple[float, float]:
    """Milliseconds from the start of the process to the answer of a first request that needs the store, and of CPU."""
    token = Authenticator(state).sign("bearer", "view", "bench", 600)
    port = free_port()
    env = {**os.environ, "OSTLER_HOME": str(state), "OSTLER_ONLY": "script"}
    began = time.perf_counter()
    server = subprocess.Popen([python, "-m", "ostler", "up", "--port", str(port)], env=env, stdout=subprocess.DEVNULL)
    try:
        while not answers(port, token):
            assert server.poll() is None and time.perf_counter() - began < 60
            time.sleep(0.002)
        return (time.perf_counter() - began) * 1000, cpu_of(server.pid)
    finally:
        server.kill() if kill else server.terminate()
        server.wait()


def cpu_of(pid: int) -> float:
    """Milliseconds of CPU that a process has used, in steps of ten."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def answers(port: int, token: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/api/sessions?limit=100", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def run(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
