"""Agents in their own screens: until one can be typed into, until a prompt is taken up, until its end is known.

ready      from the start of the program until the prompt may be typed
taken      from the call with a prompt until the model has it; the program runs already
receipt    from the paste of the prompt until ostler knows that it was taken up
verdict    from the model's last byte until the driver says that the turn is over

Each of AGENTS is started ROUNDS times and given TURNS prompts each time, against a scripted model on loopback; ostler
does it in a PTY and in a pane of tmux, which tells no state: there 3 s of silence come before the first prompt.
`script` is its own model: its `verdict` counts from the file that lets it go on. The real CLIs are those of
OSTLER_TEST_CLIS.

Beside ostler runs cli-agent-orchestrator, from a virtual environment in PEER_FOLDER, where pip puts it if it is not
there; its server is asked for the status every 20 ms. agentapi is a Go program that no registry of packages has: it is
left out. WORK_FOLDER is where all of them work.
"""

import asyncio
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from ostler.model import Notice, TerminalOpened, TransportName
from ostler.settings import load_settings
from ostler.testing.model import Exchange, ScriptedModel
from ostler.work import LiveSession, Ostler
from real.conftest import alone_with_loopback
from real.test_tui import SETTLED
from real.yard import Yard

ROUNDS, TURNS = int(os.environ.get("ROUNDS", "3")), int(os.environ.get("TURNS", "3"))
OURS: dict[str, TransportName] = {"ostler, pty": "pty"}
if shutil.which("tmux"):
    OURS["ostler, tmux"] = "tmux"
PEER = "cli-agent-orchestrator"
PEER_FOLDER = Path(os.environ.get("PEER_FOLDER") or os.path.expanduser(f"~/.cache/ostler/{PEER}"))
PEER_PROVIDERS = {"claude": "claude_code", "codex": "codex"}
# codex refuses to work under /tmp, cli-agent-orchestrator there, under /var and under root's home.
USUAL = os.path.expanduser("~/.cache/ostler/bench-visible") if os.geteuid() else "/srv/ostler-bench"
WORK_FOLDER = Path(os.environ.get("WORK_FOLDER") or USUAL)
POLL = 0.02
PATIENCE = 90.0


class ClockedModel(ScriptedModel):
    """Knows when it got each prompt, and when the last byte of its answer went off."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.got: dict[str, float] = {}
        self.gave: dict[str, float] = {}
        self._clock = threading.Lock()

    def note(self, exchange: Exchange, **changes: Any) -> None:
        now = time.monotonic()
        with self._clock:
            if "api" in changes or exchange.user:
                self.got.setdefault(exchange.user, now)
            if changes.get("ended"):
                self.gave[exchange.user] = now
        super().note(exchange, **changes)

    def time_of(self, times: dict[str, float], mark: str) -> float | None:
        """The last one: some agents ask for a title with the same text."""
        with self._clock:
            return max((at for text, at in times.items() if mark in text), default=None)


class Figures:
    """What one driver took with one agent, in seconds."""

    def __init__(self, driver: str, agent: str) -> None:
        self.driver, self.agent, self.problem = driver, agent, ""
        self.taken: dict[str, list[float]] = {name: [] for name in ("ready", "taken", "receipt", "verdict")}

    def add(self, name: str, since: float | None, until: float | None) -> None:
        if since is not None and until is not None:
            self.taken[name].append(until - since)

    def __str__(self) -> str:
        if self.problem:
            return f"{self.agent:8} {self.driver:24} {self.problem}"
        cells = [
            f"{name} {statistics.median(all) * 1000:.0f} ({min(all) * 1000:.0f})"
            for name, all in self.taken.items()
            if all
        ]
        return f"{self.agent:8} {self.driver:24} {', '.join(cells)}  ({len(self.taken['verdict'])} turns)"


# -- ostler -----------------------------------------------------------------------------------------------------


async def by_ostler(
    o: Ostler, live: LiveSession, model: ClockedModel, figures: Figures, transport: TransportName
) -> None:
    for n in range(TURNS):
        mark, times = f"prompt {time.monotonic_ns()}", dict[str, float]()
        called = time.monotonic()
        async for event in live.run(f"{mark} [[say:Read.]]", transport=transport):
            if isinstance(event, TerminalOpened):
                times["opened"] = time.monotonic()
            elif isinstance(event, Notice) and event.code == "receipt":
                times[event.text.partition(" by ")[0]] = time.monotonic()
        ended = time.monotonic()
        assert live.last is not None and live.last.ok, live.last
        if n == 0:
            figures.add("ready", times.get("opened"), times.get("accepted"))
        else:
            figures.add("taken", called, model.time_of(model.got, mark))
        figures.add("receipt", times.get("accepted"), times.get("acknowledged"))
        figures.add("verdict", model.time_of(model.gave, mark), ended)
    await o.close_session(live.id)


async def script_by_ostler(figures: Figures, transport: TransportName) -> None:
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as base:
        for name in ("home", "project", "state"):
            Path(base, name).mkdir(mode=0o700)
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        env = {"HOME": f"{base}/home", "PATH": path, "LANG": "C.UTF-8", "OSTLER_HOME": f"{base}/state"}
        async with Ostler(load_settings(folder=f"{base}/project", environ=env).settings, env) as o:
            live = await o.session("script", folder=f"{base}/project", access="full")
            for n in range(TURNS):
                await _script_turn(live, Path(base, "project", f"go{n}"), figures, transport, first=n == 0)
            await o.close_session(live.id)


async def _script_turn(live: LiveSession, gate: Path, figures: Figures, transport: TransportName, first: bool) -> None:
    times = dict[str, float]()
    async for event in live.run(f"[[wait_for:{gate}]][[say:Read.]]", transport=transport):
        if isinstance(event, TerminalOpened):
            times["opened"] = time.monotonic()
        elif isinstance(event, Notice) and event.code == "receipt":
            times[event.text.partition(" by ")[0]] = time.monotonic()
            if event.text.startswith("acknowledged"):
                gate.touch()
    ended = time.monotonic()
    assert live.last is not None and live.last.ok, live.last
    if first:
        figures.add("ready", times["opened"], times["accepted"])
    figures.add("receipt", times["accepted"], times["acknowledged"])
    figures.add("verdict", times["acknowledged"], ended)


# -- cli-agent-orchestrator -------------------------------------------------------------------------------------


def peer() -> Path | None:
    """Its server, installed if it is not there; None, with the reason printed, where it cannot be had."""
    server = PEER_FOLDER / "bin" / "cao-server"
    if not server.exists():
        commands = [
            [sys.executable, "-m", "venv", str(PEER_FOLDER)],
            [str(PEER_FOLDER / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", PEER],
        ]
        for command in commands:
            got = subprocess.run(command, capture_output=True, text=True, check=False)
            if got.returncode:
                print(f"{PEER}: cannot be installed: {(got.stderr.strip() or 'pip failed').splitlines()[-1]}")
                return None
    if shutil.which("tmux") is None:
        print(f"{PEER}: needs tmux, which is not there")
        return None
    return server


@contextmanager
def running(server: Path, yard: Yard, port: int) -> Iterator[str]:
    """Its server in the agent's own environment, with a tmux server of its own; both are ended."""
    sockets = yard.home / "tmux"
    sockets.mkdir(mode=0o700, exist_ok=True)
    env = {**yard.env, "TMUX_TMPDIR": str(sockets), "CAO_HOME_DIR": str(yard.home / "cao"), "CAO_API_PORT": str(port)}
    # It starts a login shell, which forgets PATH; and claude with a flag that it refuses to root, unless in a sandbox.
    env |= {"PATH": f"{server.parent}:{env['PATH']}", "IS_SANDBOX": "1", "SHELL": "/bin/bash"}
    exports = [f"export {name}={shlex.quote(value)}\n" for name, value in env.items()]
    (yard.home / ".bash_profile").write_text("".join(exports))
    log = open(yard.home / "cao.log", "wb")  # noqa: SIM115 - closed below
    process = subprocess.Popen([str(server)], env=env, cwd=yard.folder, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: call("GET", f"{url}/health"), "its server", process)
        yield url
    finally:
        subprocess.run(["tmux", "kill-server"], env=env, capture_output=True, check=False)
        process.kill()  # it may wait for a start that never comes
        process.wait()
        log.close()


def settle(yard: Yard) -> None:
    """codex without its two first-run screens: ostler answers them, cli-agent-orchestrator does not know them."""
    if yard.agent == "codex":
        config = yard.home / ".codex" / "config.toml"
        known = config.read_text().replace('"gpt-5.5"', '"gpt-6-sol"')
        config.write_text(f'{known}\n[projects."{yard.folder}"]\ntrust_level = "trusted"\n')


def call(method: str, url: str, timeout: float = 5.0, **query: str) -> Any:
    full = f"{url}?{urllib.parse.urlencode(query)}" if query else url
    request = urllib.request.Request(full, method=method, data=b"" if method == "POST" else None)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.loads(answer.read() or b"null")
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        if method == "GET":
            return None  # not there yet: asked again
        said = error.read().decode()[:300] if isinstance(error, urllib.error.HTTPError) else ""
        raise RuntimeError(f"{url}: {error} {said}") from error


def until(condition: Any, what: str, process: "subprocess.Popen[bytes] | None" = None) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        if time.monotonic() > deadline or (process is not None and process.poll() is not None):
            raise RuntimeError(f"{what} never came")
        time.sleep(POLL)
    return value


def by_peer(url: str, yard: Yard, model: ClockedModel, figures: Figures) -> None:
    began = time.monotonic()
    provider, folder = PEER_PROVIDERS[yard.agent], str(yard.folder)
    made = call(
        "POST", f"{url}/sessions", PATIENCE, provider=provider, agent_profile="developer", working_directory=folder
    )
    terminal = f"{url}/terminals/{made['id']}"

    def says(*wanted: str) -> bool:
        return ((call("GET", terminal) or {}).get("status")) in wanted

    until(lambda: says("idle", "completed"), "idle")
    figures.add("ready", began, time.monotonic())
    for _ in range(TURNS):
        mark = f"prompt {time.monotonic_ns()}"
        sent = time.monotonic()
        call("POST", f"{terminal}/input", 30.0, message=f"{mark} [[say:Read.]]")
        until(lambda mark=mark: model.time_of(model.gave, mark), "the model's answer")
        until(lambda: says("completed", "idle"), "completed")
        figures.add("verdict", model.time_of(model.gave, mark), time.monotonic())
        figures.add("taken", sent, model.time_of(model.got, mark))
        time.sleep(1)  # a status that is about to change again
    call("DELETE", f"{url}/sessions/{made['session_name']}", 30.0)


# -- runs -------------------------------------------------------------------------------------------------------


async def round_of(agent: str, server: Path | None, port: int, figures: dict[tuple[str, str], Figures]) -> None:
    """One start by each driver, in a fresh HOME each."""
    drivers = [*OURS, *([PEER] if server and agent in PEER_PROVIDERS else [])]
    for driver in drivers:
        base = WORK_FOLDER / driver
        shutil.rmtree(base, ignore_errors=True)
        base.mkdir(parents=True)
        found = figures.setdefault((agent, driver), Figures(driver, agent))
        try:
            with ClockedModel(scenario="text") as model:
                yard = Yard(agent, base, model, False)
                SETTLED[agent](yard)
                settle(yard)
                if driver in OURS:
                    async with yard.ostler() as o:
                        await by_ostler(o, await yard.session(o, access="full"), model, found, OURS[driver])
                elif server is not None:
                    with running(server, yard, port) as url:
                        await asyncio.to_thread(by_peer, url, yard, model, found)
        except RuntimeError as error:
            found.problem = f"did not run: {error}"
        finally:
            shutil.rmtree(base, ignore_errors=True)


async def main() -> None:
    agents = os.environ.get("AGENTS", "claude codex gemini").split() if os.environ.get("OSTLER_TEST_CLIS") else []
    server = peer() if agents else None
    alone_with_loopback()
    figures: dict[tuple[str, str], Figures] = {}
    for n in range(ROUNDS):
        for driver, transport in OURS.items():
            script = figures.setdefault(("script", driver), Figures(driver, "script"))
            await script_by_ostler(script, transport)
        for k, agent in enumerate(agents):
            await round_of(agent, server, 19800 + n * 10 + k, figures)
    print(f"ms, median (best); load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
    for each in figures.values():
        print(each)
    print("agentapi is in no registry of packages: not measured")
    if not agents:
        print("the real CLIs are not installed: see `make test-real`")


if __name__ == "__main__":
    asyncio.run(main())
