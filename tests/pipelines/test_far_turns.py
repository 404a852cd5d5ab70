"""Nodes that run on other machines: real servers that have joined, and runs at the command line of one."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from machines.conftest import database, postgres  # noqa: F401
from ostler.pipelines.runs import Runs
from ostler.process import tree
from ostler.store import Store
from prefork import start_ostler
from server.served import Served, serving
from waiting import until

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(300)]


class Farm:
    """`door` is where runs are started; `owl` and `crow` have the label gpu."""

    def __init__(self, door: Served, owl: Served, crow: Served) -> None:
        self.door, self.owl, self.crow = door, owl, crow

    def start(self, *args: str) -> "subprocess.Popen[bytes]":
        pipe: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return start_ostler(["pipeline", *args], cwd=self.door.folder, env=self.door.env, **pipe)

    async def told(self, process: "subprocess.Popen[bytes]") -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """The run at its end, and the results of its nodes."""
        out, err = await asyncio.to_thread(process.communicate)
        assert out, err.decode()
        told = json.loads(out)
        return told["run"], {row["node"]: row["result"] for row in told["nodes"]}

    async def cli(self, *args: str) -> "subprocess.CompletedProcess[str]":
        process = self.start(*args)
        out, err = await asyncio.to_thread(process.communicate)
        return subprocess.CompletedProcess(args, process.returncode, out.decode(), err.decode())

    def flow(self, text: str) -> str:
        (self.door.folder / "flow.toml").write_text(text)
        return "flow.toml"

    def waiting_flow(self) -> str:
        return self.flow(self.waiting_node())

    def waiting_node(self) -> str:
        """One node on owl, whose agent waits there for a file `go`."""
        there = self.owl.folder
        return f"""
            [nodes.far]
            agent = "script"
            on = "owl"
            folder = "{there}"
            prompt = '[[say:begun]] [[wait_for:{there}/go]] [[say:over]]'
            """

    async def begin_for_any(self) -> str:
        """Begins a run of that node at the door; another machine may go on with it. The path of the run."""
        text = f"takeover = true\n{self.waiting_node()}"
        started = await self.door.http.post("/api/runs", json={"folder": str(self.door.folder), "text": text})
        assert started.status_code == 202, started.text
        return f"/api/runs/{started.json()['id']}"

    async def taken_over(self, path: str) -> Any:
        """The run, once it goes on on another machine than the door."""
        answer = await self.crow.http.get(path)
        row = answer.json() if answer.status_code == 200 else None
        return row and row["machine"] != "door" and row["state"] == "running" and row

    async def over(self, path: str) -> Any:
        """The run, once it has ended."""
        row = (await self.crow.http.get(path)).json()
        return row["ended_at"] and row

    async def working(self, served: Served) -> dict[str, Any]:
        """The one session there, once its agent is at work."""

        async def busy() -> Any:
            items = (await served.http.get("/api/sessions")).json()["items"]
            here = [each for each in items if not each["machine"]]
            return here and here[0]["agent_session"] and here[0]

        found: dict[str, Any] = await until(busy)
        return found

    async def turns(self, served: Served, session: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await served.http.get(f"/api/sessions/{session}/turns")).json()["items"]
        return found

    async def ready(self) -> bool:
        """All have told of their agents."""
        told = (await self.door.http.get("/api/machines")).json()["items"]
        return len(told) == 3 and all(each["agents"] for each in told)

    async def state_of(self, name: str) -> str:
        told = (await self.door.http.get("/api/machines")).json()["items"]
        return next(str(each["state"]) for each in told if each["name"] == name)


@pytest.fixture
async def farm(tmp_path: Path, database: str) -> AsyncIterator[Farm]:  # noqa: F811
    async with AsyncExitStack() as stack:
        servers = {}
        for name, more in (("owl", ("--labels", "gpu,big")), ("crow", ("--labels", "gpu")), ("door", ())):
            running = serving(tmp_path / name, "--join", database, "--as", name, *more)
            servers[name] = await stack.enter_async_context(running)
        made = Farm(**servers)
        await until(made.ready)
        yield made


async def test_what_a_node_did_elsewhere_comes_back(farm: Farm) -> None:
    there = farm.owl.folder
    (there / "old.txt").write_text("old\n")
    flow = farm.flow(f"""
        [nodes.far]
        agent = "script"
        on = "big,gpu"
        folder = "{there}"
        access = "write"
        schema = {{ type = "object" }}
        limits = {{ total = 300 }}
        hooks = false
        priority = 0
        fallback = []
        prompt = '''[[usage:{{"cost_usd": 0.25}}]] [[write:{{"path": "new.txt", "content": "hay"}}]]
        [[structured:{{"risk": "high"}}]] [[say:done there]]'''
        [nodes.items]
        agent = "script"
        on = "any"
        folder = "/"
        needs = ["far"]
        each = ["a", "b", "c"]
        prompt = "[[say:{{{{ item }}}} of {{{{ nodes.far.structured.risk }}}}]]"
        [nodes.rounds]
        agent = "script"
        on = "owl"
        folder = "{there}"
        loop = {{ times = 3, until = "self.text == 'xx'" }}
        prompt = "[[say:x{{{{ last.text }}}}]]"
        [nodes.here]
        command = ["echo", "{{{{ nodes.far.diff }}}}"]
        needs = ["far"]
        """)
    process = farm.start("run", flow, "--json")
    run, nodes = await farm.told(process)
    assert (process.returncode, run["state"]) == (0, "done"), run["error"]
    far = nodes["far"]
    assert (far["text"], far["structured"], far["machine"]) == ("done there", {"risk": "high"}, "owl")
    assert (far["cost_usd"], far["folder"]) == (0.25, str(there))
    assert "+hay" in far["diff"] and "+hay" in nodes["here"]["stdout"]
    assert (there / "new.txt").read_text() == "hay" and not (farm.door.folder / "new.txt").exists()
    assert nodes["items"]["text"] == "a of high\n\nb of high\n\nc of high"
    assert len({item["session"] for item in nodes["items"]["items"]}) == 3
    (turn,) = await farm.turns(farm.owl, far["session"])
    assert turn["id"] == far["turn"]
    assert said_to(farm.owl, far["turn"]) == (False, 0, (), 300.0)
    assert [each["number"] for each in await farm.turns(farm.owl, nodes["rounds"]["session"])] == [1, 2]
    assert f"{far['session']}@owl" in (await farm.cli("show")).stdout
    assert "on owl" in (await farm.cli("report")).stdout


def said_to(served: Served, turn: str) -> tuple[Any, ...]:
    """Options of a turn there."""
    with Store.open(str(served.state)) as store:
        row = store.turn(turn)
        assert row is not None
        return row.turn.hooks, row.turn.priority, row.turn.fallback, row.turn.limits.total


async def test_a_run_that_was_killed_finds_the_same_turn_again(farm: Farm) -> None:
    there = farm.owl.folder
    flow = farm.waiting_flow()
    process = farm.start("run", flow, "--json")
    session = await farm.working(farm.owl)
    process.kill()
    process.communicate()
    going = farm.start("resume", "last", "--json")
    await until(lambda: _owned(farm))
    (there / "go").touch()
    run, nodes = await farm.told(going)
    assert run["state"] == "done" and nodes["far"]["text"].endswith("over")
    assert nodes["far"]["session"] == session["id"] and not nodes["far"].get("notices")
    assert len(await farm.turns(farm.owl, session["id"])) == 1
    assert len((await farm.owl.http.get("/api/sessions")).json()["items"]) == 1


def _owned(farm: Farm) -> bool:
    with Store.open(str(farm.door.state)) as store:
        runs = Runs(store)
        return runs.owned(runs.find("last"))


async def test_a_cancel_reaches_it_and_the_server_starts_such_runs_too(farm: Farm) -> None:
    text = f"""
        [nodes.far]
        agent = "script"
        on = "owl"
        folder = "{farm.owl.folder}"
        prompt = "[[say:begun]] [[never_end]]"
        """
    started = await farm.door.http.post("/api/runs", json={"folder": str(farm.door.folder), "text": text})
    assert started.status_code == 202, started.text
    session = await farm.working(farm.owl)
    run = started.json()["id"]
    await farm.door.http.post(f"/api/runs/{run}/cancel")

    async def over() -> Any:
        row = (await farm.door.http.get(f"/api/runs/{run}")).json()
        return row["ended_at"] and row

    ended = await until(over)
    assert (ended["state"], ended["nodes"][0]["state"]) == ("cancelled", "cancelled")
    assert (ended["nodes"][0]["machine"], ended["nodes"][0]["on"]) == ("owl", "owl")
    (turn,) = await farm.turns(farm.owl, session["id"])
    assert (turn["state"], turn["outcome"]) == ("ended", "cancelled")


async def test_a_machine_that_stays_away_is_a_failure_and_a_retry_goes_elsewhere(farm: Farm) -> None:
    """For `again` owl comes first, since it has worked in that folder."""
    there = farm.owl.folder
    flow = farm.flow(f"""
        [nodes.alone]
        agent = "script"
        on = "owl"
        folder = "{there}"
        prompt = "[[say:begun]] [[never_end]]"
        [nodes.rescue]
        command = ["echo", "rescued: {{{{ nodes.alone.error }}}}"]
        needs = ["alone"]
        when = "not nodes.alone.ok"
        [nodes.again]
        agent = "script"
        on = "gpu"
        folder = "{there}"
        retry = 1
        prompt = "[[say:begun]] [[wait_for:{there}/go]] [[say:over]]"
        """)
    process = farm.start("run", flow, "--json")
    await until(lambda: _both_work(farm))
    await farm.owl.kill()
    (there / "go").touch()
    _, nodes = await farm.told(process)
    alone, again = nodes["alone"], nodes["again"]
    assert (alone["state"], alone["kind"]) == ("failed", "crashed")
    assert alone["error"].startswith("machine owl cannot be reached: ")
    assert nodes["rescue"]["stdout"].startswith("rescued: machine owl cannot be reached")
    assert (again["state"], again["tries"], again["machine"]) == ("done", 2, "crow"), again
    assert len(await farm.turns(farm.crow, again["session"])) == 1
    await farm.owl.start()


async def _both_work(farm: Farm) -> bool:
    items = (await farm.owl.http.get("/api/sessions")).json()["items"]
    return len([each for each in items if not each["machine"] and each["agent_session"]]) == 2


async def test_a_machine_that_is_stopped_is_a_failure_at_once(farm: Farm) -> None:
    flow = farm.flow(f"""
        [nodes.far]
        agent = "script"
        on = "owl"
        folder = "{farm.owl.folder}"
        prompt = "[[say:begun]] [[never_end]]"
        """)
    process = farm.start("run", flow, "--json")
    await farm.working(farm.owl)
    await farm.owl.stop()
    run, nodes = await farm.told(process)
    assert (run["state"], nodes["far"]["state"], nodes["far"]["kind"]) == ("failed", "failed", "not_found")
    assert nodes["far"]["error"].startswith("it is on machine owl, which is gone")
    await farm.owl.start()


async def test_a_machine_that_comes_back_goes_on(farm: Farm) -> None:
    there = farm.owl.folder
    flow = farm.waiting_flow()
    process = farm.start("run", flow, "--json")
    session = await farm.working(farm.owl)
    await farm.owl.kill()
    await farm.owl.start()
    (there / "go").touch()
    run, nodes = await farm.told(process)
    assert run["state"] == "done", run["error"]
    assert nodes["far"]["notices"] == ["it was interrupted, and continued in the same conversation"]
    outcomes = [turn["outcome"] for turn in await farm.turns(farm.owl, session["id"])]
    assert outcomes == ["crashed", "done"]


async def test_the_machine_that_takes_a_run_over_finds_the_turn_elsewhere_again(farm: Farm) -> None:
    path = await farm.begin_for_any()
    session = await farm.working(farm.owl)
    await farm.door.kill()
    await until(lambda: farm.taken_over(path))
    (farm.owl.folder / "go").touch()
    ended = await until(lambda: farm.over(path))
    node = (await farm.crow.http.get(f"{path}/nodes/far")).json()
    assert (ended["state"], node["text"], node["session"]) == ("done", "over", session["id"]), node
    assert node["notices"] == []  # it was not done twice
    assert len(await farm.turns(farm.owl, session["id"])) == 1
    await farm.door.start()


@pytest.mark.parametrize("whole", [True, False], ids=["the machine", "its server alone"])
async def test_a_machine_that_was_asleep_and_lost_its_run_leaves_the_turn_elsewhere_alone(
    farm: Farm, whole: bool
) -> None:
    """What it had begun on a third machine is waited for by whoever has the run by then."""
    path = await farm.begin_for_any()
    session = await farm.working(farm.owl)
    assert len(_runs(farm.door)) == 1
    asleep = [farm.door.pid, *((member.pid for member in farm.door.look()) if whole else ())]
    try:
        for pid in asleep:
            os.kill(pid, signal.SIGSTOP)
        await until(lambda: farm.taken_over(path))
        if not whole:
            await until(lambda: _state(farm.door, path) == "moved")  # the process of the run notices by itself
    finally:
        for pid in asleep:
            os.kill(pid, signal.SIGCONT)
    await until(lambda: _state(farm.door, path) == "moved")
    await until(lambda: not _runs(farm.door))  # it has ended all that it would
    (turn,) = await farm.turns(farm.owl, session["id"])
    assert turn["state"] == "running", turn
    (farm.owl.folder / "go").touch()
    ended = await until(lambda: farm.over(path))
    node = (await farm.crow.http.get(f"{path}/nodes/far")).json()
    assert (ended["state"], node["text"], node["turn"]) == ("done", "over", turn["id"]), node
    (turn,) = await farm.turns(farm.owl, session["id"])
    assert turn["outcome"] == "done"


def _state(served: Served, path: str) -> str:
    """As the store of that machine has the run."""
    with Store.open(str(served.state)) as store:
        row = Runs(store).get(path.rpartition("/")[2])
        assert row is not None
        return row.state


def _runs(served: Served) -> list[str]:
    """The processes of runs of that machine."""
    return [command for member in served.look() if "pipeline" in (command := tree.command(member.pid))]


async def test_what_cannot_be_placed_is_said_before_anything_runs(farm: Farm) -> None:
    text = """
        [nodes.first]
        command = ["touch", "began"]
        [nodes.far]
        agent = "script"
        on = "tpu"
        prompt = "[[say:x]]"
        """
    refused = await farm.cli("run", farm.flow(text))
    assert refused.returncode == 2
    assert "nodes.far.on: no machine that has joined is called 'tpu' or has this label" in refused.stderr
    assert "crow (gpu), door, owl (gpu, big)" in refused.stderr
    posted = await farm.door.http.post("/api/runs", json={"folder": str(farm.door.folder), "text": text})
    assert posted.status_code == 422 and "nodes.far.on: no machine" in posted.json()["detail"]
    assert not (farm.door.folder / "began").exists() and (await farm.cli("list")).stdout.startswith("no runs yet")
    await farm.crow.stop()
    await until(lambda: _is(farm, "crow", "gone"))
    gone = await farm.cli("run", farm.flow(text.replace("tpu", "crow")))
    assert gone.returncode == 2 and "is called 'crow'" in gone.stderr
    await farm.crow.start()
    await farm.door.stop()
    alone = await farm.cli("run", farm.flow(text))
    assert alone.returncode == 2 and "a node with `on` needs a server on this machine" in alone.stderr
    await farm.door.start()


async def _is(farm: Farm, name: str, state: str) -> bool:
    return await farm.state_of(name) == state
