"""Why nobody has a run, and each run once in a list of all machines."""

from typing import Any

import msgspec
from msgspec import structs

from machines.test_placement import machine
from ostler.machines.run_index import IndexedRun, RunWants
from ostler.pipelines.model import NodeResult, NodeRow, RunRow
from ostler.pipelines.parse import parse_pipeline
from ostler.server.remote_sessions import merged_runs
from ostler.server.run_queue import why_nobody
from ostler.server.run_views import indexed_view

FLOW = parse_pipeline("x.toml", '[nodes.a]\ncommand = ["true"]\nworktree = true\n')
ROW = RunRow(id="r1", pipeline=FLOW, folder="/x", created_at=1.0)


def indexed(**more: Any) -> IndexedRun:
    given = {"body": msgspec.json.encode(ROW), "wants": RunWants(labels=("gpu",), version="1"), **more}
    return IndexedRun(id="r1", created_at=1.0, **given)


def test_a_run_waits_until_a_machine_fits() -> None:
    assert why_nobody(indexed(), [machine("owl")], []) == "no machine fits (owl: it has no label gpu)"
    assert why_nobody(indexed(), [machine("owl"), machine("hawk", labels=("gpu",))], []) == ""


def test_why_nobody_goes_on_with_the_run_of_a_machine_that_is_away() -> None:
    fits = [machine("owl", labels=("gpu",))]
    lost = {"machine": "h", "machine_name": "hawk", "lost": True}
    alone = "it resumes when machine hawk is back: its pipeline does not set takeover = true"
    assert why_nobody(indexed(**lost), fits, []) == alone
    assert why_nobody(indexed(**lost, takeover=True), fits, []) == ""
    begun = msgspec.json.encode(NodeRow(run="r1", node="a", started_at=1.0, result=NodeResult(state="done")))
    branch = "it resumes when machine hawk is back: what a did is in a git worktree or branch of that machine"
    assert why_nobody(indexed(**lost, takeover=True), fits, [begun]) == branch
    assert why_nobody(indexed(**lost, takeover=True), [], []) == "no machine fits (there is none)"


def test_each_run_is_listed_once_as_the_machine_tells_it_that_has_it() -> None:
    told = indexed_view(indexed(), [])
    moved = structs.replace(told, state="moved")
    away = structs.replace(told, machine="hawk", reachable=False, state="interrupted")
    here = structs.replace(told, machine="owl", state="running")
    other = structs.replace(away, id="r2")
    assert merged_runs([moved, away, other, here]) == [here, other]
    assert merged_runs([moved]) == [moved]  # nobody else answers
