"""What it costs to start each process of ostler, in CPU time: `ostler --help` beside a bare Python, and what it starts.

BESIDE may name the interpreter of another ostler, whose processes are started in the same rounds.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

from ostler.agents import AGENTS
from ostler.process.link import launch as launch_warden
from ostler.terminal.screen.link import launch as launch_screens
from ostler.terminal.screen.protocol import OpenScreen, ScreenLimits, frame
from ostler.work.probe import find

ROUNDS = int(os.environ.get("ROUNDS", "15"))
PYTHONS = {"": sys.executable, **({", the other one": os.environ["BESIDE"]} if os.environ.get("BESIDE") else {})}


def main() -> None:
    rows: dict[str, dict[str, list[float]]] = {}
    for number in range(ROUNDS + 1):
        for which, python in PYTHONS.items():
            said = subprocess.run([python, __file__, "round"], check=True, capture_output=True).stdout
            for name, ms in json.loads(said).items() if number else ():  # the first round fills caches
                rows.setdefault(name, {}).setdefault(which, []).append(ms)
    print(f"{f'CPU of a start, ms, {ROUNDS} each':44} {'median':>8} {'best':>8}")
    for name, by_python in rows.items():
        for which, taken in by_python.items():
            print(f"{name + which:44} {statistics.median(taken):8.1f} {min(taken):8.1f}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def one_round() -> dict[str, float]:
    """Milliseconds of CPU by what was started, with the ostler of this interpreter."""
    agent = find(AGENTS["script"], "")
    assert agent is not None
    starts: dict[str, Callable[[], object]] = {
        "python -c pass": lambda: run([sys.executable, "-c", "pass"]),
        "python -IS -c pass": lambda: run([sys.executable, "-IS", "-c", "pass"]),
        "ostler --help": lambda: run([sys.executable, "-m", "ostler", "--help"]),
        "import ostler.work": lambda: run([sys.executable, "-c", "import ostler.work"]),
        "the scripted agent, one turn": lambda: run([*agent, "--access=read"]),
        "the scripted agent, --version": lambda: run([*agent, "--version"]),
        "the warden": start_warden,
        "a screen process, with one screen": start_screen,
    }
    return {name: spent_by(start) for name, start in starts.items()}


def spent_by(start: Callable[[], object]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000


def run(argv: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as home:
        env = {"HOME": home, "PATH": os.environ["PATH"], "OSTLER_SCRIPT_SPEED": "0"}
        subprocess.run(argv, input=b"[[say:done]]", env=env, cwd=home, check=True, capture_output=True)


def start_warden() -> None:
    link, process = launch_warden("")
    link.close()
    process.wait()


def start_screen() -> None:
    link, note, process = launch_screens()
    link.setblocking(True)
    link.sendall(frame(OpenScreen(1, 80, 24, 0, ScreenLimits())))
    link.recv(1 << 18)
    link.close()
    process.wait()
    note.close()


if __name__ == "__main__":
    print(json.dumps(one_round())) if "round" in sys.argv else main()
