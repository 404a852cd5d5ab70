"""Runs of pipelines in the store: made, found, changed, approved."""

import asyncio
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import structs

from ostler import clock
from ostler.errors import OstlerError, quoted
from ostler.pipelines.model import Approval, NodeResult, NodeRow, Pipeline, RunRow
from ostler.store import Store
from ostler.store import runs as documents
from ostler.store.files import private_folder
from ostler.store.sqlite import MACHINE_NOTE
from ostler.work.owner import alive

if TYPE_CHECKING:
    from ostler.machines.run_index import RunMoved

_run = msgspec.json.Decoder(RunRow).decode
_node = msgspec.json.Decoder(NodeRow).decode
_encode = msgspec.json.Encoder().encode
_SHORT_ID, _LONG_ID = 3, 6  # bytes; a long one is nobody else's on any machine


ShownState = Literal["waiting", "running", "cancelling", "interrupted", "done", "failed", "cancelled", "moved"]


def shown_state(run: RunRow) -> ShownState:
    """`interrupted`: the process that ran it has died (see `look_after`), and it can be resumed."""
    return "interrupted" if run.state == "running" and run.owner is None else run.state


class Runs:
    """The runs of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def folder(self, run: str) -> Path:
        """Where a run keeps its worktrees, its report and what DBOS knows of it."""
        private_folder(Path(self._store.folder) / "pipelines")
        return private_folder(Path(self._store.folder) / "pipelines" / run)

    def new(
        self,
        pipeline: Pipeline,
        folder: str,
        inputs: dict[str, str],
        *,
        owner: str | None = None,
        fork_of: str | None = None,
        given: dict[str, NodeResult] | None = None,
    ) -> RunRow:
        """A run that is not stored yet. `owner`: the process that runs it, or starts one that does."""
        size = _LONG_ID if self._store.note(MACHINE_NOTE) else _SHORT_ID
        return RunRow(
            id=f"r{os.urandom(size).hex()}",
            pipeline=pipeline,
            folder=folder,
            created_at=clock.now(),
            inputs=inputs,
            owner=owner,
            fork_of=fork_of,
            given=given or {},
        )

    async def add(self, row: RunRow, nodes: Iterable[NodeRow] = ()) -> RunRow:
        """Stores a run with its nodes, instead of what is known of it."""
        save = partial(
            documents.save_run,
            id=row.id,
            created_at=row.created_at,
            state=row.state,
            body=_encode(row),
            nodes=[(each.node, _encode(each)) for each in nodes],
        )
        await self._store.change_documents(save)
        return row

    def list(self) -> list[RunRow]:
        """The newest first."""
        return [_run(body) for body in self._store.documents(documents.RUNS)]

    def open(self) -> Iterable[RunRow]:
        """Those that have not ended."""
        return [_run(body) for body in self._store.documents(documents.RUNS_OPEN)]

    def find(self, key: str) -> RunRow:
        """By id, its unique beginning, or `last`. Raises not_found or bad_request."""
        found = self.list()[:1] if key == "last" else [_run(b) for b in self._store.documents(documents.RUNS_LIKE, key)]
        if not found or not key:
            raise OstlerError("not_found", f"there is no run {quoted(key)}", "List them: ostler pipeline list")
        if len(found) > 1:
            raise OstlerError(
                "bad_request", f"{quoted(key)} could be any of {', '.join(r.id for r in found[:5])}", "Give more"
            )
        return found[0]

    def get(self, id: str) -> RunRow | None:
        found = self._store.documents(documents.RUN, id)
        return _run(found[0]) if found else None

    def state(self, id: str) -> str:
        """Of a run that is there."""
        return str(self._store.documents(documents.RUN_STATE, id)[0])

    async def change(self, id: str, **fields: Any) -> RunRow:
        return await self._update(id, lambda row: structs.replace(row, **fields))

    async def until_moved(self) -> "RunMoved":
        """Waits until another machine has the run: for ever, since no other one knows of it."""
        return await asyncio.Future()

    async def keep_moved(self, moved: "RunMoved") -> None:
        """Says where the run is."""

    async def claim(self, run: RunRow, owner: str) -> RunRow:
        """The run as one that this process goes on with. Raises busy if somebody else did so meanwhile."""

        def claimed(row: RunRow) -> RunRow:
            if (row.owner, row.state) != (run.owner, "running"):
                raise OstlerError("busy", f"{run.id} has changed meanwhile", "Look at it again")
            return structs.replace(row, owner=owner, error="")

        return await self._update(run.id, claimed)

    async def cancel(self, run: RunRow) -> RunRow:
        """Asks the process that runs it to end it; without one it is cancelled at once. One that has ended stays so."""
        owned = self.owned(run)

        def cancelled(row: RunRow) -> RunRow:
            if row.state not in ("running", "cancelling"):
                return row
            if owned:
                return structs.replace(row, state="cancelling")
            return structs.replace(row, state="cancelled", owner=None, ended_at=clock.now())

        return await self._update(run.id, cancelled)

    def owned(self, run: RunRow) -> bool:
        """Whether the process that runs it lives."""
        owner = self._store.owner(run.owner) if run.owner else None
        return owner is not None and alive(owner)

    async def look_after(self) -> None:
        """Notes of each run whose process has died that nobody runs it, for those who watch."""
        for run in self.open():
            if self.owned(run):
                continue
            if run.state == "cancelling":
                await self.cancel(run)
            elif run.owner is not None:
                await self._disown(run)

    async def _disown(self, run: RunRow) -> None:
        def disowned(row: RunRow) -> RunRow:
            return structs.replace(row, owner=None) if (row.owner, row.state) == (run.owner, "running") else row

        await self._update(run.id, disowned)

    async def _update(self, id: str, change: Callable[[RunRow], RunRow]) -> RunRow:
        """In a transaction of its own: `change` sees the run as it is."""

        def changed(body: bytes) -> tuple[str, bytes]:
            row = change(_run(body))
            return row.state, _encode(row)

        body = await self._store.change_documents(lambda db: documents.change_run(db, id, changed))
        if body is None:
            raise OstlerError("not_found", f"there is no run {quoted(id)}")
        return _run(body)

    def nodes(self, run: str) -> dict[str, NodeRow]:
        return {row.node: row for row in map(_node, self._store.documents(documents.NODES, run))}

    def node(self, run: str, node: str) -> NodeRow:
        found = self._store.documents(documents.NODE, run, node)
        return _node(found[0]) if found else NodeRow(run=run, node=node)

    async def change_node(self, run: str, node: str, *, full: bool = False, **fields: Any) -> NodeRow:
        """A power failure may undo it, unless `full`; never without what was written after it.

        A turn is found again, since it is written later; a result, since DBOS has it.
        """

        return await self._update_node(run, node, lambda row: structs.replace(row, **fields), full)

    async def add_session(self, run: str, node: str, item: str, session: str, *, full: bool = False) -> None:
        """Kept before its first turn begins: whoever resumes the run finds the agent's conversation.

        Items of a node begin side by side: none may undo what another has noted.
        """

        def added(row: NodeRow) -> NodeRow:
            return structs.replace(row, sessions={**row.sessions, item: session})

        await self._update_node(run, node, added, full)

    async def _update_node(self, run: str, node: str, change: Callable[[NodeRow], NodeRow], full: bool) -> NodeRow:
        def changed(body: bytes | None) -> bytes:
            return _encode(change(_node(body) if body is not None else NodeRow(run=run, node=node)))

        write = partial(documents.change_node, run=run, node=node, change=changed)
        return _node(await self._store.change_documents(write, full=full))

    async def approve(self, run: RunRow, node: str, approval: Approval) -> NodeRow:
        """Answers the gate of a node. Raises bad_request if it waits at none, or the run has ended."""
        run.pipeline.find(node)
        if run.state != "running":
            raise OstlerError("bad_request", f"{run.id} is {run.state}: there is nothing to answer")
        row = self.node(run.id, node)
        if row.state != "gate":
            raise OstlerError("bad_request", f"{node} does not wait for an approval: it is {row.state}")
        return await self.change_node(run.id, node, full=True, approval=approval)

    def data_version(self) -> int:
        return self._store.data_version()
