"""Runs of pipelines on real machines that have joined: one is killed, stopped, started again; Postgres goes away.

What is finished is done once, whichever machine did it. What was under way when a machine was lost begins anew
elsewhere, if the pipeline lets it.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psycopg
import pytest

from needs import needs
from ostler.machines.directory import Directory
from ostler.machines.run_index import RunIndex
from ostler.server.auth import Authenticator
from ostler.server.lock import who_serves
from postgres import Postgres
from prefork import run_ostler, start_ostler
from waiting import PATIENCE, ends, until

pytestmark = [pytest.mark.asyncio, needs("postgres"), pytest.mark.timeout(300)]

REMOTE = "https://git.example/farm/oats.git"


class ServedMachine:
    """`ostler up --join` in a copy of one repository."""

    def __init__(self, base: Path, name: str, join: str, labels: str = "") -> None:
        self.base, self.name, self._labels = base / name, name, labels
        self.state, self.folder, home = self.base / "state", self.base / "oats", self.base / "home"
        for folder in (self.state, self.folder, home):
            folder.mkdir(parents=True)
        self.state.chmod(0o700)
        for args in (("init", "-q"), ("remote", "add", "origin", REMOTE)):
            subprocess.run(["git", "-C", str(self.folder), *args], check=True)
        self.env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
        self.env |= {"OSTLER_HOME": str(self.state), "OSTLER_ONLY": "script", "OSTLER_SCRIPT_SPEED": "0"}
        self.env["OSTLER_LOG"] = "debug"  # for whoever finds it failed
        self._join = join
        self.process: subprocess.Popen[bytes] | None = None
        self.http: httpx.AsyncClient | None = None

    async def start(self) -> None:
        argv = ["up", "--as", self.name]
        argv += ["--labels", self._labels] if self._labels else []
        with open(self.base / "log", "ab") as log:
            env = {**self.env, "OSTLER_JOIN": self._join}
            self.process = start_ostler(argv, cwd=self.folder, env=env, stdout=log, stderr=log)
        await until(self._answers)

    async def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, (self.base / "log").read_text()
        serves = who_serves(str(self.state))
        if serves is None or not serves.url or serves.pid != self.process.pid:
            return False
        token = Authenticator(self.state).sign("bearer", "admin", "ann", 3600)
        await self.aclose()
        self.http = httpx.AsyncClient(
            base_url=serves.url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE
        )
        return (await self.http.get("/healthz")).status_code == 200

    async def aclose(self) -> None:
        if self.http is not None:
            await self.http.aclose()

    async def get(self, path: str) -> Any:
        assert self.http is not None
        return (await self.http.get(path)).json()

    async def post(self, path: str, body: Any = None) -> Any:
        assert self.http is not None
        answer = await self.http.post(path, json=body) if body is not None else await self.http.post(path)
        assert answer.status_code in (200, 202), answer.text
        return answer.json()

    @contextlib.asynccontextmanager
    async def live_runs(self) -> AsyncIterator[dict[str, dict[str, Any]]]:
        """The runs as the live view of this machine has them, for as long as it is followed."""
        shown: dict[str, dict[str, Any]] = {}

        async def follow() -> None:
            assert self.http is not None
            async with self.http.stream("GET", "/api/live", headers={"Accept": "text/event-stream"}) as answer:
                kind = ""
                async for line in answer.aiter_lines():
                    if line.startswith("event: "):
                        kind = line.removeprefix("event: ")
                    elif kind == "run" and line.startswith("data: "):
                        row = json.loads(line.removeprefix("data: "))
                        shown[row["id"]] = row
                    elif kind == "gone" and line.startswith("data: "):
                        shown.pop(json.loads(line.removeprefix("data: "))["id"], None)

        following = asyncio.create_task(follow())
        try:
            yield shown
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def begin(self, text: str) -> str:
        return str((await self.post("/api/runs", {"folder": str(self.folder), "text": text}))["id"])

    def stored(self, run: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """The run and its nodes as this machine's own store has them."""
        shown = run_ostler(["pipeline", "show", run, "--json"], cwd=self.folder, env=self.env)
        told = json.loads(shown.stdout) if shown.returncode == 0 else {"run": {}, "nodes": []}
        return told["run"], {row["node"]: row for row in told["nodes"]}

    def state_of(self, run: str) -> str:
        return str(self.stored(run)[0].get("state", "running"))

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def processes(self) -> list[int]:
        """The server and all that it has started."""
        assert self.process is not None
        found, todo = [], [self.process.pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    todo += map(int, (task / "children").read_text().split())
        return found


class Pair(NamedTuple):
    """`marks` has a file for each node, with a line for each time that it was begun."""

    hawk: ServedMachine
    owl: ServedMachine
    marks: Path

    def flow(self, takeover: bool) -> str:
        """`slow` waits for a file `go` in the folder of its machine."""
        marks = self.marks
        said = f'[[run:["sh", "-c", "echo x >> {marks}/said"]]] [[say:hello]]'
        wait = f"echo $$ >> {marks}/slow; until test -e go; do sleep 0.02; done; echo slept"
        return f"""
            takeover = {"true" if takeover else "false"}
            [nodes.first]
            command = ["sh", "-c", "echo x >> {marks}/first; echo one"]
            [nodes.said]
            agent = "script"
            access = "full"
            prompt = '{said}'
            [nodes.slow]
            needs = ["first", "said"]
            command = ["sh", "-c", "{wait}"]
            [nodes.last]
            needs = ["said", "slow"]
            command = ["sh", "-c", "echo x >> {marks}/last; echo {{{{ nodes.said.text }}}} {{{{ nodes.slow.text }}}}"]
            """

    def lines(self, name: str) -> list[str]:
        mark = self.marks / name
        return mark.read_text().splitlines() if mark.exists() else []

    def counts(self) -> dict[str, int]:
        return {name: len(self.lines(name)) for name in ("first", "said", "slow", "last")}

    async def are_ready(self) -> bool:
        """Each looks at its agents and folders in its own time."""
        items = (await self.owl.get("/api/machines"))["items"]
        return len(items) == 2 and all(each["agents"] and each["folders"] for each in items)

    async def state(self, machine: ServedMachine, by: ServedMachine) -> str:
        items = (await by.get("/api/machines"))["items"]
        return next((str(each["state"]) for each in items if each["name"] == machine.name), "")


@pytest.fixture
async def pair(tmp_path: Path, database: str) -> AsyncIterator[Pair]:
    marks = tmp_path / "marks"
    marks.mkdir()
    hawk, owl = (ServedMachine(tmp_path, name, database) for name in ("hawk", "owl"))
    try:
        for each in (hawk, owl):
            await each.start()
        made = Pair(hawk, owl, marks)
        await until(made.are_ready)
        yield made
    finally:
        for each in (hawk, owl):
            if each.process is not None:
                for pid in each.processes():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
                each.kill()
            await each.aclose()


def holder(database: str, run: str) -> tuple[str, int, str]:
    """The machine, the fence and the state of a run, as the index has them."""
    query = """
        SELECT m.name, r.fence, r.state FROM ostler.runs r JOIN ostler.machines m ON m.id = r.machine WHERE r.id = %s
    """
    with psycopg.connect(database) as db:
        found = db.execute(query, (run,)).fetchone()
    assert found is not None
    return found


async def test_the_first_runs_of_a_fresh_postgres_may_begin_at_once(pair: Pair) -> None:
    """Whichever process comes first makes DBOS's tables, while the others wait for it."""
    machines = (pair.hawk, pair.owl, pair.hawk)
    echo = '[nodes.echo]\ncommand = ["echo", "oats"]'
    runs = await asyncio.gather(*(machine.begin(echo) for machine in machines))
    for machine, run in zip(machines, runs, strict=True):
        await until(lambda machine=machine, run=run: machine.state_of(run) == "done")


async def test_a_machine_is_killed_and_another_one_goes_on(pair: Pair, database: str) -> None:
    run = await pair.hawk.begin(pair.flow(takeover=True))
    await until(lambda: pair.lines("slow"))
    said = pair.hawk.stored(run)[1]["said"]["result"]
    pair.hawk.kill()
    await until(lambda: len(pair.lines("slow")) == 2)  # on owl
    (pair.owl.folder / "go").touch()
    await until(lambda: pair.owl.state_of(run) == "done")
    assert pair.counts() == {"first": 1, "said": 1, "slow": 2, "last": 1}
    row, nodes = pair.owl.stored(run)
    assert row["folder"] == str(pair.owl.folder)
    assert nodes["said"]["result"] == said  # that of the machine that was lost
    assert nodes["last"]["result"]["text"].split() == ["hello", "slept"]
    lost = "machine hawk was lost while this node was running: it may have done its work twice"
    assert {name: node["result"].get("notices", []) for name, node in nodes.items()} == {
        "first": [],
        "said": [],
        "slow": [lost],
        "last": [],
    }
    assert holder(database, run) == ("owl", 2, "done")
    # The machine is back: its own row says where the run is, and whoever asks there is told by the other one.
    await pair.hawk.start()
    await until(lambda: pair.hawk.state_of(run) == "moved")
    assert pair.hawk.stored(run)[0]["error"] == "it has moved to machine owl"

    async def told() -> bool:
        seen = await pair.hawk.get(f"/api/runs/{run}")
        return bool(seen.get("state") == "done")

    await until(told)
    assert [(each["id"], each["state"]) for each in (await pair.hawk.get("/api/runs"))["items"]] == [(run, "done")]
    assert [(each["id"], each["state"]) for each in (await pair.owl.get("/api/runs"))["items"]] == [(run, "done")]
    assert pair.counts() == {"first": 1, "said": 1, "slow": 2, "last": 1}


@pytest.mark.parametrize("whole", [True, False], ids=["the machine", "its server alone"])
async def test_a_machine_that_was_asleep_wakes_up_and_writes_nothing(pair: Pair, database: str, whole: bool) -> None:
    run = await pair.hawk.begin(pair.flow(takeover=True))
    (pid,) = await until(lambda: pair.lines("slow"))
    started = pair.hawk.processes()
    assert int(pid) in started
    assert all(database not in Path(f"/proc/{each}/cmdline").read_text() for each in started)
    assert "OSTLER_JOIN" not in Path(f"/proc/{pid}/environ").read_text()
    asleep = started if whole else started[:1]
    for each in asleep:
        with contextlib.suppress(ProcessLookupError):  # `slow` starts others that live for a moment
            os.kill(each, signal.SIGSTOP)
    await until(lambda: len(pair.lines("slow")) == 2)  # on owl
    before = pair.hawk.stored(run)[1]
    if not whole:
        assert ends(pid)  # the process of the run is awake, and notices by itself
    for each in asleep:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGCONT)
    assert ends(pid)  # while owl is still at work: what it had begun ends with the process of the run
    await until(lambda: pair.hawk.state_of(run) == "moved")
    (pair.owl.folder / "go").touch()
    await until(lambda: pair.owl.state_of(run) == "done")
    assert pair.counts() == {"first": 1, "said": 1, "slow": 2, "last": 1}
    row, after = pair.hawk.stored(run)
    assert (row["error"], after) == ("it has moved to machine owl", before)
    assert holder(database, run) == ("owl", 2, "done")


async def test_a_run_that_nobody_may_take_over_is_interrupted_until_its_machine_is_back(
    pair: Pair, database: str
) -> None:
    run = await pair.hawk.begin(pair.flow(takeover=False))
    await until(lambda: pair.lines("slow"))
    pair.hawk.kill()

    async def told() -> Any:
        items = (await pair.owl.get("/api/runs"))["items"]
        return next((each for each in items if each["id"] == run and each["state"] == "interrupted"), None)

    seen = await until(told)
    assert (seen["machine"], seen["reachable"]) == ("hawk", False)
    await pair.hawk.start()
    (pair.hawk.folder / "go").touch()
    await until(lambda: pair.hawk.state_of(run) == "running")
    shown = await until(lambda: _interrupted(pair.hawk, run))
    assert shown["state"] == "interrupted" and holder(database, run) == ("hawk", 1, "running")
    await pair.hawk.post(f"/api/runs/{run}/resume")
    await until(lambda: pair.hawk.state_of(run) == "done")
    assert pair.counts() == {"first": 1, "said": 1, "slow": 2, "last": 1}
    assert holder(database, run) == ("hawk", 1, "done")


async def _interrupted(machine: ServedMachine, run: str) -> Any:
    seen = await machine.get(f"/api/runs/{run}")
    return seen if seen["state"] == "interrupted" else None


async def test_a_machine_that_drains_claims_nothing_and_one_that_is_back_first_goes_on_itself(
    pair: Pair, database: str
) -> None:
    run = await pair.hawk.begin(pair.flow(takeover=True))
    await until(lambda: pair.lines("slow"))
    directory = Directory(database)
    (owl,) = [row.id for row in await directory.machines() if row.name == "owl"]
    assert await directory.drain(owl, True)
    pair.hawk.kill()

    async def is_lost() -> Any:
        found = await RunIndex(directory).find(run)
        return found is not None and found.lost

    await until(is_lost)
    await directory.close()
    (pair.hawk.folder / "go").touch()
    await pair.hawk.start()
    await until(lambda: pair.hawk.state_of(run) == "done")
    assert pair.counts() == {"first": 1, "said": 1, "slow": 2, "last": 1}
    assert holder(database, run) == ("hawk", 1, "done") and pair.owl.stored(run)[0] == {}


async def test_postgres_is_away_for_a_while_and_a_run_goes_on(pair: Pair, postgres: Postgres, database: str) -> None:
    run = await pair.hawk.begin(pair.flow(takeover=True))
    await until(lambda: pair.lines("slow"))
    postgres.stop(signal.SIGQUIT)
    (pair.hawk.folder / "go").touch()
    assert ends(pair.lines("slow")[0])  # its result cannot be kept now
    local = await pair.hawk.begin(f'[nodes.a]\ncommand = ["sh", "-c", "echo x >> {pair.marks}/local"]\n')
    await until(lambda: pair.hawk.state_of(local) == "done")  # a new one is known to its machine alone
    assert pair.lines("last") == []
    postgres.start()
    await until(lambda: pair.hawk.state_of(run) == "done")
    assert pair.counts() == {"first": 1, "said": 1, "slow": 1, "last": 1}
    assert holder(database, run) == ("hawk", 1, "done") and pair.lines("local") == ["x"]


async def test_a_run_waits_until_a_machine_fits_and_the_reason_is_told(
    tmp_path: Path, pair: Pair, database: str
) -> None:
    (pair.hawk.folder / "flow.toml").write_text(pair.flow(takeover=False))
    (pair.hawk.folder / "go").touch()

    def ostler(*args: str) -> subprocess.CompletedProcess[str]:
        return run_ostler(["pipeline", *args], cwd=pair.hawk.folder, env=pair.hawk.env)

    begun = ostler("run", "flow.toml", "--on", "gpu,big", "--takeover", "--json")
    assert begun.returncode == 0, begun.stderr
    view = json.loads(begun.stdout)
    why = "no machine fits (hawk: it has no label gpu, big; owl: it has no label gpu, big)"
    assert (view["state"], view["error"]) == ("waiting", why)
    listed = ostler("list").stdout
    assert f"{view['id']}  " in listed and "waiting" in listed and f"{view['id']}: {why}" in listed
    assert json.loads(ostler("list", "--json").stdout) == [view]
    assert (await pair.owl.get(f"/api/runs/{view['id']}"))["state"] == "waiting"
    assert f"{view['id']} waits for a machine" in ostler("show", view["id"]).stderr
    unknown = ostler("run", "flow.toml", "--on", "any", "-i", "x=y")
    assert unknown.returncode == 2 and "x" in unknown.stderr
    assert ostler("run", "flow.toml", "--takeover").returncode == 2

    gone = json.loads(ostler("run", "flow.toml", "--on", "fast", "--json").stdout)["id"]
    async with pair.owl.live_runs() as shown:  # what the page follows
        await until(lambda: shown.get(gone, {}).get("state") == "waiting")
        assert (shown[view["id"]]["state"], shown[view["id"]]["error"]) == ("waiting", why)
        assert (await pair.owl.post(f"/api/runs/{gone}/cancel"))["state"] == "cancelled"
        await until(lambda: gone not in shown)
        assert shown[view["id"]]["state"] == "waiting"

    wren = ServedMachine(tmp_path, "wren", database, labels="gpu,big,red")
    (wren.folder / "go").touch()
    try:
        await wren.start()
        await until(lambda: wren.state_of(view["id"]) == "done")
        row, nodes = wren.stored(view["id"])
        assert row["folder"] == str(wren.folder) and nodes["last"]["result"]["text"].split() == ["hello", "slept"]
        assert holder(database, view["id"]) == ("wren", 1, "done")
        assert f"wren:{wren.folder}" in ostler("list").stdout
        for args in (["show"], ["report"], ["cancel"], ["resume"], ["approve", "last"], ["fork", "last"]):
            refused = ostler(args[0], view["id"][:8], *args[1:])
            assert refused.returncode == 2 and f"{view['id']} is a run of machine wren" in refused.stderr
        own = json.loads(ostler("run", "flow.toml", "--json").stdout)["run"]["id"]
        listed_runs = json.loads(ostler("list", "--json").stdout)
        told = (await pair.hawk.get("/api/runs"))["items"]
        assert listed_runs == told  # the newest first, and those of this machine without its name
        assert [(each["id"], each["machine"], each["state"]) for each in listed_runs] == [
            (own, "", "done"),
            (view["id"], "wren", "done"),
        ]
        assert pair.counts() == {"first": 2, "said": 2, "slow": 2, "last": 2}
    finally:
        wren.kill()
        await wren.aclose()
