"""Runs of pipelines and their nodes as they are told to people and programs."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from ostler.machines.run_index import IndexedRun
from ostler.pipelines.model import Input, Mode, Node, NodeKind, NodeResult, NodeRow, NodeState, Pipeline, RunRow
from ostler.pipelines.runs import ShownState, shown_state
from ostler.server.open_asks import first_line
from ostler.store.watch import StoreWatch

_OVER = ("done", "failed", "cancelled")
_LONG = 200_000  # characters of a text or diff
_ERROR = 300

_run = msgspec.json.Decoder(RunRow).decode
_node = msgspec.json.Decoder(NodeRow).decode


class NodeItemView(Struct, frozen=True, kw_only=True):
    """One item of a node that runs for each of a list, once it has ended."""

    number: int  # from 1
    state: NodeState
    session: str
    turn: str
    cost_usd: float | None
    duration_ms: int
    error: str


class NodeView(Struct, frozen=True, kw_only=True):
    """A node of a run. `what`: its prompt, command or question in one line, as the file has it.

    `session` and `turn`: the newest that it works or worked in; empty for a gate, and before it begins.
    """

    name: str
    kind: NodeKind
    agent: str  # or a profile; empty for commands and gates
    on: str  # the machine or labels that the file names for it; "": it runs where the run is
    what: str
    needs: tuple[str, ...]
    manual: bool  # it waits for a person's go
    each: bool  # it runs for each item of a list
    rounds: int  # so often at most, where it loops; else 0
    state: NodeState
    started_at: float | None
    ended_at: float | None
    duration_ms: int | None
    cost_usd: float | None
    session: str
    turn: str
    machine: str  # that ran it, once it has ended; "": the one that has the run
    error: str
    added: int  # lines of its diff
    removed: int
    tries: int
    items: tuple[NodeItemView, ...]


class NodeDetail(NodeView, frozen=True, kw_only=True):
    """A node with all that is known of it. `question`: what a person is asked, filled in. Texts are cut when long.

    `proposed`: the prompt that a node would run with once a person lets it go on.
    """

    prompt: str  # as the file has it
    when: str
    question: str
    proposed: str
    text: str
    summary: str
    structured: Any
    diff: str
    folder: str
    notices: tuple[str, ...]
    approved_by: str


class RunView(Struct, frozen=True, kw_only=True):
    """A run of a pipeline. `interrupted`: the process that ran it has died, and it can be resumed. `waiting`: no
    machine has it yet, and `error` says why. `moved`: another machine has gone on with it."""

    id: str
    pipeline: str
    description: str
    folder: str
    mode: Mode
    state: ShownState
    created_at: float
    ended_at: float | None
    error: str
    fork_of: str | None
    inputs: dict[str, str]
    cost_usd: float | None  # of the nodes that have ended
    cost_limit_usd: float | None
    gates: int  # nodes that wait for a person
    nodes: tuple[NodeView, ...]
    machine: str = ""  # that has it; "": the one that was asked
    reachable: bool = True  # whether that machine answers; if not, this is what was last known


class PipelineNodeView(Struct, frozen=True, kw_only=True):
    name: str
    kind: NodeKind
    agent: str
    what: str
    needs: tuple[str, ...]


class PipelineView(Struct, frozen=True, kw_only=True):
    """A pipeline that can be started."""

    name: str
    description: str
    mode: Mode
    inputs: dict[str, Input]
    nodes: tuple[PipelineNodeView, ...]


def pipeline_view(pipeline: Pipeline) -> PipelineView:
    nodes = tuple(
        PipelineNodeView(name=node.name, kind=node.kind, agent=node.agent, what=_what(node), needs=node.needs)
        for node in pipeline.nodes
    )
    return PipelineView(
        name=pipeline.name,
        description=pipeline.description,
        mode=pipeline.mode,
        inputs=pipeline.inputs,
        nodes=nodes,
    )


def run_views(watch: StoreWatch, ids: Iterable[str]) -> list[RunView]:
    """The oldest first; those that are gone are left out. Three questions to the store, however many there are."""
    found = [(_run(body), {row.node: row for row in map(_node, nodes)}) for body, nodes in watch.runs(ids)]
    working = [_session(row) for _, nodes in found for row in nodes.values() if row.result is None and _session(row)]
    turns = {session: turn.id for session, turn in watch.current_turns(working).items()} if working else {}
    return [run_view(run, nodes, turns) for run, nodes in found]


def run_view(run: RunRow, nodes: Mapping[str, NodeRow], turns: Mapping[str, str]) -> RunView:
    """`turns`: of the sessions that work, those that they work at. Pure."""
    views = tuple(node_view(run, node, nodes.get(node.name), turns) for node in run.pipeline.nodes)
    costs = [view.cost_usd for view in views if view.cost_usd is not None]
    return RunView(
        id=run.id,
        pipeline=run.pipeline.name,
        description=run.pipeline.description,
        folder=run.folder,
        mode=run.pipeline.mode,
        state=shown_state(run),
        created_at=run.created_at,
        ended_at=run.ended_at,
        error=run.error,
        fork_of=run.fork_of,
        inputs=run.inputs,
        cost_usd=sum(costs) if costs else None,
        cost_limit_usd=run.pipeline.cost_usd,
        gates=sum(view.state == "gate" for view in views),
        nodes=views,
    )


def indexed_view(run: IndexedRun, nodes: Iterable[bytes]) -> RunView:
    """As the index of all machines has it."""
    return run_view(_run(run.body), {row.node: row for row in map(_node, nodes)}, {})


def node_view(run: RunRow, node: Node, stored: NodeRow | None, turns: Mapping[str, str]) -> NodeView:
    row = stored or NodeRow(run=run.id, node=node.name)
    result = row.result or NodeResult(state=row.state)
    session = result.session or _session(row)
    added, removed = _changed_lines(result.diff)
    return NodeView(
        name=node.name,
        kind=node.kind,
        agent=node.agent,
        on=node.on,
        what=_what(node),
        needs=node.needs,
        manual=(node.mode or run.pipeline.mode) == "manual" and not node.gate,
        each=bool(node.each),
        rounds=node.loop.times if node.loop else 0,
        state=_state(run, row),
        started_at=row.started_at,
        ended_at=row.ended_at,
        duration_ms=_duration(row),
        cost_usd=result.cost_usd,
        session=session,
        turn=result.turn or turns.get(session, ""),
        machine=result.machine,
        error=result.error[:_ERROR],
        added=added,
        removed=removed,
        tries=result.tries,
        items=tuple(_item(number, item) for number, item in enumerate(result.items, 1)),
    )


def node_detail(run: RunRow, node: Node, stored: NodeRow | None, turns: Mapping[str, str]) -> NodeDetail:
    from ostler.pipelines.approvals import proposed_prompt

    row = stored or NodeRow(run=run.id, node=node.name)
    result = row.result or NodeResult(state=row.state)
    seen = structs.asdict(node_view(run, node, row, turns)) | {"error": result.error}
    return NodeDetail(
        **seen,
        prompt=node.prompt or node.gate or shlex.join(node.command),
        when=node.when,
        question=row.question,
        proposed=proposed_prompt(node, row.question),
        text=result.text[:_LONG],
        summary=result.summary,
        structured=result.structured,
        diff=result.diff[:_LONG],
        folder=result.folder,
        notices=result.notices,
        approved_by=row.approval.by if row.approval and row.approval.go else "",
    )


def _state(run: RunRow, row: NodeRow) -> NodeState:
    """A run that was cancelled after its process died has nodes that nobody ended."""
    return "cancelled" if run.state in _OVER and row.result is None else row.state


def _what(node: Node) -> str:
    return first_line(node.prompt or node.gate or shlex.join(node.command))


def _session(row: NodeRow) -> str:
    return next(filter(None, reversed(row.sessions.values())), "")


def _duration(row: NodeRow) -> int | None:
    if row.started_at is None or row.ended_at is None:
        return None
    return round(1000 * (row.ended_at - row.started_at))


def _changed_lines(diff: str) -> tuple[int, int]:
    lines = diff.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
    return added, sum(line.startswith("-") and not line.startswith("--- ") for line in lines)


def _item(number: int, result: NodeResult) -> NodeItemView:
    return NodeItemView(
        number=number,
        state=result.state,
        session=result.session,
        turn=result.turn,
        cost_usd=result.cost_usd,
        duration_ms=result.duration_ms,
        error=result.error[:_ERROR],
    )
