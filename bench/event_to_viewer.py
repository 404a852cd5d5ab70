"""From an event's write to a viewer of its journal, over the page's WebSocket; and what watching costs when idle.

100 journals grow by 10 events a second each, written by the server's own process or by another one; 20 viewers follow
10 journals each. Every event carries the time at which it was handed to the store.
BESIDE may name the interpreter of another ostler: then the events of scripted turns are followed by server-sent events,
which every version has, at both in turns.
Run: python bench/event_to_viewer.py [seconds]
"""

import asyncio
import concurrent.futures
import contextlib
import os
import sys
import tempfile
import time
import urllib.request
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
from servers import TICKS, free_port, listens, percentile, post, running
from websockets.asyncio.client import ClientConnection, connect

from ostler.model import Session, Text
from ostler.server.app import build
from ostler.server.auth import Authenticator
from ostler.server.gateway import addresses_of
from ostler.server.running import listen, serving
from ostler.settings import load_settings
from ostler.store import Store
from ostler.work import Ostler

JOURNALS, RATE = 100, 10
VIEWERS, FOLLOWED = 20, 10
TURNS, PAUSE, STREAMS = 4, 0.05, 5  # beside another ostler


def main(seconds: float) -> None:
    print(f"{JOURNALS} journals, {RATE} events a second each; {VIEWERS} viewers of {FOLLOWED} journals")
    for where in ("the server", "another process"):
        with server(own=where == "the server") as (state, port, pid):
            late = asyncio.run(watch(state, port, pid, seconds, write=where != "the server"))
        p50, p95, p99 = (1000 * percentile(late.seconds, part) for part in (0.5, 0.95, 0.99))
        print(f"written by {where:16} p50 {p50:5.1f} ms  p95 {p95:5.1f}  p99 {p99:6.1f}  CPU {late.cpu:4.0%}", end="  ")
        print(f"({len(late.seconds)} events seen; {late.idle:.1%} CPU when nothing is written)")
    if other := os.environ.get("BESIDE"):
        compare({"this one": sys.executable, "the other one": other}, seconds)


class Late:
    """What the viewers saw, and the share of a core that the server used: idle, and while events came."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.idle = self.cpu = 0.0


async def watch(state: Path, port: int, pid: int, seconds: float, *, write: bool) -> Late:
    late = Late()
    async with asyncio.TaskGroup() as group, contextlib.AsyncExitStack() as stack:
        for n in range(VIEWERS):
            socket = await stack.enter_async_context(viewer(state, port, n))
            group.create_task(see(socket, late))
        await asyncio.sleep(2)
        late.idle = await share(pid, seconds)
        Path(state, "go").touch()
        writer = await asyncio.create_subprocess_exec(sys.executable, __file__, "write", str(state)) if write else None
        await asyncio.sleep(2)
        late.seconds.clear()
        late.cpu = await share(pid, seconds)
        if writer is not None:
            writer.terminate()
            await writer.wait()
    return late


async def share(pid: int, seconds: float) -> float:
    def used() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return int(fields[11]) + int(fields[12])

    before = used()
    await asyncio.sleep(seconds)
    return (used() - before) / TICKS / seconds


@contextlib.asynccontextmanager
async def viewer(state: Path, port: int, n: int) -> AsyncIterator[ClientConnection]:
    token = Authenticator(state).sign("bearer", "view", "bench", 3600)
    url, headers = f"ws://127.0.0.1:{port}/api/live/ws", {"Authorization": f"Bearer {token}"}
    async with connect(url, additional_headers=headers, compression=None, max_size=None) as socket:
        for i in range(FOLLOWED):
            wish = {"kind": "follow", "n": i + 1, "session": f"s{(n * FOLLOWED + i) % JOURNALS}", "after": 0}
            await socket.send(msgspec.json.encode(wish).decode())
        yield socket


async def see(socket: ClientConnection, late: Late) -> None:
    async for message in socket:
        now = time.monotonic_ns()
        text = zlib.decompress(message).decode() if isinstance(message, bytes) else message
        late.seconds += [(now - int(part.partition("!")[0])) / 1e9 for part in text.split("@at@")[1:]]


# -- beside another ostler: what a scripted agent says, until it is read from a stream ----------------


def compare(pythons: dict[str, str], seconds: float) -> None:
    """From the time that stands in an event (its record was read) until a viewer has the event."""
    print(f"{TURNS} scripted turns, {1 / PAUSE:.0f} events a second each, {STREAMS} streams of each journal, in turns:")
    late: dict[str, list[float]] = {which: [] for which in pythons}
    for _ in range(3):
        for which, python in pythons.items():
            late[which] += followed(python, int(seconds / PAUSE))
    for which, taken in late.items():
        p50, p95 = (1000 * percentile(taken, part) for part in (0.5, 0.95))
        print(f"{which:14} p50 {p50:5.1f} ms  p95 {p95:5.1f}  ({len(taken)} events seen)")


def followed(python: str, events: int) -> list[float]:
    with tempfile.TemporaryDirectory() as base:
        port, state = free_port(), Path(base, "state")
        env = {"HOME": base, "OSTLER_HOME": str(state), "OSTLER_ONLY": "script", "PATH": os.environ["PATH"]}
        state.mkdir(mode=0o700)
        headers = {"Authorization": f"Bearer {Authenticator(state).sign('bearer', 'admin', 'bench', 3600)}"}
        with running([python, "-m", "ostler", "up", "--port", str(port)], env, base) as process:
            listens(port, process)
            prompt = f"[[wait:1]] {f'[[say:x]] [[wait:{PAUSE}]] ' * events}"
            late: list[float] = []
            with concurrent.futures.ThreadPoolExecutor(TURNS * STREAMS) as pool:
                for _ in range(TURNS):
                    session = post(port, headers, "/api/sessions", agent="script", folder=base)["id"]
                    post(port, headers, f"/api/sessions/{session}/turns", prompt=prompt)
                    for _ in range(STREAMS):
                        pool.submit(read_stream, port, headers, session, late)
            return late


def read_stream(port: int, headers: dict[str, str], session: str, late: list[float]) -> None:
    url = f"http://127.0.0.1:{port}/api/sessions/{session}/events"
    wanted = urllib.request.Request(url, headers={**headers, "Accept": "text/event-stream"})
    with urllib.request.urlopen(wanted) as stream:
        for line in stream:
            if line.startswith(b"data:"):
                event = msgspec.json.decode(line[5:])
                if event["kind"] == "ended":
                    return
                if event["kind"] == "text":
                    late.append(time.time() - event["at"])


# -- the server, and the one who writes ---------------------------------------------------------------


@contextlib.contextmanager
def server(own: bool) -> Iterator[tuple[Path, int, int]]:
    with tempfile.TemporaryDirectory() as base:
        state, port = Path(base, "state"), free_port()
        argv = [sys.executable, __file__, "serve", str(state), str(port), "own" if own else ""]
        with running(argv, dict(os.environ), base) as process:
            listens(port, process)
            yield state, port, process.pid


async def serve(state: str, port: int, own: bool) -> None:
    environ = {"HOME": state, "OSTLER_HOME": state, "OSTLER_ONLY": "script", "PATH": os.environ["PATH"]}
    settings = load_settings(folder="/", environ=environ).settings
    async with Ostler(settings, environ, "up") as ostler:
        for n in range(JOURNALS):
            await ostler.store.add_session(Session(id=f"s{n}", agent="script", folder="/", created_at=1, used_at=1))
        listening = listen("127.0.0.1", port)
        async with serving(build(ostler, addresses_of(listening.addresses, port)), listening):
            while own and not Path(state, "go").exists():
                await asyncio.sleep(0.2)
            await (write(ostler.store) if own else asyncio.Event().wait())


async def write(store: Store) -> None:
    async with asyncio.TaskGroup() as group:
        for n in range(JOURNALS):
            group.create_task(grow(store, f"s{n}", n / JOURNALS / RATE))


async def grow(store: Store, session: str, first: float) -> None:
    """Each journal in its own rhythm: events do not come in one batch."""
    begun, seq = time.monotonic() + first, 0
    while True:
        await asyncio.sleep(max(0.0, begun + seq / RATE - time.monotonic()))
        seq += 1
        text = f"@at@{time.monotonic_ns()}! and some words beside it"
        await store.append(session, [Text(seq=seq, at=time.time(), turn="t", text=text)])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", state, port, own]:
            asyncio.run(serve(state, int(port), bool(own)))
        case ["write", state]:
            with Store.open(state) as store:
                asyncio.run(write(store))
        case given:
            main(float(given[0]) if given else 5.0)
