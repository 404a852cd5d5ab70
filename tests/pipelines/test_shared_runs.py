"""A run of a machine that has joined others: whether it is still that machine's."""

from pathlib import Path
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.machines.run_index import RunMoved
from ostler.pipelines.model import Node, Pipeline, RunRow
from ostler.pipelines.shared_runs import SharedRuns
from ostler.store import Store

PIPELINE = Pipeline(name="flow", nodes=(Node(name="a", gate="?"),))
RUN = RunRow(id="r1", pipeline=PIPELINE, folder="/w", created_at=1.0, fence=1)


class _Index:
    """Stands for Postgres, which is away at first; then another machine has the run."""

    def __init__(self) -> None:
        self.answers: list[Exception] = [OstlerError("store", "Postgres is away"), RunMoved("r1", "owl")]

    async def check(self, *_: Any) -> None:
        raise self.answers.pop(0)


async def test_what_keeps_it_from_looking_is_logged_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Store.open(tmp_path) as store:
        runs = SharedRuns(store, _Index(), RUN)  # type: ignore[arg-type]
        assert (await runs.until_moved()).machine == "owl"
    assert "looking whether run r1 is still ours failed: Postgres is away" in caplog.text
