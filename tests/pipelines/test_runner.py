"""One run within this process: what its background loop does when a look fails."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.pipelines.model import Node, Pipeline
from ostler.pipelines.runner import PipelineRunner
from ostler.pipelines.runs import Runs
from ostler.store import Store
from ostler.testing.launched import ScriptedAgent
from waiting import until
from work.scripted import Stable


async def test_a_look_that_fails_is_logged_and_a_cancel_is_seen_by_the_next(
    tmp_path: Path,
    scripted_agent: ScriptedAgent,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stable = Stable(tmp_path, scripted_agent)
    pipeline = Pipeline(name="flow", nodes=(Node(name="ship", gate="Ship it?"),))
    async with stable.ostler() as o:
        runs = Runs(o.store)
        row = await runs.add(runs.new(pipeline, str(stable.folder), {}))
        runner = PipelineRunner(o, row, server=None)  # type: ignore[arg-type]  # no node has `on`
        look, failures = runner._runs.state, [OstlerError("store", "the disk is away")]

        def state(id: str) -> Any:
            if failures:
                raise failures.pop()
            return look(id)

        monkeypatch.setattr(runner._runs, "state", state)
        running = asyncio.create_task(runner.run())
        await until(lambda: runs.nodes(row.id).get("ship") is not None and runs.node(row.id, "ship").state == "gate")
        await until(lambda: not failures)
        with Store.open(o.store.folder) as other:
            await Runs(other).change(row.id, state="cancelling")
        assert (await running).state == "cancelled"
    assert f"looking whether run {row.id} is cancelled failed: the disk is away" in caplog.text
