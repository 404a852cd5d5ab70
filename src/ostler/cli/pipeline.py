"""`ostler pipeline …`: check, run, list, show, report, approve, cancel, resume, fork, schedule."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ostler import clock
from ostler.cli.pipeline_schedules import given_inputs, schedule, schedules
from ostler.errors import quoted

if TYPE_CHECKING:
    from ostler.cli.local_server import LocalServer
    from ostler.machines.directory import Directory
    from ostler.pipelines.model import NodeRow, Pipeline, RunRow
    from ostler.pipelines.runs import Runs
    from ostler.server.run_views import RunView
    from ostler.work import Ostler

Result = TypeVar("Result")


@click.group(short_help="Check, run and follow pipelines: graphs of turns and commands.")
def pipeline() -> None:
    """Run graphs of turns and commands that survive a crash.

    \b
      ostler pipeline check flow.toml
      ostler pipeline run review
      ostler pipeline run fix --input task="add a --json flag"
      ostler pipeline show last
    """


pipeline.add_command(schedule)
pipeline.add_command(schedules)


@pipeline.command("check", short_help="Check a pipeline file.")
@click.argument("what", metavar="FILE")
def check(what: str) -> None:
    """Check the whole FILE; errors name their line. FILE may be an example: review, fix, compare."""
    from ostler.pipelines.load import load_pipeline
    from ostler.render.lines import counted

    found = load_pipeline(what)
    order = f", in this order: {', '.join(n.name for n in found.nodes)}" if len(found.nodes) > 1 else ""
    click.echo(f"{found.name}: {counted(len(found.nodes), 'node')}{order}")
    if found.schedule:
        click.echo(f"schedule: {quoted(found.schedule)}, once you have run: ostler pipeline schedule {what}")


@pipeline.command("run", short_help="Run a pipeline.")
@click.argument("what", metavar="FILE")
@click.option("-i", "--input", "given", multiple=True, metavar="NAME=VALUE", help="An input. May be repeated.")
@click.option("-C", "--folder", metavar="FOLDER", default=".", help="Where it works (default: here).")
@click.option("--mode", type=click.Choice(("auto", "manual")), help="Manual: each node waits for your approval.")
@click.option("--on", metavar="MACHINE|LABEL,…", help="On the machine with this name or these labels, or on `any`.")
@click.option("--takeover", is_flag=True, help="With --on: another machine resumes it if its own is lost.")
@click.option("--json", is_flag=True, help="Print the run alone, as JSON.")
def run(what: str, given: tuple[str, ...], folder: str, mode: Any, on: str | None, takeover: bool, json: bool) -> int:
    """Run FILE, or an example: review, fix, compare. It survives a crash: see `ostler pipeline resume`.

    \b
      ostler pipeline run review
      ostler pipeline run flow.toml --input task="…" --mode manual
      ostler pipeline run flow.toml --on any --takeover
    """
    from msgspec import structs

    from ostler.pipelines.inputs import complete_inputs
    from ostler.pipelines.load import load_pipeline

    found = load_pipeline(what)
    found = structs.replace(found, mode=mode) if mode else found
    inputs = complete_inputs(found, given_inputs(given))
    where = os.path.realpath(folder)
    if takeover and not on:
        raise click.UsageError("--takeover needs --on: no other machine knows of a run that is started without it")
    if on:
        from ostler.cli.pipeline_on import begin_on

        return asyncio.run(begin_on(what, where, inputs, {"mode": mode, "takeover": takeover or None}, on, json))

    async def made(o: "Ostler", runs: "Runs") -> "RunRow":
        from ostler.work.turns.checks import check_folder

        await _check_places(o, found)
        return await runs.add(runs.new(found, check_folder(where), inputs, owner=o.desk.id))

    return _run(made, json)


@pipeline.command("resume", short_help="Resume a run whose process died.")
@click.argument("key", metavar="RUN")
@click.option("--json", is_flag=True, help="Print the run alone, as JSON.")
def resume(key: str, json: bool) -> int:
    """Resume RUN, whose process died. What is finished is not done again. RUN may be `last`."""

    return _resume(key, json)


def _resume(key: str, json: bool) -> int:
    async def interrupted(o: "Ostler", runs: "Runs") -> "RunRow":
        from ostler.errors import OstlerError

        row = await _found(o, runs, key)
        if row.state != "running":
            hint = f"Run part of it again: ostler pipeline fork {row.id} NODE"
            raise OstlerError("bad_request", f"{row.id} is {row.state}: there is nothing to resume", hint)
        return row

    return _run(interrupted, json)


@pipeline.command("fork", short_help="Run part of a run again, from one node on.")
@click.argument("key", metavar="RUN")
@click.argument("node")
@click.option("--prompt", metavar="TEXT", help="Another prompt for this node.")
@click.option("--json", is_flag=True, help="Print the run alone, as JSON.")
def fork(key: str, node: str, prompt: str | None, json: bool) -> int:
    """Start a new run that reuses the results of RUN, except for NODE and what needs it: these run again."""

    async def forked(o: "Ostler", runs: "Runs") -> "RunRow":
        from ostler.pipelines.forks import forked_run

        old = await _found(o, runs, key)
        changed, given = forked_run(old, runs.nodes(old.id), node, prompt)
        await _check_places(o, changed)
        new = runs.new(changed, old.folder, old.inputs, owner=o.desk.id, fork_of=old.id, given=given)
        return await runs.add(new)

    return _run(forked, json)


@pipeline.command("list", short_help="List runs.")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, metavar="N", help="The N newest (default: 20).")
@click.option("--json", is_flag=True, help="Print them as JSON.")
def list_runs(limit: int, json: bool) -> None:
    """List runs, the newest first. With a server that has joined others, those of other machines too.

    As JSON a run has the fields that the server gives; `machine` is empty for one of this machine.
    """
    from ostler.cli.pipeline_on import run_columns, runs_elsewhere
    from ostler.cli.turns import settings_for
    from ostler.cli.views import json_text
    from ostler.render.lines import columns
    from ostler.server.run_views import run_views
    from ostler.terminal.safe import one_line

    async def listed(o: "Ostler", runs: "Runs") -> "list[RunView]":
        await runs.look_after()
        return run_views(o.store.watch(), [row.id for row in runs.list()[:limit]])

    far = {view.id: view for view in asyncio.run(runs_elsewhere(settings_for(None).home, limit))}
    here = [view for view in _with_runs(listed) if view.id not in far]
    shown = sorted((*here, *far.values()), key=lambda view: view.created_at, reverse=True)[:limit]
    if json:
        click.echo(json_text(shown), nl=False)
        return
    if not shown:
        click.echo("no runs yet: ostler pipeline run review")
        return
    home, head = os.path.expanduser("~"), ("RUN", "PIPELINE", "STATE", "NODES", "FOLDER")
    for line in columns([head, *(run_columns(view, home) for view in shown)]):
        click.echo(line)
    for view in shown:
        if view.id in far and view.error and view.ended_at is None:
            click.echo(f"{view.id}: {one_line(view.error, 500)}")


@pipeline.command("show", short_help="Show a run and its nodes.")
@click.argument("key", metavar="RUN", default="last")
@click.option("--report", "whole", is_flag=True, help="The whole report, as Markdown.")
@click.option("--json", is_flag=True, help="Print it as JSON.")
def show(key: str, whole: bool, json: bool) -> None:
    """Show RUN (default: the last one): its nodes, what they wait for, how they ended."""
    from ostler.cli.views import json_text
    from ostler.pipelines.report import report
    from ostler.terminal.safe import safe

    async def read(o: "Ostler", runs: "Runs") -> "tuple[RunRow, dict[str, NodeRow]]":
        await runs.look_after()
        row = await _found(o, runs, key)
        return row, runs.nodes(row.id)

    row, nodes = _with_runs(read)
    if json:
        click.echo(
            json_text({"run": row, "nodes": [nodes[n.name] for n in row.pipeline.nodes if n.name in nodes]}), nl=False
        )
    elif whole:
        click.echo(safe(report(row, nodes)), nl=False)
    else:
        _print_run(row, nodes)


@pipeline.command("report", short_help="Write the report of a run.")
@click.argument("key", metavar="RUN", default="last")
@click.option("--markdown", "form", flag_value="markdown", default=True, help="As Markdown (the default).")
@click.option("--html", "form", flag_value="html", help="As one self-contained HTML file.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, writable=True), help="Write to this file instead of stdout."
)
def report_run(key: str, form: str, output: str | None) -> None:
    """Write the report of RUN (default: the last one): a table of its nodes, and what each of them said and changed.

    \b
      ostler pipeline report
      ostler pipeline report r3f2a1 --html -o report.html
    """
    from ostler.cli.export import write_output
    from ostler.pipelines.report import report
    from ostler.pipelines.report_html import report_html
    from ostler.terminal.safe import safe

    async def written(o: "Ostler", runs: "Runs") -> str:
        row = await _found(o, runs, key)
        return (report_html if form == "html" else report)(row, runs.nodes(row.id))

    text = _with_runs(written)
    if output is None:
        click.echo(safe(text), nl=False)
    else:
        write_output([text.encode()], output)


@pipeline.command("approve", short_help="Answer the gate of a node.")
@click.argument("key", metavar="RUN")
@click.argument("node")
@click.option("--deny", is_flag=True, help="Reject it: the node does not run.")
@click.option("--prompt", metavar="TEXT", help="Run it with this prompt instead.")
@click.option("--answer", metavar="TEXT", help="Skip the node and use TEXT as its answer.")
def approve(key: str, node: str, deny: bool, prompt: str | None, answer: str | None) -> int:
    """Approve NODE of RUN, which waits for a person. A run whose process died is resumed here.

    \b
      ostler pipeline approve r3f2a1 merge
      ostler pipeline approve last plan --prompt "only the parser"
      ostler pipeline approve last merge --deny
    """
    if deny and (prompt is not None or answer is not None):
        raise click.UsageError("--deny cannot be combined with --prompt or --answer")
    from ostler.cli.user import user_name
    from ostler.pipelines.model import Approval

    async def answered(o: "Ostler", runs: "Runs") -> "tuple[RunRow, bool]":
        row = await _found(o, runs, key)
        await runs.approve(row, node, Approval(go=not deny, by=user_name(), prompt=prompt, answer=answer))
        return row, runs.owned(row)

    run, owned = _with_runs(answered)
    click.echo(f"{node} is {'denied' if deny else 'approved'}")
    return 0 if owned else _resume(run.id, json=False)


@pipeline.command("cancel", short_help="Cancel a run.")
@click.argument("key", metavar="RUN", default="last")
def cancel(key: str) -> None:
    """Cancel RUN (default: the last one), whichever process runs it: all its agents and commands end."""

    async def cancelled(o: "Ostler", runs: "Runs") -> str:
        row = await _found(o, runs, key)
        if row.state not in ("running", "cancelling"):
            return f"{row.id} has ended already: it is {row.state}"
        row = await runs.cancel(row)
        return f"{row.id} is being cancelled" if row.state == "cancelling" else f"cancelled {row.id}"

    click.echo(_with_runs(cancelled))


# -- below


def _with_runs(act: "Callable[[Ostler, Runs], Awaitable[Result]]") -> Result:
    from ostler.cli.sessions import with_ostler
    from ostler.pipelines.runs import Runs

    return with_ostler(lambda o: act(o, Runs(o.store)))


async def _found(o: "Ostler", runs: "Runs", key: str) -> "RunRow":
    """Raises not_found; of a run that another machine has, with the name of that machine."""
    from ostler.cli.pipeline_on import run_elsewhere
    from ostler.errors import OstlerError

    try:
        return runs.find(key)
    except OstlerError as error:
        if error.kind == "not_found" and key not in ("", "last"):
            raise (await run_elsewhere(str(o.store.folder), key) or error) from None
        raise


async def _check_places(o: "Ostler", pipeline: "Pipeline") -> None:
    """Before anything runs."""
    from ostler.pipelines.far_turns import check_places

    with contextlib.closing(_server(str(o.store.folder))) as server:
        await check_places(server, pipeline)


def _run(prepare: "Callable[[Ostler, Runs], Awaitable[RunRow]]", json: bool) -> int:
    return asyncio.run(_to_the_end(prepare, json))


async def _to_the_end(prepare: "Callable[[Ostler, Runs], Awaitable[RunRow]]", json: bool) -> int:
    from ostler.cli.turns import opened, settings_for
    from ostler.cli.views import json_text
    from ostler.machines.run_index import RunMoved
    from ostler.pipelines.runner import PipelineRunner
    from ostler.pipelines.runs import Runs
    from ostler.render.lines import short_folder

    join = os.environ.pop("OSTLER_JOIN", "")  # a password may stand in it: no command of a node shall have it
    moved: RunMoved | None = None
    async with contextlib.AsyncExitStack() as stack:
        o = await stack.enter_async_context(opened(settings_for(None), "run"))
        row = await prepare(o, Runs(o.store))
        directory = await stack.enter_async_context(_directory(row, join)) if row.fence else None
        if not json:
            click.echo(f"{row.pipeline.name} · {row.id} · {short_folder(row.folder, os.path.expanduser('~'))}")
        try:
            server = _server(str(o.store.folder))
            with contextlib.closing(server), _shown(row, Runs(o.store).nodes(row.id), json) as on_node:
                runner = PipelineRunner(o, row, server, on_node, directory)
                with _interrupts(runner):
                    row = await runner.run()
        except RunMoved as error:
            moved, row = error, Runs(o.store).find(row.id)
        except asyncio.CancelledError:  # Ctrl-C before the runner could take it: what it needs takes long to import
            await Runs(o.store).change(row.id, state="cancelled", owner=None, ended_at=clock.now())
            raise
        nodes = Runs(o.store).nodes(row.id)
        if json:
            told_nodes = [nodes[n.name] for n in row.pipeline.nodes if n.name in nodes]
            click.echo(json_text({"run": row, "nodes": told_nodes}), nl=False)
        elif moved is None:
            click.echo(f"{row.state} · report: {Runs(o.store).folder(row.id) / 'report.md'}")
    if moved is not None:
        click.echo(f"ostler: {moved}", err=True)
        sys.stdout.flush()
        os._exit(1)  # DBOS has threads that wait for what comes of the run elsewhere
    return {"done": 0, "cancelled": 130}.get(row.state, 1)


@contextlib.asynccontextmanager
async def _directory(row: "RunRow", join: str) -> "AsyncIterator[Directory]":
    """That of the machines, which know this run. Raises bad_request where nobody has said where it is."""
    from ostler.errors import OstlerError
    from ostler.machines.directory import Directory

    if not join:
        hint = f"Use the page, or POST /api/runs/{row.id}/resume; or set OSTLER_JOIN to the address of Postgres"
        raise OstlerError("bad_request", f"the results of {row.id} are in the Postgres of the machines", hint)
    directory = Directory(join)
    try:
        yield directory
    finally:
        await directory.close()


def _server(home: str) -> "LocalServer":
    """The server of this machine, by which nodes run on others. It is looked for when one does."""
    from ostler.cli.local_server import LocalServer

    return LocalServer(home, "a node with `on`")


@contextlib.contextmanager
def _shown(row: "RunRow", nodes: "dict[str, NodeRow]", json: bool) -> "Iterator[Callable[[NodeRow], None] | None]":
    """Who is told of each node: a table at a terminal, else a line for each change."""
    from ostler.cli.live import drawing_width

    if json or drawing_width() is None:
        yield None if json else _print_node
        return
    from ostler.cli.pipeline_table import RunTable

    with RunTable(row, nodes) as table:
        yield table.show


class _interrupts:
    """Ctrl-C cancels the run; a second one is the loop's own."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def __enter__(self) -> None:
        import signal

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: asyncio.ensure_future(self._runner.cancel()))

    def __exit__(self, *_: object) -> None:
        import signal

        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)


def _print_node(row: "NodeRow") -> None:
    from ostler.cli.pipeline_table import question_lines
    from ostler.pipelines.report import cost, mark, seconds
    from ostler.terminal.safe import one_line

    facts = [f"{mark(row.state)} {row.node}", "waits for you" if row.state == "gate" else row.state]
    if row.ended_at is not None:
        facts += [f"{seconds(row)} s", cost(row)]
    if row.result and row.result.error:
        facts.append(one_line(row.result.error, 300))
    click.echo(" · ".join(filter(None, facts)))
    for line in question_lines(row):
        click.echo(line)


def _print_run(row: "RunRow", nodes: "dict[str, NodeRow]") -> None:
    from ostler.pipelines.model import NodeRow
    from ostler.pipelines.report import cost, mark, seconds
    from ostler.pipelines.runs import shown_state
    from ostler.render.lines import columns
    from ostler.terminal.safe import one_line

    state = shown_state(row)
    click.echo(f"{row.pipeline.name} · {row.id} · {state}{f' · {one_line(row.error, 200)}' if row.error else ''}")
    lines = [("NODE", "BY", "STATE", "SECONDS", "COST", "SESSION", "WHAT")]
    for node in row.pipeline.nodes:
        each = nodes.get(node.name, NodeRow(run=row.id, node=node.name))
        result = each.result
        what = one_line((result.error or result.summary or result.text) if result else each.question, 60)
        session = result.session if result else next(filter(None, reversed(each.sessions.values())), "")
        session += f"@{result.machine}" if result and result.machine else ""
        lines.append((node.name, node.by, f"{mark(each.state)} {each.state}", seconds(each), cost(each), session, what))
    for line in columns(lines):
        click.echo(line)
    if state == "interrupted":
        click.echo(f"Resume it: ostler pipeline resume {row.id}")
