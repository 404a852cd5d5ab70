"""Runs a pipeline: each node once all that it needs is there, side by side where they can."""

import asyncio
import fcntl
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from ostler import clock
from ostler.errors import OstlerError
from ostler.machines.directory import Directory
from ostler.pipelines.approvals import approved, decided, question
from ostler.pipelines.expressions import BadExpression, evaluated
from ostler.pipelines.far_turns import OwnServer
from ostler.pipelines.model import Node, NodeResult, NodeRow, RunRow
from ostler.pipelines.node_work import NodeWork
from ostler.pipelines.report import report
from ostler.pipelines.runs import Runs
from ostler.pipelines.takeover import was_lost
from ostler.pipelines.values import failed_expression, items_of, joined, values_of
from ostler.supervise import Loop
from ostler.work import Ostler
from ostler.work.store_changes import change_since

if TYPE_CHECKING:
    from ostler.pipelines.engine import Job
    from ostler.pipelines.shared_runs import SharedRuns
    from ostler.pipelines.steps import Steps

_LOOK = 1.0  # seconds at most between two looks, also where looking fails

OnNode = Callable[[NodeRow], None]


class PipelineRunner:
    """One run, from its start or from where a process that died has left it."""

    def __init__(
        self,
        ostler: Ostler,
        run: RunRow,
        server: OwnServer,
        on_node: OnNode | None = None,
        directory: Directory | None = None,
    ) -> None:
        """`server`: that of this machine, for nodes that run on others. `directory`: that of the machines, for a run
        that all of them know of."""
        from ostler.pipelines.engine import Engine
        from ostler.pipelines.steps import PostgresSteps, SqliteSteps

        self._o, self._runs = ostler, Runs(ostler.store)
        steps: Steps = SqliteSteps(self._runs.folder(run.id))
        if directory is not None:
            self._runs, steps = _shared(ostler, directory, run), PostgresSteps(directory.url, run.id)
        self._row, self._on_node = run, on_node or (lambda row: None)
        self._work = NodeWork(ostler, self._runs, run, self._on_node, server)
        self._engine = Engine(self._work, steps, threads=max(64, 4 * len(run.pipeline.nodes)))
        self._results: dict[str, NodeResult] = {}

    async def run(self) -> RunRow:
        """Runs to the end; the run as it is then. Raises busy if another process runs it, RunMoved once another
        machine does: then all that it has begun is ended, and nothing of it is kept.
        """
        lock = self._lock()
        work = asyncio.create_task(self._to_the_end())
        moving = asyncio.create_task(self._runs.until_moved())
        try:
            await asyncio.wait({work, moving}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            self._engine.abandon()
            await self._work.leave()
            await self._runs.keep_moved(moving.result())
            raise moving.result()
        finally:
            for task in (work, moving):
                task.cancel()
            await asyncio.gather(work, moving, return_exceptions=True)
            await self._engine.close()
            os.close(lock)

    async def _to_the_end(self) -> RunRow:
        await self._runs.change(self._row.id, owner=self._o.desk.id, error="")
        await self._engine.launch()
        watching = Loop(f"looking whether run {self._row.id} is cancelled", self._look_for_cancel, longest=_LOOK)
        watching.start()
        try:
            await self._all()
        finally:
            await watching.stop()
        row = await self._end()
        await self._engine.forget()
        return row

    async def cancel(self) -> None:
        """Ends all that runs; nothing else begins."""
        await self._runs.change(self._row.id, state="cancelling")
        await self._work.cancel()

    def _lock(self) -> int:
        fd = os.open(self._runs.folder(self._row.id) / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            hint = f"Look at it: ostler pipeline show {self._row.id}"
            raise OstlerError("busy", f"another ostler process runs {self._row.id}", hint) from None
        return fd

    async def _look_for_cancel(self) -> None:
        """Other processes ask for it in the store."""
        version = self._o.store.data_version()
        if self._runs.state(self._row.id) == "cancelling":
            await self._runs.change(self._row.id, state="cancelling")  # so that all machines know
            await self._work.cancel()
            await asyncio.Future()  # there is nothing more to look for
        await change_since(self._o.store, version)

    async def _all(self) -> None:
        tasks: dict[str, asyncio.Task[NodeResult]] = {}
        async with asyncio.TaskGroup() as group:
            for node in self._row.pipeline.nodes:
                tasks[node.name] = group.create_task(self._after_needs(node, tasks), name=node.name)

    async def _after_needs(self, node: Node, tasks: "Mapping[str, asyncio.Task[NodeResult]]") -> NodeResult:
        needed = {need: await tasks[need] for need in node.needs}
        result = self._row.given.get(node.name) or self._without_work(node, needed)
        started = clock.now()
        if result is None:
            before = self._runs.node(self._row.id, node.name)
            started = before.started_at or started
            state = before.state if before.state in ("gate", "running") else "running"
            self._on_node(await self._runs.change_node(self._row.id, node.name, state=state, started_at=started))
            result = await self._worked(node, needed)
            if before.lost and not node.on:  # of one with `on`, only its work knows whether it was begun anew
                notice = f"{was_lost(before.lost)}: it may have done its work twice"
                result = structs.replace(result, notices=(notice, *result.notices))
        self._results[node.name] = result
        row = await self._runs.change_node(
            self._row.id, node.name, state=result.state, started_at=started, ended_at=clock.now(), result=result
        )
        self._on_node(row)
        return result

    def _without_work(self, node: Node, needed: Mapping[str, NodeResult]) -> NodeResult | None:
        """What is known of a node before it begins: it is skipped, or must not begin. None: it runs."""
        if self._work.cancelled.is_set():
            return NodeResult(state="cancelled", error="the run was cancelled", kind="cancelled")
        bad = next((name for name, result in needed.items() if result.state in ("failed", "cancelled")), None)
        bad = bad or next((name for name, result in needed.items() if result.stops), None)
        if bad is not None and not node.when:
            return NodeResult(state="skipped", error=f"it needs {bad}, which is {needed[bad].state}")
        try:
            if node.when and not evaluated(node.when, values_of(self._row.inputs, needed)):
                return NodeResult(state="skipped")
        except BadExpression as error:
            return failed_expression(error)
        return self._over_budget()

    def _over_budget(self) -> NodeResult | None:
        most = self._row.pipeline.cost_usd
        spent = sum(result.cost_usd or 0.0 for result in self._results.values())
        if most is None or spent < most:
            return None
        return NodeResult(
            state="failed", error=f"the run has cost ${spent:.2f}, and its limit is ${most:.2f}", kind="over_budget"
        )

    async def _worked(self, node: Node, needed: Mapping[str, NodeResult]) -> NodeResult:
        from ostler.pipelines.engine import Job

        values = {**values_of(self._row.inputs, needed), "run": {"id": self._row.id, "name": self._row.pipeline.name}}
        manual = (node.mode or self._row.pipeline.mode) == "manual"
        job = Job(run=self._row.id, node=node, values=values, manual=manual)
        try:
            if not node.each:
                return await self._engine.run(job)
            return await self._items(job)
        except BadExpression as error:
            return failed_expression(error)

    async def _items(self, job: "Job") -> NodeResult:
        """A job for each item, side by side. A person is asked once, before them all. Raises BadExpression."""
        node, values = job.node, [{**job.values, "item": item} for item in items_of(job.node, job.values)]
        if job.manual and values:
            said = await self._work.approval(node, question(node, values))
            if (result := decided(node, said)) is not None:
                return result
            node = approved(node, said)
        jobs = [
            structs.replace(job, node=node, item=str(number), values=each, manual=False)
            for number, each in enumerate(values, 1)
        ]
        return joined(list(await asyncio.gather(*map(self._engine.run, jobs))))

    async def _end(self) -> RunRow:
        states = {result.state for result in self._results.values()}
        failed = next((name for name, result in self._results.items() if result.state == "failed"), None)
        cancelled = self._work.cancelled.is_set() or "cancelled" in states
        state = "cancelled" if cancelled else "failed" if failed else "done"
        error = self._results[failed].error if failed else ""
        row = await self._runs.change(self._row.id, state=state, error=error, owner=None, ended_at=clock.now())
        text = report(row, self._runs.nodes(row.id))
        await asyncio.to_thread((self._runs.folder(row.id) / "report.md").write_text, text)
        return row


def _shared(ostler: Ostler, directory: Directory, run: RunRow) -> "SharedRuns":
    from ostler.machines.run_index import RunIndex
    from ostler.pipelines.shared_runs import SharedRuns

    return SharedRuns(ostler.store, RunIndex(directory), run)
