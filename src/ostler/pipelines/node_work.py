"""What nodes do: turns, commands, gates and worktrees, on an Ostler. Each call may come again after a crash."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, structs

from ostler.errors import OstlerError
from ostler.model import Envelope, Limits
from ostler.pipelines.far_turns import FarTurns, OwnServer
from ostler.pipelines.git import GitWorktree
from ostler.pipelines.local_turns import DIFF, LocalTurns
from ostler.pipelines.model import Approval, Node, NodeResult, NodeRow, RunRow
from ostler.pipelines.runs import Runs
from ostler.pipelines.takeover import was_lost
from ostler.pipelines.values import result_of, total_cost
from ostler.work import Ostler
from ostler.work.pool.quota import backoff
from ostler.work.store_changes import change_since
from ostler.work.turns.handle import TurnHandle

NodeTurns = LocalTurns | FarTurns
_GO_ON = "You were interrupted while you worked on this. Look at what is done already, then finish it.\n\n"


class NodePiece(Struct, frozen=True, kw_only=True):
    """One piece of a node's work: of an item, of a round of its loop, at a try. Together they name it for ever."""

    node: Node
    item: str = ""
    round: int = 0
    attempt: int = 0

    @property
    def key(self) -> str:
        return f"{self.item}:{self.round}:{self.attempt}"

    @property
    def conversation(self) -> str:
        """The rounds of a loop go on in one session; another try begins anew."""
        return f"{self.item}:{self.attempt}"


class NodeWork:
    """The work of a run's nodes."""

    def __init__(
        self, ostler: Ostler, runs: Runs, run: RunRow, on_node: Callable[[NodeRow], None], server: OwnServer
    ) -> None:
        """`told` hears of nodes that wait for a person. `server`: that of this machine, for nodes with `on`."""
        self._o, self._runs, self._run, self._on_node = ostler, runs, run, on_node
        self.cancelled = asyncio.Event()
        self._here = LocalTurns(ostler, self.cancelled)
        self._elsewhere = FarTurns(ostler, server, self.cancelled)

    async def cancel(self) -> None:
        """Ends what runs; nothing else begins."""
        self.cancelled.set()  # turns elsewhere hear of it by this alone
        await self._here.cancel()

    async def leave(self) -> None:
        """Another machine has the run by now: what runs here ends, what runs elsewhere is its to wait for."""
        self._elsewhere.leave()
        await self.cancel()

    # -- gates

    async def approval(self, node: Node, asked: str) -> Approval:
        """Waits for what a person says. An answer that was given before a crash counts."""
        if self._runs.node(self._run.id, node.name).approval is None:
            self._on_node(await self._runs.change_node(self._run.id, node.name, state="gate", question=asked))
        while not self.cancelled.is_set():
            version = self._runs.data_version()
            row = self._runs.node(self._run.id, node.name)
            if row.approval is not None:
                await self._runs.change_node(self._run.id, node.name, state="running")
                return row.approval
            await change_since(self._o.store, version)
        return Approval(go=False, by="cancel")

    # -- turns and commands

    async def attempt(self, piece: NodePiece, prompt: str, command: tuple[str, ...]) -> NodeResult:
        """Runs the piece, or finds what came of it before a crash."""
        if self.cancelled.is_set():
            return _CANCELLED
        if piece.attempt:
            await asyncio.sleep(backoff(piece.attempt, os.urandom(1)[0] / 255))
        try:
            folder = await self._folder(piece)
            if command:
                result = await self._command(piece, command, folder)
            else:
                result = await self._turn(piece, prompt, folder)
            where = result.folder if piece.node.on else folder
            return structs.replace(result, folder=where, tries=piece.attempt + 1)
        except OstlerError as error:
            return NodeResult(state="failed", error=str(error), kind=error.kind, tries=piece.attempt + 1)

    async def _turn(self, piece: NodePiece, prompt: str, folder: str) -> NodeResult:
        turns = self._elsewhere if piece.node.on else self._here
        session, notices = await self._session(turns, piece, folder)
        turn = await turns.begin(session, prompt, piece.node, self._key(piece, piece.key))
        envelope, notices = await self._done(turns, turn, notices)
        again, cost = 0, envelope.cost_usd
        while envelope.outcome == "crashed" and not self.cancelled.is_set() and again < 5:
            again += 1
            session, notice, text = await self._after_crash(turns, envelope.session, piece, prompt, folder)
            turn = await turns.begin(session, text, piece.node, self._key(piece, f"{piece.key}:{again}"))
            envelope, notices = await self._done(turns, turn, (*notices, notice))
            cost = total_cost((cost, envelope.cost_usd))
        result = result_of(envelope, await turns.diff(envelope))
        return structs.replace(result, notices=notices, machine=turns.machine(turn), cost_usd=cost)

    def _key(self, piece: NodePiece, key: str) -> str:
        return f"{self._run.id}:{piece.node.name}:{key}"

    async def _done(self, turns: NodeTurns, turn: str, notices: tuple[str, ...]) -> tuple[Envelope, tuple[str, ...]]:
        """How the turn ended, or that of the agent which went on when the quota ended."""
        envelope = await turns.ended(turn)
        cost = envelope.cost_usd
        while (successor := await turns.successor(envelope)) is not None:
            quota_of, envelope = envelope.agent, await turns.ended(successor)
            notices = (*notices, f"the quota of {quota_of} ran out, and {envelope.agent} took over")
            cost = total_cost((cost, envelope.cost_usd))
        return structs.replace(envelope, cost_usd=cost), notices

    async def _session(self, turns: NodeTurns, piece: NodePiece, folder: str) -> tuple[str, tuple[str, ...]]:
        """The session of this piece: the one that it had before a crash or in the round before, else a new one."""
        row = self._runs.node(self._run.id, piece.node.name)
        known = row.sessions.get(piece.conversation)
        if known and await turns.has(known, bool(row.lost)):
            return known, ()
        notices = (f"{was_lost(row.lost)}: it may have done its work twice",) if known and row.lost else ()
        return await self._new_session(turns, piece, folder), notices

    async def _new_session(self, turns: NodeTurns, piece: NodePiece, folder: str) -> str:
        session = await turns.new_session(piece.node, folder)
        # A turn elsewhere is not undone by a power failure here, and must be found again.
        await self._runs.add_session(
            self._run.id, piece.node.name, piece.conversation, session, full=bool(piece.node.on)
        )
        return session

    async def _after_crash(
        self, turns: NodeTurns, session: str, piece: NodePiece, prompt: str, folder: str
    ) -> tuple[str, str, str]:
        """Where the work goes on: in the agent's own conversation if there is one, else from the beginning."""
        if await turns.resumes(session):
            return session, "it was interrupted, and continued in the same conversation", f"{_GO_ON}{prompt}"
        new = await self._new_session(turns, piece, folder)
        return new, "it was interrupted, and was run again from the beginning", prompt

    async def _command(self, piece: NodePiece, argv: tuple[str, ...], folder: str) -> NodeResult:
        row = self._runs.node(self._run.id, piece.node.name)
        notices = ("it was interrupted, and was run again from the beginning",) if piece.key in row.sessions else ()
        await self._runs.add_session(self._run.id, piece.node.name, piece.key, "")
        options = piece.node.options
        limits = options.limits or Limits(first_record=None, idle=None)
        handle = self._o.exec(argv, folder=folder, limits=limits, env=options.env)
        task = asyncio.ensure_future(_awaited(handle))
        noting = asyncio.ensure_future(self._note_session(handle, piece))
        stop = asyncio.ensure_future(self.cancelled.wait())
        await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
        for beside in (stop, noting):
            beside.cancel()
        await asyncio.gather(stop, noting, return_exceptions=True)
        if not task.done():
            handle.cancel()
        envelope = await task
        return structs.replace(result_of(envelope), notices=notices, text=envelope.stdout or "")

    async def _note_session(self, handle: TurnHandle, piece: NodePiece) -> None:
        """Whoever watches the run finds the command's session as soon as there is one."""
        while (row := self._o.store.turn(handle.stop.turn or "")) is None:
            await change_since(self._o.store, self._o.store.data_version())
        await self._runs.add_session(self._run.id, piece.node.name, piece.key, row.session)

    async def check(self, piece: NodePiece, argv: tuple[str, ...]) -> NodeResult:
        """The check of a loop: a command in the node's folder."""
        return await self.attempt(structs.replace(piece, item=f"{piece.item}check"), "", argv)

    # -- folders

    async def _folder(self, piece: NodePiece) -> str:
        if piece.node.on:
            return self._run.folder  # the one that it has on this machine
        folder = os.path.join(self._run.folder, piece.node.folder)
        if piece.node.worktree is None:
            return os.path.realpath(folder)
        tree = self._worktree(piece)
        await tree.make()
        return os.path.realpath(os.path.join(tree.path, piece.node.folder))

    def _worktree(self, piece: NodePiece) -> GitWorktree:
        assert piece.node.worktree is not None
        name = f"{piece.node.name}{f'-{item}' if (item := piece.item.removesuffix('check')) else ''}"
        path = self._runs.folder(self._run.id) / "worktrees"
        Path(path).mkdir(exist_ok=True)
        branch = f"ostler/{self._run.id}/{name}"
        base = piece.node.worktree.base
        locks = str(self._runs.folder(self._run.id).parent)
        return GitWorktree(self._run.folder, str(path / name), branch, base, self._o.setup.environ, locks)

    async def commit(self, piece: NodePiece, result: NodeResult) -> NodeResult:
        """With all that its worktree has changed, which is on its branch then. Raises bad_request."""
        tree = self._worktree(piece)
        if not await tree.is_there():
            return result
        diff = await tree.commit(f"{self._run.pipeline.name}: {piece.node.name}")
        return structs.replace(result, diff=diff[:DIFF])

    async def merge(self, piece: NodePiece, result: NodeResult) -> NodeResult:
        """Merges, keeps or drops what was committed. A node that failed keeps its branch. Raises busy, bad_request."""
        assert piece.node.worktree is not None
        tree = self._worktree(piece)
        if not result.ok and not await tree.is_there():
            return result
        what = await tree.finish(piece.node.worktree.then if result.ok else "keep")
        return structs.replace(result, notices=(*result.notices, what))


_CANCELLED = NodeResult(state="cancelled", error="the run was cancelled", kind="cancelled")


async def _awaited(handle: TurnHandle) -> Envelope:
    return await handle
