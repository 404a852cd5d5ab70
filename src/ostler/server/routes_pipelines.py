"""Pipelines over HTTP: check and start them, follow their runs, answer their gates."""

from typing import Annotated

from msgspec import Meta, Struct, field, structs

from ostler.errors import OstlerError, quoted
from ostler.machines.membership import Membership
from ostler.machines.run_index import IndexedRun
from ostler.pipelines.model import Approval, Mode, Pipeline, RunRow
from ostler.server.auth import Person
from ostler.server.live import Live
from ostler.server.remote_sessions import RemoteSessions, merged_runs
from ostler.server.replies import Reply
from ostler.server.request_body import RequestBody
from ostler.server.routes_sessions import absolute
from ostler.server.routing import Routes
from ostler.server.run_processes import RunProcesses
from ostler.server.run_views import (
    NodeDetail,
    PipelineView,
    RunView,
    node_detail,
    pipeline_view,
    run_views,
)
from ostler.store.beneath import open_beneath
from ostler.work import Ostler
from ostler.work.turns.checks import check_folder

# What reads and writes pipelines is imported where it is used: the first answer of a server must not wait for it.

MARKDOWN, HTML = "text/markdown", "text/html"

Words = Annotated[str, Meta(max_length=65_536)]  # however they are escaped, a body may be so long
PathText = Annotated[str, Meta(min_length=1, max_length=4096)]
InputName = Annotated[str, Meta(max_length=100)]

pipelines = Routes("pipelines")


class PipelineSource(RequestBody, frozen=True, kw_only=True):
    """One of: `example` (one that ships with ostler), `file` (TOML, relative to `folder`), or `text` (TOML)."""

    folder: PathText
    example: Annotated[str, Meta(max_length=100)] | None = None
    file: PathText | None = None
    text: Words | None = None


class NewRun(PipelineSource, frozen=True, kw_only=True):
    """`folder`: where it works, an absolute path, or one that begins with `~/`. `mode`, `takeover`: instead of the
    file's own. With `machine` (a name, or `any`) or `labels` it waits for a machine that fits."""

    inputs: Annotated[dict[InputName, Words], Meta(max_length=100)] = field(default_factory=dict)
    mode: Mode | None = None
    takeover: bool | None = None
    machine: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    labels: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=100)], ...], Meta(max_length=20)] = ()


class GateAnswer(RequestBody, frozen=True, kw_only=True):
    """`go`: whether it goes on. `answer`: of a gate, what the nodes after it read; of a node, its result instead of
    running it. `prompt`: what a node runs with instead of its own."""

    go: bool
    answer: Words | None = None
    prompt: Words | None = None


class RunForkRequest(RequestBody, frozen=True, kw_only=True):
    """The new run takes over the results of the old one, but for `node` and what needs it. `prompt`: another one."""

    node: Annotated[str, Meta(min_length=1, max_length=100)]
    prompt: Words | None = None


class PipelineList(Struct, frozen=True, kw_only=True):
    items: list[PipelineView]


class RunList(Struct, frozen=True, kw_only=True):
    items: list[RunView]


# -- pipelines ----------------------------------------------------------------------------------------


@pipelines("GET /api/pipelines", "The pipelines that ship with ostler")
async def list_pipelines() -> PipelineList:
    from ostler.pipelines.load import examples
    from ostler.pipelines.parse import parse_pipeline

    found = sorted(examples().items())
    return PipelineList(items=[pipeline_view(parse_pipeline(f"{name}.toml", text)) for name, text in found])


@pipelines("POST /api/pipelines/check", "Checks a whole pipeline without running it", status=200)
async def check_pipeline_source(ostler: Ostler, data: PipelineSource) -> PipelineView:
    """What is wrong is told with its line (400). Files are TOML; one in Python is run by `ostler pipeline run`."""
    return pipeline_view(_load(data, _folder(ostler, data)))


# -- runs ---------------------------------------------------------------------------------------------


@pipelines("GET /api/runs", "Runs of pipelines on all machines, the newest first")
async def list_runs(
    watcher: Live,
    run_processes: RunProcesses,
    person: Person,
    remote_sessions: RemoteSessions | None,
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100,
) -> RunList:
    views = run_views(watcher.watch, watcher.watch.newest_runs(limit))[::-1]
    if remote_sessions is not None and run_processes.queue is not None and not person.via:
        waiting = await run_processes.queue.waiting(limit)
        views = merged_runs([*views, *await remote_sessions.listed_runs(person, limit), *waiting])
        views.sort(key=lambda view: view.created_at, reverse=True)
    return RunList(items=views[:limit])


@pipelines(
    "POST /api/runs", "Starts a run of a pipeline, in a process of its own", status=202, problems=(404, 409, 422, 429)
)
async def start_run(
    ostler: Ostler, watcher: Live, run_processes: RunProcesses, membership: Membership | None, data: NewRun
) -> RunView:
    """A node whose machine has not joined is an error (422)."""
    from ostler.pipelines.inputs import complete_inputs

    folder = _folder(ostler, data)
    found = _load(data, folder)
    _check_places(found, membership)
    found = structs.replace(found, mode=data.mode) if data.mode else found
    found = structs.replace(found, takeover=data.takeover) if data.takeover is not None else found
    inputs = complete_inputs(found, data.inputs)
    if data.machine or data.labels:
        return await run_processes.enqueue(found, folder, inputs, data.machine or "", data.labels)
    row = await run_processes.begin(found, folder, inputs)
    return _view(watcher, row)


@pipelines("GET /api/runs/{run}", "One run, with its nodes")
async def get_run(watcher: Live, run_processes: RunProcesses, person: Person, run: str) -> RunView:
    """`run` may be `last`, or the beginning of an id."""
    if (waiting := await _waiting(run_processes, person, run)) is not None and run_processes.queue is not None:
        return run_processes.queue.waiting_view(waiting)
    return _view(watcher, run_processes.runs.find(run))


@pipelines("GET /api/runs/{run}/nodes/{node}", "One node of a run, with its prompt and its result")
async def get_run_node(watcher: Live, run_processes: RunProcesses, run: str, node: str) -> NodeDetail:
    runs = run_processes.runs
    row = runs.find(run)
    found = row.pipeline.find(node)
    sessions = {session for session in runs.node(row.id, node).sessions.values() if session}
    turns = {session: turn.id for session, turn in watcher.watch.current_turns(sessions).items()}
    return node_detail(row, found, runs.node(row.id, node), turns)


@pipelines(
    "GET /api/runs/{run}/report",
    "The report of a run",
    media_types=(MARKDOWN, HTML),
    answer=str,
)
async def get_run_report(run_processes: RunProcesses, run: str, html: bool = False) -> Reply:
    """Markdown, or with `html` a whole page without scripts, as a download."""
    from ostler.pipelines.report import report
    from ostler.pipelines.report_html import report_html

    row = run_processes.runs.find(run)
    nodes = run_processes.runs.nodes(row.id)
    text = report_html(row, nodes) if html else report(row, nodes)
    name = f"{row.pipeline.name}-{row.id}.{'html' if html else 'md'}"
    headers = [(b"content-disposition", f'attachment; filename="{name}"'.encode())]
    return Reply(text, media_type=HTML if html else MARKDOWN, headers=headers)


@pipelines("POST /api/runs/{run}/nodes/{node}/answer", "Answers the gate of a node", status=200, problems=(409, 429))
async def answer_gate(
    ostler: Ostler, watcher: Live, run_processes: RunProcesses, person: Person, run: str, node: str, data: GateAnswer
) -> RunView:
    """A node that does not wait for a person is an error (400). An interrupted run goes on with the answer."""
    if not data.go and (data.answer is not None or data.prompt is not None):
        raise OstlerError("bad_request", "a denial has neither answer nor prompt")
    runs = run_processes.runs
    row = runs.find(run)
    approval = Approval(go=data.go, by=person.name, prompt=data.prompt, answer=data.answer)
    await runs.approve(row, node, approval)
    if not runs.owned(row):
        await run_processes.start(await runs.claim(row, ostler.desk.id))
    return _view(watcher, row)


@pipelines("POST /api/runs/{run}/cancel", "Cancels a run; one that has ended stays as it is", status=202)
async def cancel_run(watcher: Live, run_processes: RunProcesses, person: Person, run: str) -> RunView:
    """All its agents and commands end, whichever process runs it. One that waits for a machine is removed."""
    queue = run_processes.queue
    if queue is not None and (waiting := await _waiting(run_processes, person, run)) is not None:
        if await queue.index.cancel_waiting(waiting.id):
            return structs.replace(queue.waiting_view(waiting), state="cancelled", error="")
        raise OstlerError("busy", f"a machine has just begun {run}", "Try again")
    return _view(watcher, await run_processes.runs.cancel(run_processes.runs.find(run)))


@pipelines("POST /api/runs/{run}/resume", "Resumes an interrupted run", status=202, problems=(409, 429))
async def resume_run(ostler: Ostler, watcher: Live, run_processes: RunProcesses, run: str) -> RunView:
    """What is finished is not done again."""
    runs = run_processes.runs
    row = runs.find(run)
    if row.state != "running":
        raise OstlerError("bad_request", f"{row.id} is {row.state}: there is nothing to resume", "Fork it instead")
    if runs.owned(row):
        raise OstlerError("busy", f"{row.id} is running")
    await run_processes.start(await runs.claim(row, ostler.desk.id))
    return _view(watcher, row)


@pipelines("POST /api/runs/{run}/fork", "Runs part of a run again, as a new run", status=202, problems=(422, 429))
async def fork_run(
    ostler: Ostler,
    watcher: Live,
    run_processes: RunProcesses,
    membership: Membership | None,
    run: str,
    data: RunForkRequest,
) -> RunView:
    from ostler.pipelines.forks import forked_run

    runs = run_processes.runs
    old = runs.find(run)
    changed, given = forked_run(old, runs.nodes(old.id), data.node, data.prompt)
    _check_places(changed, membership)
    folder = check_folder(old.folder)
    row = await run_processes.begin(changed, folder, old.inputs, fork_of=old.id, given=given)
    return _view(watcher, row)


# -- below


async def _waiting(run_processes: RunProcesses, person: Person, run: str) -> IndexedRun | None:
    """A run that no machine has yet. Of what is passed on, the machine that was asked first has looked."""
    if run_processes.queue is None or person.via or run_processes.runs.get(run) is not None:
        return None
    try:
        return await run_processes.queue.find_waiting(run)
    except OstlerError:
        return None  # Postgres is away: then only those of this machine are known


def _view(watcher: Live, row: RunRow) -> RunView:
    (view,) = run_views(watcher.watch, [row.id])
    return view


def _check_places(pipeline: Pipeline, membership: Membership | None) -> None:
    """Before anything runs. Raises unsupported."""
    from ostler.pipelines.far_turns import check_pipeline_places

    machines = membership.machines if membership is not None else []
    check_pipeline_places(pipeline, {seen.name: seen.row.facts.labels for seen in machines if seen.state != "gone"})


def _folder(ostler: Ostler, data: PipelineSource) -> str:
    return check_folder(absolute(data.folder, ostler.setup.home))


def _load(data: PipelineSource, folder: str) -> Pipeline:
    from ostler.pipelines.load import examples
    from ostler.pipelines.parse import parse_pipeline

    match data:
        case PipelineSource(example=str(name), file=None, text=None):
            shipped = examples()
            if name not in shipped:
                hint = f"Choose one of: {', '.join(sorted(shipped))}"
                raise OstlerError("not_found", f"ostler ships no pipeline {quoted(name)}", hint)
            return parse_pipeline(f"{name}.toml", shipped[name])
        case PipelineSource(example=None, file=str(file), text=None):
            return parse_pipeline(file, _read(folder, file))
        case PipelineSource(example=None, file=None, text=str(text)):
            return parse_pipeline("pipeline.toml", text)
    raise OstlerError(
        "bad_request", "it is not clear which pipeline is meant", "Give exactly one of example, file, text"
    )


def _read(folder: str, file: str) -> str:
    if file.endswith(".py"):
        hint = f"Run it at the command line: ostler pipeline run {file}"
        raise OstlerError("unsupported", "the server does not run pipelines written in Python", hint)
    from ostler.pipelines.load import pipeline_text, read_pipeline_file

    with open(open_beneath(folder, file), "rb") as opened:
        return pipeline_text(file, read_pipeline_file(file, opened))
