"""Pipelines at work with the scripted agent: graphs, gates, loops, items, worktrees, cancel, fork, and kill -9."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from msgspec import structs

from cli.conftest import Shell
from machines.conftest import database, postgres  # noqa: F401
from needs import needs
from ostler.machines.directory import Directory
from ostler.machines.membership import machine_id
from ostler.machines.run_index import IndexedRun, RunIndex
from ostler.pipelines.model import RunRow
from ostler.pipelines.parse import parse_pipeline
from ostler.pipelines.runs import Runs
from ostler.pipelines.steps import SCHEMA, sweep_steps
from ostler.process import tree
from ostler.store import Store
from ostler.work.owner import alive
from waiting import wait_until
from work.panes.own_tmux import own_tmux, panes

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    made.environ |= {"OSTLER_HOME": str(tmp_path / "state"), "OSTLER_SCRIPT_SPEED": "0", "OSTLER_ONLY": "script"}
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.wait()


def flow(shell: Shell, text: str) -> str:
    (shell.folder / "flow.toml").write_text(text)
    return "flow.toml"


def run(shell: Shell, text: str, *more: str) -> tuple[int, dict[str, Any], dict[str, dict[str, Any]]]:
    """The exit code, the run, and its nodes by name."""
    ran = shell("pipeline", "run", flow(shell, text), "--json", *more)
    assert ran.stdout, ran.stderr
    told = json.loads(ran.stdout)
    return ran.returncode, told["run"], {row["node"]: row for row in told["nodes"]}


def results(nodes: dict[str, dict[str, Any]]) -> dict[str, tuple[str, str]]:
    return {name: (row["result"]["state"], row["result"].get("text", "").strip()) for name, row in nodes.items()}


def test_nodes_hand_on_what_they_say_and_conditions_choose(shell: Shell) -> None:
    """One graph with all kinds of nodes: a run starts DBOS, which takes its time."""
    code, row, nodes = run(
        shell,
        """
        [inputs]
        task = "hay"
        [nodes.plan]
        agent = "claude"
        schema = { type = "object" }
        prompt = '[[structured:{"risk": "high", "parts": ["a", "b"]}]] [[say:planned]]'
        [nodes.each_part]
        agent = "codex"
        needs = ["plan"]
        each = "nodes.plan.structured.parts"
        prompt = "[[say:{{ item }} of {{ inputs.task }}]]"
        [nodes.risky]
        command = ["echo", "{{ nodes.plan.structured.risk }}"]
        needs = ["plan"]
        when = "nodes.plan.structured.risk == 'high'"
        [nodes.calm]
        command = ["echo", "calm"]
        needs = ["plan"]
        when = "nodes.plan.structured.risk == 'low'"
        [nodes.after_calm]
        command = ["echo", "after [{{ nodes.calm.text }}]"]
        needs = ["calm"]
        [nodes.broken]
        command = ["false"]
        retry = 1
        [nodes.after_broken]
        command = ["echo", "never"]
        needs = ["broken"]
        [nodes.rescue]
        command = ["echo", "rescued from {{ nodes.broken.state }}"]
        needs = ["broken"]
        when = "not nodes.broken.ok"
        [nodes.until_three]
        command = ["sh", "-c", "echo x >> rounds; wc -l < rounds"]
        loop = { times = 5, check = ["sh", "-c", "test $(wc -l < rounds) -ge 3"] }
        [nodes.never]
        command = ["true"]
        loop = { times = 2, until = "self.text == 'x'" }
        """,
    )
    assert (code, row["state"]) == (1, "failed")
    assert results(nodes) == {
        "plan": ("done", "planned"),
        "each_part": ("done", "a of hay\n\nb of hay"),
        "risky": ("done", "high"),
        "calm": ("skipped", ""),
        "after_calm": ("done", "after []"),
        "broken": ("failed", ""),
        "after_broken": ("skipped", ""),
        "rescue": ("done", "rescued from failed"),
        "until_three": ("done", "3"),
        "never": ("failed", ""),
    }
    assert nodes["broken"]["result"]["tries"] == 2
    assert nodes["after_broken"]["result"]["error"] == "it needs broken, which is failed"
    assert nodes["never"]["result"]["error"] == "its check did not pass in 2 rounds"
    shown = shell("pipeline", "show").stdout
    assert "each_part" in shown and "– skipped" in shown
    report = shell("pipeline", "show", row["id"], "--report").stdout
    assert report.startswith("# flow: failed") and "rescued from failed" in report
    assert row["id"] in shell("pipeline", "list").stdout
    kept = Path(shell.environ["OSTLER_HOME"], "pipelines", row["id"], "dbos.sqlite")
    with contextlib.closing(sqlite3.connect(kept)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)  # one flush for each commit, not several
    forked = shell("pipeline", "fork", row["id"], "risky", "--json")
    again = json.loads(forked.stdout)
    assert again["run"]["fork_of"] == row["id"]
    texts = {each["node"]: each["result"] for each in again["nodes"]}
    assert texts["plan"]["session"] == nodes["plan"]["result"]["session"]  # taken over
    assert texts["risky"]["session"] != nodes["risky"]["result"]["session"]  # run again


def test_an_expression_that_fails_while_it_runs_fails_its_node_alone(shell: Shell) -> None:
    code, row, nodes = run(
        shell,
        """
        [nodes.empty]
        command = ["echo", "said"]
        [nodes.word]
        command = ["echo", "{{ nodes.empty.items[0] }}"]
        needs = ["empty"]
        [nodes.asked]
        gate = "{{ nodes.empty.items[1] }}"
        needs = ["empty"]
        [nodes.later]
        command = ["echo", "{{ check.items[2] }}"]
        loop = { times = 2, check = ["false"] }
        [nodes.until]
        command = ["echo", "worked"]
        loop = { times = 2, until = "self.items[3] == 1" }
        [nodes.parts]
        each = ["fine", ["bad"]]
        command = ["echo", "{{ item == 'fine' or item[4] }}"]
        [nodes.beside]
        command = ["echo", "fine"]
        """,
    )
    assert (code, row["state"]) == (1, "failed")
    assert results(nodes)["beside"] == ("done", "fine") and results(nodes)["until"] == ("failed", "worked")
    for name, wrong in (
        ("word", "nodes.empty.items[0]"),
        ("asked", "nodes.empty.items[1]"),
        ("later", "check.items[2]"),
        ("until", "self.items[3] == 1"),
        ("parts", "item == 'fine' or item[4]"),
    ):
        result = nodes[name]["result"]
        assert (result["state"], result["kind"]) == ("failed", "bad_request"), name
        assert wrong in result["error"] and "cannot be evaluated" in result["error"]
    assert [item["state"] for item in nodes["parts"]["result"]["items"]] == ["done", "failed"]
    assert shell("pipeline", "resume", row["id"]).returncode == 2  # it has ended


def test_what_nobody_expected_of_a_node_is_its_failure(shell: Shell) -> None:
    """DBOS keeps the exception; what it could not write down was raised again whenever the run was resumed."""
    text = """
        [nodes.ask]
        gate = "Go on?"
        [nodes.tree]
        command = ["true"]
        worktree = true
        needs = ["ask"]
        [nodes.stay]
        gate = "Still there?"
        """
    going = shell.start("pipeline", "run", flow(shell, text), "--json")
    run_id = wait_for_gate(shell, "ask")["run"]
    Path(shell.environ["OSTLER_HOME"], "pipelines", run_id, "worktrees").touch()  # in place of the folder
    assert shell("pipeline", "approve", run_id, "ask").returncode == 0
    with Store.open(shell.environ["OSTLER_HOME"]) as store:
        wait_until(lambda: "tree" in _ended(Runs(store)))
    going.kill()
    going.communicate()
    resumed = shell.start("pipeline", "resume", run_id, "--json")
    wait_for_gate(shell, "stay")
    assert shell("pipeline", "approve", run_id, "stay").returncode == 0
    told = json.loads(resumed.communicate()[0])
    assert (resumed.returncode, told["run"]["state"]) == (1, "failed")
    result = next(row["result"] for row in told["nodes"] if row["node"] == "tree")
    assert (result["state"], result["kind"]) == ("failed", "crashed")
    assert "internal error (this is a bug in ostler): FileExistsError" in result["error"]


COSTLY = """
[[reply]]
match = "You were interrupted"
steps = [{ usage = { cost_usd = 0.25 } }, { say = "over" }]
[[reply]]
match = "break"
steps = [{ usage = { cost_usd = 0.25 } }, { say = "half" }, { crash = "KILL" }]
"""


def test_all_that_a_node_tried_is_in_its_cost(shell: Shell) -> None:
    (shell.folder / "scenario.toml").write_text(COSTLY)
    shell.environ["OSTLER_SCENARIO"] = str(shell.folder / "scenario.toml")
    code, row, nodes = run(
        shell,
        """
        cost_usd = 1.4
        [nodes.rounds]
        agent = "claude"
        prompt = '[[usage:{"cost_usd": 0.25}]] [[say:x{{ last.text }}]]'
        loop = { times = 3, until = "self.text == 'xx'" }
        [nodes.retried]
        agent = "claude"
        prompt = '[[usage:{"cost_usd": 0.25}]] [[fail:overloaded]]'
        retry = 1
        [nodes.crashed]
        agent = "claude"
        prompt = "break"
        [nodes.more]
        command = ["true"]
        needs = ["rounds", "retried", "crashed"]
        when = "true"
        """,
    )
    assert (code, row["state"]) == (1, "failed")
    results = {name: each["result"] for name, each in nodes.items()}
    costs = {name: (each["state"], each.get("cost_usd")) for name, each in results.items()}
    assert costs == {
        "rounds": ("done", 0.5),
        "retried": ("failed", 0.5),
        "crashed": ("done", 0.5),
        "more": ("failed", None),
    }
    assert results["more"]["error"] == "the run has cost $1.50, and its limit is $1.40"


def git(folder: Path, *args: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@y"]
    return subprocess.run(["git", "-C", str(folder), *who, *args], capture_output=True, text=True, check=True).stdout


def repository(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    (folder / "old.txt").write_text("old\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")


def test_worktrees_are_merged_kept_and_cleaned_up(shell: Shell) -> None:
    repository(shell.folder)
    code, row, nodes = run(
        shell,
        """
        [nodes.kept]
        agent = "claude"
        access = "write"
        worktree = true
        prompt = "[[write:kept.txt]]"
        [nodes.merged]
        agent = "codex"
        access = "write"
        worktree = { then = "merge" }
        prompt = "[[write:merged.txt]]"
        """,
    )
    assert (code, row["state"]) == (0, "done"), nodes
    assert "+++ b/kept.txt" in nodes["kept"]["result"]["diff"]
    assert (shell.folder / "merged.txt").exists() and not (shell.folder / "kept.txt").exists()
    branches = git(shell.folder, "branch", "--list", "ostler/*").split()
    assert branches == [f"ostler/{row['id']}/kept"]
    assert "kept.txt" in git(shell.folder, "ls-tree", "--name-only", branches[0])
    assert git(shell.folder, "worktree", "list").count("\n") == 1


GIT_THAT_KILLS = """#!/bin/sh
case "$*" in *"{at}"*)
    if mkdir {mark} 2>/dev/null; then
        test {instant} = after && {git} "$@"
        kill -9 $PPID
        exit 1
    fi
esac
exec {git} "$@"
"""


@pytest.mark.parametrize(
    ("then", "at", "instant"),
    [
        ("merge", "merge --no-edit", "before"),
        ("merge", "merge --no-edit", "after"),
        ("merge", "branch -d", "after"),
        ("drop", "worktree remove", "after"),
        ("drop", "branch -D", "after"),
    ],
)
def test_a_worktree_is_finished_after_a_kill(shell: Shell, then: str, at: str, instant: str) -> None:
    """Killed just before or after that command of git."""
    repository(shell.folder)
    bin = shell.home / "bin"
    bin.mkdir()
    real = shutil.which("git")
    script = GIT_THAT_KILLS.format(at=at, instant=instant, mark=shell.home / "killed", git=real)
    (bin / "git").write_text(script)
    (bin / "git").chmod(0o755)
    path = {"PATH": f"{bin}:{shell.environ['PATH']}"}
    text = f"""
        [nodes.tree]
        command = ["sh", "-c", "echo hay > new.txt"]
        worktree = {{ then = "{then}" }}
        """
    assert shell("pipeline", "run", flow(shell, text), env=path).returncode == -signal.SIGKILL
    resumed = shell("pipeline", "resume", "last", "--json")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    (row,) = json.loads(resumed.stdout)["nodes"]
    assert "+hay" in row["result"]["diff"]
    assert row["result"]["notices"][-1].endswith("was merged" if then == "merge" else "was dropped")
    assert (shell.folder / "new.txt").exists() == (then == "merge")
    assert git(shell.folder, "branch", "--list", "ostler/*") == ""
    assert git(shell.folder, "worktree", "list").count("\n") == 1


def wait_for_gate(shell: Shell, node: str) -> dict[str, Any]:
    def looked() -> Any:
        shown = shell("pipeline", "show", "--json")
        rows = json.loads(shown.stdout)["nodes"] if shown.returncode == 0 else []
        return next((row for row in rows if row["node"] == node and row.get("state") == "gate"), None)

    found: dict[str, Any] = wait_until(looked)
    return found


@needs("tmux")
def test_each_node_has_its_pane(shell: Shell) -> None:
    node = '[nodes.{}]\nagent = "script"\ntransport = "tmux"\nprompt = "[[say:{} was here]]"\n'
    with own_tmux(shell.folder.parent / "state"):
        code, _, nodes = run(shell, node.format("hen", "hen") + node.format("cock", "cock"))
        assert (code, results(nodes)) == (0, {"hen": ("done", "hen was here"), "cock": ("done", "cock was here")})
        sessions = [session for row in nodes.values() for session in row["sessions"].values()]
        assert sorted(panes(shell.folder.parent / "state")) == sorted(sessions)


def test_gates_wait_for_a_person_who_may_change_prompt_and_answer(shell: Shell) -> None:
    text = """
        [nodes.plan]
        agent = "claude"
        prompt = "[[say:first idea]]"
        [nodes.write]
        agent = "codex"
        needs = ["plan"]
        prompt = "[[say:wrote {{ nodes.plan.text }}]]"
        """
    going = shell.start("pipeline", "run", flow(shell, text), "--mode", "manual", "--json")
    assert "Run plan?" in wait_for_gate(shell, "plan")["question"]
    assert shell("pipeline", "approve", "last", "write").returncode == 2  # it is not its turn
    assert shell("pipeline", "approve", "last", "plan", "--prompt", "[[say:better idea]]").returncode == 0
    assert "wrote better idea" in wait_for_gate(shell, "write")["question"]
    assert shell("pipeline", "approve", "last", "write", "--answer", "as I say").stdout == "write is approved\n"
    told = json.loads(going.communicate()[0])
    assert (going.returncode, [row["result"]["text"] for row in told["nodes"]]) == (0, ["better idea", "as I say"])


def test_a_command_and_all_items_are_shown_before_they_run(shell: Shell) -> None:
    text = """
        mode = "manual"
        [inputs]
        where = "the farm"
        [nodes.deploy]
        command = ["echo", "to", "{{ inputs.where }}"]
        [nodes.look]
        agent = "claude"
        each = ["hay", "oats"]
        prompt = "[[say:looked at {{ item }}]]"
        needs = ["deploy"]
        [nodes.refused]
        command = ["touch", "{{ item }}"]
        each = ["a", "b"]
        needs = ["look"]
        """
    going = shell.start("pipeline", "run", flow(shell, text), "--json")
    assert wait_for_gate(shell, "deploy")["question"] == "Run deploy?\n\n    echo to 'the farm'"
    assert shell("pipeline", "approve", "last", "deploy").returncode == 0
    asked = wait_for_gate(shell, "look")["question"]
    assert asked == "Run look for each of these?\n\n1. [[say:looked at hay]]\n\n2. [[say:looked at oats]]"
    going.kill()
    going.communicate()
    going = shell.start("pipeline", "resume", "last", "--json")
    wait_for_gate(shell, "look")
    assert shell("pipeline", "approve", "last", "look", "--prompt", "[[say:saw {{ item }}]]").returncode == 0
    asked = wait_for_gate(shell, "refused")["question"]
    assert asked == "Run refused for each of these?\n\n    touch a\n\n    touch b"
    assert shell("pipeline", "approve", "last", "refused", "--deny").returncode == 0
    nodes = {row["node"]: row for row in json.loads(going.communicate()[0])["nodes"]}
    assert results(nodes) == {
        "deploy": ("done", "to the farm"),
        "look": ("done", "saw hay\n\nsaw oats"),
        "refused": ("cancelled", ""),
    }
    assert not (shell.folder / "a").exists()


def test_whoever_runs_it_is_shown_what_a_gate_asks_and_how_to_answer(shell: Shell) -> None:
    text = """
        [inputs]
        what = "the parser"
        [nodes.ship]
        gate = "Ship {{ inputs.what }}?"
        """
    going = shell.start("pipeline", "run", flow(shell, text))
    row = wait_for_gate(shell, "ship")
    assert row["question"] == "Ship the parser?"
    assert shell("pipeline", "approve", "last", "ship").returncode == 0
    out = going.communicate()[0].decode()
    assert f"ship · waits for you\n    Ship the parser?\n    answer: ostler pipeline approve {row['run']} ship" in out


def test_a_run_is_cancelled_from_another_process_with_all_that_it_started(shell: Shell) -> None:
    text = """
        [nodes.long]
        agent = "claude"
        prompt = "[[say:begun]] [[never_end]]"
        [nodes.command]
        command = ["sleep", "600"]
        [nodes.after]
        command = ["true"]
        needs = ["long"]
        """
    going = shell.start("pipeline", "run", flow(shell, text), "--json")

    def both_run() -> bool:
        with Store.open(shell.environ["OSTLER_HOME"]) as store:
            states = {row.turn.agent: row.state for row in store.running_turns()}
            return states.get("claude") == "running" and "exec" in states

    wait_until(both_run)
    assert "is being cancelled" in shell("pipeline", "cancel").stdout
    told = json.loads(going.communicate()[0])
    assert (going.returncode, told["run"]["state"]) == (130, "cancelled")
    assert {row["node"]: row["state"] for row in told["nodes"]} == {
        "long": "cancelled",
        "command": "cancelled",
        "after": "cancelled",
    }
    assert "has ended already" in shell("pipeline", "cancel").stdout
    assert shell("pipeline", "resume", "last").returncode == 2


# -- kill -9

TWELVE = "".join(
    f"""
    [nodes.n{n}]
    {'needs = ["' + '", "'.join(f"n{m}" for m in (n - 3, n - 2) if m >= 1) + '"]' if n > 2 else ""}
    """
    + (
        f'agent = "claude"\n    prompt = "[[say:begun {n}]] [[wait:0.05]] [[say:said {n}]]"\n'
        if n % 2
        else f'command = ["sh", "-c", "echo {n} >> done; echo said {n}"]\n'
    )
    for n in range(1, 13)
)


@pytest.mark.parametrize("seed", range(int(os.environ.get("OSTLER_PIPELINE_KILLS", "2"))))
@pytest.mark.parametrize("steps", ["sqlite", pytest.param("postgres", marks=needs("postgres"))])
def test_a_run_that_is_killed_goes_on_and_repeats_nothing_that_was_finished(
    shell: Shell, seed: int, steps: str, request: pytest.FixtureRequest
) -> None:
    """OSTLER_PIPELINE_KILLS=100 kills at as many instants: after so many nodes have ended, and a moment more."""
    dice = random.Random(seed)
    address = request.getfixturevalue("database") if steps == "postgres" else ""
    going = start_shared(shell, address) if address else shell.start("pipeline", "run", flow(shell, TWELVE))
    finished, moment = dice.randrange(0, 13), dice.random() * 0.3
    with Store.open(shell.environ["OSTLER_HOME"]) as store:
        runs = Runs(store)
        wait_until(lambda: runs.list() and len(_ended(runs)) >= finished)
        time.sleep(moment)  # the instant itself
        going.send_signal(signal.SIGKILL)
        going.communicate()
        before, was = _ended(runs), runs.find("last").state
    if address and was != "done":
        refused = shell("pipeline", "resume", "last", env={"OSTLER_JOIN": ""})
        assert refused.returncode == 2 and "are in the Postgres of the machines" in refused.stderr
    resumed = shell("pipeline", "resume", "last", "--json")
    assert resumed.returncode == (2 if was == "done" else 0), resumed.stderr
    told = json.loads(shell("pipeline", "show", "--json").stdout)
    assert told["run"]["state"] == "done"
    after = {row["node"]: row["result"] for row in told["nodes"]}
    assert {name: result["state"] for name, result in after.items()} == {f"n{n}": "done" for n in range(1, 13)}
    assert all(result["text"].strip().endswith(f"said {name[1:]}") for name, result in after.items())
    assert {name: after[name]["turn"] for name in before} == before  # the very same turns: they were not run again
    written = (shell.folder / "done").read_text().split()
    assert [n for n in written if f"n{n}" in before and written.count(n) > 1] == []
    _nothing_left(shell)
    if address:
        _told_to_all(address, told)
        if was != "done":  # else it was killed just when it had ended
            _no_steps_left(address)


def start_shared(shell: Shell, address: str) -> "subprocess.Popen[bytes]":
    """A run that all machines know of, as the server of a machine that has joined starts it."""
    made = parse_pipeline("flow.toml", TWELVE)

    async def shared(store: Store) -> RunRow:
        directory = Directory(address)
        await directory.prepare()
        index = RunIndex(directory)
        await index.prepare()
        me = await machine_id(store)
        row = structs.replace(Runs(store).new(made, str(shell.folder), {}), fence=1)
        body = msgspec.json.encode(row)
        assert await index.add(IndexedRun(id=row.id, machine=me, fence=1, body=body, created_at=row.created_at))
        await directory.close()
        return await Runs(store).add(row)

    with Store.open(shell.environ["OSTLER_HOME"]) as store:
        run = asyncio.run(shared(store))
    shell.environ["OSTLER_JOIN"] = address
    return shell.start("pipeline", "resume", run.id)


def _told_to_all(address: str, told: dict[str, Any]) -> None:
    """The index has the run and its nodes as they ended."""
    with psycopg.connect(address) as db:
        assert db.execute("SELECT state, fence FROM ostler.runs").fetchall() == [("done", 1)]
        kept = [json.loads(body) for (body,) in db.execute("SELECT body FROM ostler.run_nodes")]
        assert {row["node"]: row["result"] for row in kept} == {row["node"]: row["result"] for row in told["nodes"]}


def _no_steps_left(address: str) -> None:
    """DBOS has nothing of a run that has ended."""
    with psycopg.connect(address) as db:
        assert db.execute(f"SELECT count(*) FROM {SCHEMA}.workflow_status").fetchone() == (0,)
        assert db.execute(f"SELECT count(*) FROM {SCHEMA}.application_versions").fetchone() == (0,)


@needs("postgres")
def test_the_steps_of_a_run_that_was_cancelled_without_a_process_are_swept(
    shell: Shell, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue("database")
    going = start_shared(shell, address)
    with Store.open(shell.environ["OSTLER_HOME"]) as store:
        wait_until(lambda: len(_ended(Runs(store))) >= 2)
    going.kill()
    going.communicate()

    async def swept() -> int:
        directory = Directory(address)
        await sweep_steps(directory)
        async with directory.asked() as db:
            query = f"SELECT count(*) FROM {SCHEMA}.workflow_status, {SCHEMA}.operation_outputs"
            ((left,),) = await (await db.execute(query)).fetchall()
        await directory.close()
        return int(left)

    assert asyncio.run(swept()) > 0  # it may go on
    with psycopg.connect(address) as db:
        db.execute("UPDATE ostler.runs SET state = 'cancelled'")
    assert asyncio.run(swept()) == 0
    _no_steps_left(address)


def test_a_run_that_was_killed_while_dbos_made_its_tables_begins(shell: Shell) -> None:
    """As in a run that was killed so: its first tables were there, and could not be made again."""
    made = parse_pipeline("flow.toml", '[nodes.a]\ncommand = ["echo", "hi"]\n')
    with Store.open(shell.environ["OSTLER_HOME"]) as store:
        run = asyncio.run(Runs(store).add(Runs(store).new(made, str(shell.folder), {})))
        kept = Runs(store).folder(run.id) / "dbos.sqlite"
    with contextlib.closing(sqlite3.connect(kept)) as db:
        db.execute("CREATE TABLE dbos_migrations (version INTEGER NOT NULL PRIMARY KEY)")
        db.execute("CREATE TABLE workflow_status (workflow_uuid TEXT PRIMARY KEY)")
    resumed = shell("pipeline", "resume", "last", "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["nodes"][0]["result"]["text"] == "hi\n"


def _ended(runs: Runs) -> dict[str, str]:
    """The nodes of the last run that have a result, and their turns."""
    rows = runs.nodes(runs.find("last").id).values()
    return {row.node: row.result.turn for row in rows if row.result is not None}


def _nothing_left(shell: Shell) -> None:
    """No orphan, no open turn, and each journal without a gap."""
    with Store.open(shell.environ["OSTLER_HOME"]) as store:
        assert store.running_turns() == []
        for session in store.sessions():
            seqs = [event.seq for event in store.events(session.id)]
            assert seqs == list(range(1, len(seqs) + 1))
            for turn in store.turns(session.id):
                assert tree.marked(turn.id) == []
        assert [owner for owner in store.owners() if alive(owner)] == []


def test_dbos_is_not_imported_unless_a_pipeline_runs(shell: Shell) -> None:
    script = (
        "import sys\nfrom ostler.cli import main\n"
        "try: main(['pipeline', 'check', 'review'])\n"
        "finally: print([m for m in ('dbos', 'sqlalchemy') if m in sys.modules], file=sys.stderr)"
    )
    env = {**os.environ, "HOME": str(shell.folder)}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=env)
    assert ran.stderr == "[]\n" and ran.stdout.startswith("review: 4 nodes")
