"""What nodes do: turns, commands, gates and worktrees, on an Ostler. Each call may come again after a crash."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, structs

from ostler.errors import OstlerError
from ostler.model import Envelope, Limits, TurnRow
from ostler.pipelines.git import GitWorktree
from ostler.pipelines.model import Approval, Node, NodeResult, NodeRow, RunRow
from ostler.pipelines.runs import Runs
from ostler.pipelines.values import result_of
from ostler.store.once import Once
from ostler.work import LiveSession, Ostler
from ostler.work.pool.quota import backoff
from ostler.work.sessions.successors import successor_of
from ostler.work.turns.begin import begin
from ostler.work.turns.handle import TurnHandle
from ostler.work.turns.live_turns import change_since

_DIFF = 200_000  # characters that other nodes may read
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

    def __init__(self, ostler: Ostler, runs: Runs, run: RunRow, told: Callable[[NodeRow], None]) -> None:
        """`told` hears of nodes that wait for a person."""
        self._o, self._runs, self._run, self._told = ostler, runs, run, told
        self._turns: set[str] = set()
        self.cancelled = asyncio.Event()

    async def cancel(self) -> None:
        """Ends what runs; nothing else begins."""
        self.cancelled.set()
        for turn in list(self._turns):
            await self._o.cancel_turn(turn)

    # -- gates

    async def approval(self, node: Node, prompt: str) -> Approval:
        """Waits for what a person says. An answer that was given before a crash counts."""
        question = prompt if node.gate else f"Run {node.name}?\n\n{prompt}"
        self._told(await self._runs.change_node(self._run.id, node.name, state="gate", question=question.strip()))
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
            return structs.replace(result, folder=folder, tries=piece.attempt + 1)
        except OstlerError as error:
            return NodeResult(state="failed", error=str(error), kind=error.kind, tries=piece.attempt + 1)

    async def _turn(self, piece: NodePiece, prompt: str, folder: str) -> NodeResult:
        live, notices = await self._session(piece, folder)
        turn = await self._through(live, piece, prompt, piece.key)
        envelope, live, notices = await self._done(turn, live, notices)
        again = 0
        while envelope.outcome == "crashed" and not self.cancelled.is_set() and again < 5:
            again += 1
            live, notice, told = await self._after_crash(live, piece, prompt, folder)
            notices = (*notices, notice)
            turn = await self._through(live, piece, told, f"{piece.key}:{again}")
            envelope, live, notices = await self._done(turn, live, notices)
        result = result_of(envelope, _diff(envelope))
        return structs.replace(result, notices=notices)

    async def _done(
        self, turn: TurnRow, live: LiveSession, notices: tuple[str, ...]
    ) -> tuple[Envelope, LiveSession, tuple[str, ...]]:
        """How the turn ended, or that of the agent which went on when the quota ended; the session of that one."""
        envelope = await self._ended(turn)
        cost = envelope.cost_usd
        while (successor := successor_of(self._o.store, self._o.find_turn(envelope.turn))) is not None:
            notices = (*notices, f"the quota of {envelope.agent} ended, and {successor.turn.agent} went on")
            live, envelope = await self._o.session(session=successor.session), await self._ended(successor)
            cost = cost if envelope.cost_usd is None else (cost or 0.0) + envelope.cost_usd
        return structs.replace(envelope, cost_usd=cost), live, notices

    async def _session(self, piece: NodePiece, folder: str) -> tuple[LiveSession, tuple[str, ...]]:
        """The session of this piece: the one that it had before a crash or in the round before, else a new one."""
        known = self._runs.node(self._run.id, piece.node.name).sessions.get(piece.conversation)
        if known and self._o.store.session(known) is not None:
            return await self._o.session(session=known), ()
        return await self._new_session(piece, folder), ()

    async def _new_session(self, piece: NodePiece, folder: str) -> LiveSession:
        options = piece.node.options
        live = await self._o.session(
            piece.node.agent,
            folder=folder,
            model=options.model,
            access=options.access,
            system=options.system,
            system_mode=options.system_mode,
        )
        await live.keep()
        await self._runs.add_session(self._run.id, piece.node.name, piece.conversation, live.id)
        return live

    async def _after_crash(
        self, live: LiveSession, piece: NodePiece, prompt: str, folder: str
    ) -> tuple[LiveSession, str, str]:
        """Where the work goes on: in the agent's own conversation if there is one, else from the beginning."""
        row = self._o.find(live.id)
        if row.agent_session is not None and live.setup.agents[row.served_by or row.agent].resumes:
            return live, "it was interrupted, and went on in the same conversation", f"{_GO_ON}{prompt}"
        new = await self._new_session(piece, folder)
        return new, "it was interrupted, and ran again from the beginning", prompt

    async def _through(self, live: LiveSession, piece: NodePiece, prompt: str, key: str) -> TurnRow:
        """Begins the turn once, whatever happens in between: the key is stored with it."""
        once = Once(key=f"{self._run.id}:{piece.node.name}:{key}", digest="")
        return (await begin(live, prompt, piece.node.options, wait=True, once=once)).row

    async def _ended(self, turn: TurnRow) -> Envelope:
        self._turns.add(turn.id)
        try:
            while True:
                version = self._o.store.data_version()
                row = self._o.find_turn(turn.id)
                if row.state == "ended" and row.envelope is not None:
                    return row.envelope
                if self.cancelled.is_set():
                    await self._o.cancel_turn(turn.id)
                await change_since(self._o.store, version)
        finally:
            self._turns.discard(turn.id)

    async def _command(self, piece: NodePiece, argv: tuple[str, ...], folder: str) -> NodeResult:
        row = self._runs.node(self._run.id, piece.node.name)
        notices = ("it was interrupted, and ran again from the beginning",) if piece.key in row.sessions else ()
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
        return GitWorktree(self._run.folder, str(path / name), branch, base, self._o.setup.environ)

    async def finish(self, piece: NodePiece, result: NodeResult) -> NodeResult:
        """Collects what a worktree has, then merges, keeps or drops it. A node that failed keeps its branch."""
        assert piece.node.worktree is not None
        tree = self._worktree(piece)
        if not os.path.isdir(tree.path):
            return result
        try:
            diff = await tree.commit(f"{self._run.pipeline.name}: {piece.node.name}")
            what = await tree.finish(piece.node.worktree.then if result.ok else "keep")
        except OstlerError as error:
            return structs.replace(result, state="failed", error=str(error), kind=error.kind)
        return structs.replace(result, diff=diff[:_DIFF], notices=(*result.notices, what))


_CANCELLED = NodeResult(state="cancelled", error="the run was cancelled", kind="cancelled")


async def _awaited(handle: TurnHandle) -> Envelope:
    return await handle


def _diff(envelope: Envelope) -> str:
    path = envelope.artifacts.get("diff")
    if path is None:
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_DIFF)
    except OSError:
        return ""  # somebody has removed it
