"""The processes of runs that this server has started: one for each, since DBOS is one for each process.

They end with the server. A run whose process has died is resumed by whoever wants it to go on.
"""

import asyncio
import logging
import sys

from ostler.errors import OstlerError
from ostler.machines.membership import Membership
from ostler.pipelines.model import NodeResult, Pipeline, RunRow
from ostler.pipelines.runs import Runs
from ostler.process import Process
from ostler.process.lines import chunks
from ostler.server.run_queue import RunQueue
from ostler.server.run_views import RunView
from ostler.terminal.safe import one_line
from ostler.work import Ostler

LOOK = 1.0  # seconds between looks for runs whose process has died
_PATIENCE = 2.0  # seconds for the last words of a process that has ended
_KEPT = 4096  # bytes of what a process said last

_log = logging.getLogger(__name__)


class RunProcesses:
    """`close` ends them all, as a power failure would: what is finished stays so."""

    def __init__(self, ostler: Ostler, membership: Membership | None = None) -> None:
        self._o, self.runs = ostler, Runs(ostler.store)
        self._tasks: dict[asyncio.Task[None], Process] = {}
        # Of a machine that has joined others: those know its runs.
        self.queue = RunQueue(ostler, membership, self.runs, self.start) if membership is not None else None

    async def begin(
        self,
        pipeline: Pipeline,
        folder: str,
        inputs: dict[str, str],
        *,
        fork_of: str | None = None,
        given: dict[str, NodeResult] | None = None,
    ) -> RunRow:
        """A new run, in a process of its own."""
        row = self.runs.new(pipeline, folder, inputs, owner=self._o.desk.id, fork_of=fork_of, given=given)
        if self.queue is None:
            await self.runs.add(row)
        else:
            async with self.queue.storing:
                row = await self.runs.add(await self.queue.share(row))
        await self.start(row)
        return row

    async def enqueue(
        self, pipeline: Pipeline, folder: str, inputs: dict[str, str], machine: str, labels: tuple[str, ...]
    ) -> RunView:
        """A new run that waits for a machine. Raises unsupported where there are no others."""
        if self.queue is None:
            hint = "Start it with: ostler up --join URL"
            raise OstlerError("unsupported", "this machine has not joined others", hint)
        row = self.runs.new(pipeline, folder, inputs)
        return self.queue.waiting_view(await self.queue.enqueue(row, machine, labels))

    async def start(self, run: RunRow) -> None:
        """Goes on with a run that this server owns, in a process of its own."""
        argv = [sys.executable, "-P", "-m", "ostler", "pipeline", "resume", run.id, "--json"]
        env = {**self._o.setup.environ, "OSTLER_HOME": str(self._o.store.folder)}
        if self.queue is not None:  # not among the arguments, which every user of the machine can read
            env["OSTLER_JOIN"] = self.queue.membership.directory.url
        try:
            warden = await self._o.warden.get()
            process = await warden.spawn(argv, cwd=run.folder, env=env, mark=f"run-{run.id}", stdin=None)
        except BaseException:
            await self.runs.change(run.id, owner=None)
            raise
        task = asyncio.create_task(self._follow(run, process))
        self._tasks[task] = process
        task.add_done_callback(lambda task: self._tasks.pop(task, None))

    async def look_after(self) -> None:
        await self.runs.look_after()
        await asyncio.sleep(LOOK)

    async def close(self) -> None:
        for process in self._tasks.values():
            process.signal(9)  # its own warden ends what it started
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, run: RunRow, process: Process) -> None:
        assert process.stdout_fd is not None and process.stderr_fd is not None
        said = asyncio.create_task(_last_of(process.stderr_fd))
        printed = asyncio.create_task(_last_of(process.stdout_fd))
        try:
            ended = await process.wait()
            await asyncio.wait((said, printed), timeout=_PATIENCE)  # what it has started may hold its pipes open
        finally:
            for task in (said, printed):
                task.cancel()
            await asyncio.gather(said, printed, return_exceptions=True)
            process.release()
        _log.info("the process of run %s has ended: %s", run.id, ended)
        if self.runs.find(run.id).owner == self._o.desk.id:  # it never began
            words = b"" if said.cancelled() else said.result()
            last = one_line(words.decode(errors="replace").strip().rpartition("\n")[2], 1000)
            await self.runs.change(run.id, owner=None, error=last)
        await self.runs.look_after()


async def _last_of(fd: int) -> bytes:
    """The last of what it gives."""
    kept = b""
    async for chunk in chunks(fd):
        kept = (kept + chunk)[-_KEPT:]
    return kept
