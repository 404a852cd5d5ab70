"""How long `ostler up` takes until it answers, with an empty store and with a thousand sessions, and after kill -9.

CPU is that of the server until then. BESIDE may name the interpreter of another ostler, which is measured in the same
rounds, with stores of its own.
"""

import contextlib
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from servers import free_port, post

from ostler.server.auth import Authenticator

ROUNDS = int(os.environ.get("ROUNDS", "7"))
PYTHONS = {"": sys.executable, **({", the other one": os.environ["BESIDE"]} if os.environ.get("BESIDE") else {})}
TICK = 1000 / os.sysconf("SC_CLK_TCK")  # ms


def main() -> None:
    with tempfile.TemporaryDirectory() as base:
        cases = {"empty store": (0, False), "1,000 sessions": (1_000, False), "… after kill -9": (1_000, True)}
        states: dict[tuple[str, int], Path] = {}
        for which, python in PYTHONS.items():
            for count in (0, 1_000):
                states[which, count] = Path(base, f"{len(states)}")
                fill(states[which, count], count, python)
        for name, (count, kill) in cases.items():
            boots: dict[str, list[tuple[float, float]]] = {which: [] for which in PYTHONS}
            for _ in range(ROUNDS):
                for which, python in PYTHONS.items():
                    boots[which].append(boot(states[which, count], kill, python))
            for which, taken in boots.items():
                ms, cpu = [each for each, _ in taken], [each for _, each in taken]
                median, spent = statistics.median(ms), statistics.median(cpu)
                shown = f"{median:5.0f} ms (best {min(ms):.0f}), CPU {spent:.0f} (best {min(cpu):.0f})"
                print(f"up, {name + which:32} first answer after {shown}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    parts = {
        "python -c pass": "pass",
        "import uvicorn": "import uvicorn",
        "import the server": "import ostler.server.app",
    }
    for which, python in PYTHONS.items():
        for name, code in parts.items():
            took = [run(python, code) for _ in range(ROUNDS)]
            print(f"{name + which:34} {statistics.median(took):5.0f} ms")


def fill(state: Path, count: int, python: str) -> None:
    """Makes sessions as a client does: the stores of other versions have other tables."""
    state.mkdir(mode=0o700)
    with serving(state, python) as (server, port, token):
        for n in range(count):
            post(port, {"Authorization": f"Bearer {token}"}, "/api/sessions", agent="script", folder="/", name=f"s-{n}")
        server.terminate()


def boot(state: Path, kill: bool, python: str) -> tuple[float, float]:
    """Milliseconds from the start of the process to the answer of a first request that needs the store, and of CPU."""
    began = time.perf_counter()
    with serving(state, python) as (server, _, _):
        took = (time.perf_counter() - began) * 1000, cpu_of(server.pid)
        server.kill() if kill else server.terminate()
    return took


@contextlib.contextmanager
def serving(state: Path, python: str) -> Iterator[tuple["subprocess.Popen[bytes]", int, str]]:
    """`ostler up` once it answers; whoever asked for it ends it."""
    token = Authenticator(state).sign("bearer", "type", "bench", 600)
    port = free_port()
    env = {**os.environ, "OSTLER_HOME": str(state), "OSTLER_ONLY": "script"}
    began = time.perf_counter()
    server = subprocess.Popen([python, "-m", "ostler", "up", "--port", str(port)], env=env, stdout=subprocess.DEVNULL)
    try:
        while not answers(port, token):
            assert server.poll() is None and time.perf_counter() - began < 60
            time.sleep(0.002)
        yield server, port, token
    except BaseException:
        server.kill()
        raise
    finally:
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


def run(python: str, code: str) -> float:
    began = time.perf_counter()
    subprocess.run([python, "-c", code], check=True)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
