"""Three machines in networks of their own: one is stopped, cut off, killed; the front door and Postgres start again.

Whatever happens, the limit over all machines holds for what is started, and each turn ends once or is told of as lost.
"""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psycopg
import pytest
from playwright.async_api import Page, async_playwright

from browser.conftest import FLAGS, WITHOUT_WEBGL
from browser.seat import FRONT, POLLING
from needs import CHROMIUM, needs
from networks import Networks, networks
from ostler.machines.directory import Directory
from ostler.server.auth import Authenticator
from postgres import Postgres
from waiting import PATIENCE, ends, until

pytestmark = [pytest.mark.asyncio, needs("networks"), needs("postgres")]

PORT = 7007
LIMIT = "[pool.shared]\nagents = { script = 2 }\n"


class NetMachine:
    """`ostler up --join` in a network of its own. Its own door is reached whatever happens to its cable."""

    def __init__(self, base: Path, net: Networks, name: str, join: str) -> None:
        self.base, self.name, self.net = base / name, name, net
        self.namespace, self.address = net.add()
        self.state, self.folder, home = self.base / "state", self.base / "project", self.base / "home"
        config = home / ".config" / "ostler" / "config.toml"
        for folder in (self.state, self.folder, config.parent):
            folder.mkdir(parents=True)
        self.state.chmod(0o700)
        config.write_text(LIMIT)
        self.env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
        self.env |= {"OSTLER_HOME": str(self.state), "OSTLER_ONLY": "script", "OSTLER_JOIN": join}
        net.relay(self.namespace, str(self.base / "door"), f"{self.address}:{PORT}")
        self.http: httpx.AsyncClient
        self.process: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        """For the event loop of one test."""
        self.http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(self.base / "door")),
            base_url=f"http://{self.address}:{PORT}",
            headers={"Authorization": f"Bearer {Authenticator(self.state).sign('bearer', 'admin', 'ann', 3600)}"},
            timeout=PATIENCE,
        )

    async def be_up(self) -> None:
        """Whatever a test that failed has done to it."""
        self.pull(back=True)
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGCONT)
        else:
            await self.start()

    async def start(self) -> None:
        argv = ["ip", "netns", "exec", self.namespace, sys.executable, "-m", "ostler", "up", "--host", self.address]
        argv += ["--expose", "--port", str(PORT), "--as", self.name]
        with open(self.base / "log", "ab") as log:
            self.process = subprocess.Popen(argv, cwd=self.folder, env=self.env, stdout=log, stderr=log)
        await until(self._answers)

    async def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, (self.base / "log").read_text()
        try:
            return (await self.http.get("/healthz")).status_code == 200
        except httpx.TransportError:
            return False

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self.process.wait()

    def end(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()

    def pull(self, *, back: bool = False) -> None:
        """Its cable, out of the hub or back into it."""
        self.net.pull(self.address, back=back)

    async def get(self, path: str) -> Any:
        return (await self.http.get(path)).json()


class Farm(NamedTuple):
    """`door` is asked. Each turn waits for a file `go`, and adds a line to a file of its own."""

    door: NetMachine
    owl: NetMachine
    wren: NetMachine
    marks: Path

    async def begin(self, machine: NetMachine, name: str, go: str = "go") -> str:
        """A turn on that machine, through the door; its id."""
        body = {"agent": "script", "folder": str(machine.folder), "machine": machine.name, "access": "full"}
        made = await self.door.http.post("/api/sessions", json=body)
        assert made.status_code == 201, made.text
        mark = f'[[run:["sh", "-c", "echo x >> {self.marks / name}"]]]'
        prompt = f"[[wait_for:{self.marks / go}]] {mark} [[say:{name}]]"
        path = f"/api/sessions/{made.json()['id']}/turns"
        started = await self.door.http.post(path, json={"prompt": prompt, "wait": True})
        assert started.status_code == 202, started.text
        return str(started.json()["id"])

    async def ended(self, machine: NetMachine, turn: str) -> Any:
        answer = await machine.http.get(f"/api/turns/{turn}/envelope")
        return answer.json() if answer.status_code == 200 else None

    async def running(self, *machines: NetMachine) -> int:
        return sum([len((await each.get("/api/queue"))["running"]) for each in machines])

    async def state(self, machine: NetMachine) -> str:
        items = (await self.door.get("/api/machines"))["items"]
        return next((str(each["state"]) for each in items if each["name"] == machine.name), "")

    async def is_ready(self) -> bool:
        """Each looks at its agents in its own time; others may still have what it told before it started again."""
        for asked in (self.owl, self.wren, self.door):
            items = (await asked.get("/api/machines"))["items"]
            if len(items) != 3 or not all(each["agents"] and each["state"] == "live" for each in items):
                return False
        return True

    def lines(self, name: str) -> int:
        mark = self.marks / name
        return len(mark.read_text().splitlines()) if mark.exists() else 0


@pytest.fixture(scope="module")
def database(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, database: str) -> Iterator[list[NetMachine]]:
    """Those of all tests of this file: each is started by the first, and stays up."""
    with networks() as net:
        net.relay(net.hub, "10.77.0.1:5432", str(postgres.folder / ".s.PGSQL.5432"))
        name = database.rpartition("?")[0].rpartition("/")[2]
        join = f"postgresql://postgres@10.77.0.1:5432/{name}"
        base = tmp_path_factory.mktemp("machines")
        machines = [NetMachine(base, net, name, join) for name in ("door", "owl", "wren")]
        try:
            yield machines
        finally:
            for each in machines:
                each.end()


@pytest.fixture
async def farm(machines: list[NetMachine], tmp_path: Path) -> AsyncIterator[Farm]:
    """All three are up, connected and idle."""
    for each in machines:
        each.connect()
        await each.be_up()
    farm = Farm(*machines, tmp_path)
    await until(farm.is_ready)
    yield farm
    for each in machines:
        await each.http.aclose()


async def test_a_machine_is_stopped_and_wakes_up_again(farm: Farm) -> None:
    owls = {f"owl-{n}": await farm.begin(farm.owl, f"owl-{n}") for n in (1, 2)}
    await until(lambda: farm.running(farm.owl))
    wrens = {f"wren-{n}": await farm.begin(farm.wren, f"wren-{n}") for n in (1, 2)}

    async def both_busy() -> bool:
        return await farm.running(farm.owl, farm.wren) == 2

    await until(both_busy)
    farm.owl.signal(signal.SIGSTOP)

    async def told() -> bool:
        return await farm.state(farm.owl) == "unreachable"

    await until(told)
    refused = await farm.door.http.get(f"/api/turns/{owls['owl-1']}")
    assert refused.status_code == 502 and "machine owl cannot be reached" in refused.json()["detail"]

    async def wren_has_both() -> bool:  # the slots of the one that sleeps
        return await farm.running(farm.wren) == 2

    await until(wren_has_both)
    farm.owl.signal(signal.SIGCONT)
    late = await until(lambda: _begun(farm, farm.owl, "late"))
    (farm.marks / "go").touch()
    for machine, turns in ((farm.owl, owls), (farm.wren, wrens), (farm.owl, {"late": late})):
        for name, turn in turns.items():
            envelope = await until(lambda machine=machine, turn=turn: farm.ended(machine, turn))
            assert (envelope["outcome"], envelope["text"], farm.lines(name)) == ("done", name, 1)
    assert await farm.state(farm.owl) == "live"


async def _begun(farm: Farm, machine: NetMachine, name: str) -> str | None:
    """The turn, once the door knows that the machine answers again."""
    return await farm.begin(machine, name) if await farm.state(machine) == "live" else None


async def test_a_machine_is_cut_off_and_comes_back(farm: Farm) -> None:
    first = await farm.begin(farm.wren, "first")
    await until(lambda: farm.running(farm.wren))
    farm.wren.pull()

    async def told() -> bool:
        return await farm.state(farm.wren) == "unreachable"

    await until(told)
    # Cut off, it goes on with what it has, and starts nothing that the limit counts.
    body = {"agent": "script", "folder": str(farm.wren.folder)}
    session = (await farm.wren.http.post("/api/sessions", json=body)).json()["id"]
    prompt = {"prompt": "[[say:later]]", "wait": True}
    later = (await farm.wren.http.post(f"/api/sessions/{session}/turns", json=prompt)).json()["id"]

    async def waits() -> bool:
        reasons = [each["reason"] for each in (await farm.wren.get("/api/queue"))["waiting"]]
        return reasons == ["the limits over all machines are not known at the moment"]

    await until(waits)
    (farm.marks / "go").touch()
    assert (await until(lambda: farm.ended(farm.wren, first)))["outcome"] == "done"
    assert farm.lines("first") == 1 and await waits()
    elsewhere = await farm.begin(farm.owl, "elsewhere")  # its slot is another machine's by now
    assert (await until(lambda: farm.ended(farm.owl, elsewhere)))["outcome"] == "done"
    farm.wren.pull(back=True)
    assert (await until(lambda: farm.ended(farm.wren, later)))["outcome"] == "done"


async def test_a_machine_that_is_cut_off_loses_its_run_to_another_one(farm: Farm, database: str) -> None:
    marks = farm.marks
    flow = f"""
        takeover = true
        [nodes.first]
        command = ["sh", "-c", "echo x >> {marks}/first"]
        [nodes.slow]
        needs = ["first"]
        command = ["sh", "-c", "echo $$ >> {marks}/slow; until test -e {marks}/go; do sleep 0.02; done"]
        """
    body = {"folder": str(marks), "text": flow}
    run = (await farm.wren.http.post("/api/runs", json=body)).json()["id"]
    await until(lambda: farm.lines("slow") == 1)
    farm.wren.pull()
    await until(lambda: farm.lines("slow") == 2)  # on another machine
    lost, _ = (marks / "slow").read_text().split()
    assert Path(f"/proc/{lost}").exists()  # cut off, it cannot know
    farm.wren.pull(back=True)
    assert ends(lost)  # while the other one is at work
    (marks / "go").touch()

    async def is_done() -> bool:
        return bool((await farm.door.get(f"/api/runs/{run}")).get("state") == "done")

    await until(is_done)
    assert (farm.lines("first"), farm.lines("slow")) == (1, 2)
    with psycopg.connect(database) as db:
        assert db.execute("SELECT fence, came_from, state FROM ostler.runs").fetchall() == [(2, "wren", "done")]


async def test_a_machine_is_killed_and_the_door_and_postgres_start_again(
    farm: Farm, postgres: Postgres, database: str
) -> None:
    lost = await farm.begin(farm.owl, "lost")
    await until(lambda: farm.running(farm.owl))
    directory = Directory(database)
    await until(lambda: directory.find_sessions(lost.rpartition("-")[0]))  # else nobody could know where it was
    await directory.close()
    farm.owl.signal(signal.SIGKILL)
    (farm.marks / "go").touch()
    refused = await farm.door.http.get(f"/api/turns/{lost}")
    assert refused.status_code == 502

    farm.door.signal(signal.SIGTERM)
    await farm.door.start()
    kept = await farm.begin(farm.wren, "kept", go="then")
    await until(lambda: farm.running(farm.wren))
    postgres.stop(signal.SIGQUIT)
    (farm.marks / "then").touch()
    assert (await until(lambda: farm.ended(farm.wren, kept)))["outcome"] == "done"
    postgres.start()

    await farm.owl.start()
    envelope = await until(lambda: farm.ended(farm.owl, lost))
    assert envelope["outcome"] == "crashed" and farm.lines("lost") == 0  # its agent ended with it: told, not run twice
    await until(farm.is_ready)
    assert (await until(lambda: farm.ended(farm.door, lost)))["outcome"] == "crashed"
    last = await farm.begin(farm.owl, "last")
    assert (await until(lambda: farm.ended(farm.door, last)))["outcome"] == "done"
    assert (farm.lines("last"), farm.lines("kept")) == (1, 1)


# -- a person


@asynccontextmanager
async def browser(farm: Farm, folder: Path) -> AsyncIterator[Page]:
    """Chromium in a network of its own: it reaches the others by their addresses alone."""
    namespace, _ = farm.door.net.add()
    program = folder / "browser"
    program.write_text(f'#!/bin/sh\nexec ip netns exec {namespace} {CHROMIUM} "$@"\n')
    program.chmod(0o755)
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=program, args=[*FLAGS, WITHOUT_WEBGL])
        page = await chromium.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        yield page
        await chromium.close()


@needs("chromium")
async def test_a_person_in_a_browser_types_into_a_terminal_on_another_machine(farm: Farm, tmp_path: Path) -> None:
    body = {"agent": "script", "folder": str(farm.owl.folder), "machine": "owl"}
    session = (await farm.door.http.post("/api/sessions", json=body)).json()["id"]
    link = (await farm.door.http.post("/api/links", json={"name": "ann", "rights": "admin"})).json()["url"]
    assert link.startswith(f"http://{farm.door.address}:{PORT}/#t=")
    async with browser(farm, tmp_path) as page:
        await page.goto(link)
        await page.wait_for_selector(".app")
        await page.goto(f"http://{farm.door.address}:{PORT}/#/s/{session}")
        await page.click("[aria-label='New terminal']")
        await page.wait_for_selector(".terminal-view:not([hidden]) .lease[data-holder='you']")
        await _type(page, "echo $((6 * 7)) oats > hay; cat hay", "42 oats")
        assert (farm.owl.folder / "hay").read_text() == "42 oats\n"  # it ran there
        await _type(page, "hostname -I", farm.owl.address)
        terminals = (await farm.owl.get("/api/terminals"))["items"]
        (terminal,) = [each for each in terminals if each["session"] == session]
        assert terminal["id"] not in [each["id"] for each in (await farm.wren.get("/api/terminals"))["items"]]
        farm.owl.pull()
        await page.wait_for_selector(".terminal-view:not([hidden]) .lease[data-holder='lost']")
        away = await farm.door.http.get(f"/api/terminals/{terminal['id']}")  # there is no index of terminals
        assert away.status_code == 502 and "machine owl cannot be reached" in away.json()["detail"]
        farm.owl.pull(back=True)
        await page.wait_for_selector(".terminal-view:not([hidden]) .lease:not([data-holder='lost'])")


async def _type(page: Page, line: str, until: str) -> None:
    """A line and Enter, key by key; then these words are on the screen."""
    await page.keyboard.type(line)
    await page.keyboard.press("Enter")
    shown = "window.__ostlerTerminals?.[document.querySelector(front)?.dataset.terminal]?.text()"
    script = f"([front, words]) => {shown}?.includes(words)"
    await page.wait_for_function(script, arg=[FRONT, until], polling=POLLING)
