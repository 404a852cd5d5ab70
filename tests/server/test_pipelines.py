"""Pipelines over HTTP: checked, started, followed, answered, cancelled, resumed and forked, each by who may."""

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ostler.pipelines.runs import Runs
from server.conftest import Yard, yard_at
from waiting import until

pytestmark = pytest.mark.timeout(300)

GATED = """
name = "gated"
[inputs]
word = "hay"
[nodes.ask]
gate = "Feed {{ inputs.word }}?"
[nodes.feed]
command = ["echo", "fed with {{ nodes.ask.text }}"]
needs = ["ask"]
"""


async def start(yard: Yard, text: str, **more: Any) -> dict[str, Any]:
    body = {"folder": str(yard.folder), "text": text, **more}
    answer = await yard.client.post("/api/runs", json=body)
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


async def reached(yard: Yard, run: str, state: str, node: str = "") -> dict[str, Any]:
    """The run, once it or one of its nodes is in this state."""

    async def look() -> dict[str, Any] | None:
        view: dict[str, Any] = (await yard.client.get(f"/api/runs/{run}")).json()
        nodes = {each["name"]: each for each in view["nodes"]}
        return view if (nodes[node] if node else view)["state"] == state else None

    found: dict[str, Any] = await until(look)
    return found


def nodes(view: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in view["nodes"]}


async def test_a_gate_is_answered_with_words_that_the_next_node_reads(yard: Yard) -> None:
    begun = await start(yard, GATED, inputs={"word": "oats"})
    assert begun["state"] == "running" and begun["inputs"] == {"word": "oats"}
    view = await reached(yard, begun["id"], "gate", "ask")
    assert view["gates"] == 1 and nodes(view)["feed"]["state"] == "waiting"
    detail = (await yard.client.get(f"/api/runs/{begun['id']}/nodes/ask")).json()
    assert detail["question"] == "Feed oats?"
    path = f"/api/runs/{begun['id']}/nodes/ask/answer"
    assert (await yard.client.post(path, json={"go": False, "answer": "x"})).status_code == 400
    assert (await yard.client.post(path, json={"go": True, "answer": "barley"})).status_code == 200
    done = await reached(yard, begun["id"], "done")
    fed = nodes(done)["feed"]
    session = (await yard.client.get(f"/api/sessions/{fed['session']}")).json()
    assert session["turn"]["id"] == fed["turn"] and fed["duration_ms"] is not None
    told = (await yard.client.get(f"/api/runs/{begun['id']}/nodes/feed")).json()
    assert told["text"].strip() == "fed with barley"
    assert nodes(done)["ask"]["state"] == "done"
    again = await yard.client.post(path, json={"go": True})
    assert again.status_code == 400 and "there is nothing to answer" in again.json()["detail"]
    report = await yard.client.get(f"/api/runs/{begun['id']}/report")
    assert report.headers["content-type"].startswith("text/markdown") and "fed with barley" in report.text
    page = await yard.client.get(f"/api/runs/{begun['id']}/report", params={"html": "true"})
    assert page.text.startswith("<!doctype html>") and "attachment" in page.headers["content-disposition"]
    listed = (await yard.client.get("/api/runs")).json()["items"]
    assert [each["id"] for each in listed if each["id"] == begun["id"]] == [begun["id"]]
    await fork_it(yard, begun["id"])


async def fork_it(yard: Yard, run: str) -> None:
    """A run that takes over the gate, and feeds again."""
    refused = await yard.client.post(f"/api/runs/{run}/fork", json={"node": "none"})
    assert refused.status_code == 404 and refused.json()["hint"] == "It has: ask, feed"
    forked = (await yard.client.post(f"/api/runs/{run}/fork", json={"node": "feed"})).json()
    assert forked["fork_of"] == run
    done = await reached(yard, forked["id"], "done")
    assert nodes(done)["feed"]["session"]


@pytest.mark.long
async def test_a_run_whose_process_dies_is_interrupted_and_goes_on_with_the_answer(yard: Yard) -> None:
    begun = await start(yard, GATED)
    await reached(yard, begun["id"], "gate", "ask")
    runs = Runs(yard.ostler.store)
    busy = await yard.client.post(f"/api/runs/{begun['id']}/resume")
    assert busy.status_code == 409
    for resumed in (False, True):
        owner = yard.ostler.store.owner(runs.find(begun["id"]).owner or "")
        assert owner is not None
        os.kill(owner.pid, signal.SIGKILL)
        await reached(yard, begun["id"], "interrupted")
        if not resumed:
            assert (await yard.client.post(f"/api/runs/{begun['id']}/resume")).status_code == 202
            await until(lambda: runs.find(begun["id"]).owner not in (None, yard.ostler.desk.id))
    denied = await yard.client.post(f"/api/runs/{begun['id']}/nodes/ask/answer", json={"go": False})
    assert denied.status_code == 200
    over = await reached(yard, begun["id"], "cancelled")
    assert nodes(over)["ask"]["error"] == "denied by tester"
    assert (await yard.client.post(f"/api/runs/{begun['id']}/resume")).status_code == 400


async def test_those_who_watch_are_told_and_a_cancel_ends_what_runs(yard: Yard) -> None:
    text = '[nodes.long]\ncommand = ["sleep", "1000"]\n'
    async with yard.client.stream("GET", "/api/live") as stream:
        lines = stream.aiter_lines()
        begun = await start(yard, text)
        view = await told(lines, begun["id"], "running")
        while not (long := nodes(view)["long"])["session"]:  # a command has its session as soon as it runs
            view = await told(lines, begun["id"], "running")
        assert long["state"] == "running" and long["kind"] == "command"
        assert (await yard.client.post(f"/api/runs/{begun['id']}/cancel")).status_code == 202
        view = await told(lines, begun["id"], "cancelled")
        assert nodes(view)["long"]["state"] == "cancelled"
    ended = await yard.client.post(f"/api/runs/{begun['id']}/cancel")
    assert (ended.status_code, ended.json()["state"]) == (202, "cancelled")


async def told(lines: AsyncIterator[str], run: str, state: str) -> dict[str, Any]:
    """The next that /api/live tells of the run in this state."""
    kind = ""
    async for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: ") and kind == "run":
            view: dict[str, Any] = json.loads(line.removeprefix("data: "))
            if (view["id"], view["state"]) == (run, state):
                return view
    raise AssertionError("the stream ended")


async def test_what_is_wrong_with_a_pipeline_is_told_with_its_line(yard: Yard) -> None:
    listed = (await yard.client.get("/api/pipelines")).json()["items"]
    assert [each["name"] for each in listed] == ["compare", "fix", "review"]

    async def check(**body: Any) -> Any:
        return await yard.client.post("/api/pipelines/check", json={"folder": str(yard.folder), **body})

    assert [node["name"] for node in (await check(text=GATED)).json()["nodes"]] == ["ask", "feed"]
    (yard.folder / "flow.toml").write_text('[nodes.b]\nagent = "claude"\nprompt = "{{ nodes.plan.text }}"\n')
    (yard.folder / "flow.py").write_text("raise SystemExit\n")
    wrong = await check(file="flow.toml")
    assert wrong.status_code == 400 and wrong.json()["detail"].startswith("flow.toml:3: nodes.b.prompt:")
    for body, status in (
        ({"file": "flow.py"}, 422),
        ({"file": "../home/x.toml"}, 403),
        ({"example": "nothing"}, 404),
        ({}, 400),
        ({"example": "review", "text": GATED}, 400),
    ):
        assert (await check(**body)).status_code == status, body
    start = {"folder": str(yard.folder), "example": "fix"}
    missing = await yard.client.post("/api/runs", json=start)
    assert missing.status_code == 400 and "fix needs the input task" in missing.json()["detail"]


async def test_who_may_only_view_starts_and_answers_nothing(yard: Yard) -> None:
    async with yard.as_("view") as viewer:
        assert (await viewer.get("/api/runs")).status_code == 200
        assert (await viewer.get("/api/pipelines")).status_code == 200
        body = {"folder": str(yard.folder), "text": GATED}
        assert (await viewer.post("/api/runs", json=body)).status_code == 403
        for act in ("cancel", "resume", "fork", "nodes/ask/answer"):
            assert (await viewer.post(f"/api/runs/last/{act}", json={})).status_code == 403
    async with yard.as_(None) as nobody:
        assert (await nobody.get("/api/runs")).status_code == 401


async def test_a_server_that_stops_leaves_the_run_to_be_resumed(tmp_path: Path) -> None:
    async with yard_at(tmp_path) as first:
        begun = await start(first, GATED)
        await reached(first, begun["id"], "gate", "ask")
        owner = first.ostler.store.owner(Runs(first.ostler.store).find(begun["id"]).owner or "")
        assert owner is not None
    assert not Path(f"/proc/{owner.pid}").exists()
    async with yard_at(tmp_path) as second:
        view = await reached(second, begun["id"], "interrupted")
        assert nodes(view)["ask"]["state"] == "gate"
