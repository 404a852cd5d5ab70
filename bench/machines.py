"""Turns on other machines: on one that is asked directly, through a front door on one, and on three; in one run.

- asked → committed: a new session and its first turn, from the call until the machine that has it has committed both.
- turns a second, SIDE_BY_SIDE at once. All machines share the cores of this one: three are not to be faster than one
  here, and what is seen is what passing on and choosing a machine cost.

Needs Postgres, of which it starts one of its own.
Run: python bench/machines.py [turns]
"""

import contextlib
import json
import os
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from front_door import machine
from servers import Server, percentile, post

from needs import POSTGRES
from postgres import Postgres, running_postgres
from waiting import wait_until

SIDE_BY_SIDE = 4
ROUNDS = 3
LOOK = 0.02  # seconds between two looks at a turn


def main(turns: int) -> None:
    if not POSTGRES:
        print("Postgres is not installed: not measured")
        return
    with running_postgres() as postgres, tempfile.TemporaryDirectory() as base, farm(base, postgres) as (door, owl):
        ways: dict[str, tuple[Server, dict[str, Any]]] = {
            "one machine, directly": (owl, {}),
            "one machine, front door": (door, {"labels": ["one"]}),
            "three machines, front door": (door, {"labels": ["bench"]}),
        }
        measure(ways, base, turns)


@contextlib.contextmanager
def farm(base: str, postgres: Postgres) -> Iterator[tuple[Server, Server]]:
    """A front door, and one of the three machines behind it."""
    join = postgres.new_database()
    with contextlib.ExitStack() as up:
        owl = up.enter_context(machine(base, "owl", join, "bench,one"))
        for name in ("crow", "jay"):
            up.enter_context(machine(base, name, join, "bench"))
        door = up.enter_context(machine(base, "hawk", join))
        wait_until(lambda: len([each for each in known(door) if each["agents"]]) == 4)
        yield door, owl


def known(door: Server) -> list[dict[str, Any]]:
    return list(get(door, "/api/machines")["items"])


def measure(ways: dict[str, tuple[Server, dict[str, Any]]], folder: str, turns: int) -> None:
    committed: dict[str, list[float]] = {name: [] for name in ways}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    with ThreadPoolExecutor(SIDE_BY_SIDE) as workers:
        for number in range(ROUNDS + 1):
            for name, (server, where) in ways.items():
                begun = time.perf_counter()
                took = list(workers.map(lambda _, s=server, w=where: one_turn(s, folder, w), range(turns // ROUNDS)))
                if number:  # the first round looks up what is looked up once
                    rates[name].append(len(took) / (time.perf_counter() - begun))
                    committed[name] += took
    print(f"{'':28} {'asked → committed, p50 ms':>26} {'p95':>6} {'turns/s':>8}")
    for name, took in committed.items():
        rate = percentile(rates[name], 0.5)
        print(f"{name:28} {percentile(took, 0.5):26.1f} {percentile(took, 0.95):6.1f} {rate:8.1f}")
    print(f"{SIDE_BY_SIDE} at once, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def one_turn(server: Server, folder: str, where: dict[str, Any]) -> float:
    """Runs it to its end; how long it took until it was committed, in ms."""
    begun = time.perf_counter()
    session = post(server.port, server.headers, "/api/sessions", agent="script", folder=folder, **where)["id"]
    turn = post(server.port, server.headers, f"/api/sessions/{session}/turns", prompt="[[say:done]]")["id"]
    took = (time.perf_counter() - begun) * 1000
    while (envelope := ended(server, turn)) is None:
        time.sleep(LOOK)
    assert envelope["outcome"] == "done", envelope
    return took


def ended(server: Server, turn: str) -> Any:
    try:
        return get(server, f"/api/turns/{turn}/envelope")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return None


def get(server: Server, path: str) -> Any:
    plain = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    asked = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", headers=server.headers)
    with plain.open(asked) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
