"""Turns of nodes that run on this machine."""

import asyncio

from ostler.model import Envelope, Turn, TurnRow
from ostler.pipelines.model import Node
from ostler.store.once import Once
from ostler.work import LiveSession, Ostler
from ostler.work.sessions.successors import successor_of
from ostler.work.store_changes import change_since
from ostler.work.turns.begin import begin
from ostler.work.turns.forwarding import TurnForwarding

DIFF = 200_000  # characters that other nodes may read


class LocalTurns:
    """Sessions and turns are named by their ids. `FarTurns` is the same for another machine."""

    def __init__(self, ostler: Ostler, cancelled: asyncio.Event) -> None:
        self._o, self._cancelled = ostler, cancelled
        self._running: set[str] = set()

    async def cancel(self) -> None:
        for turn in list(self._running):
            await self._o.cancel_turn(turn)

    async def has(self, session: str, lost: bool) -> bool:
        """Whether it can go on there: somebody may have removed it. `lost`: the machine that the run was on is."""
        return self._o.store.session(session) is not None

    async def new_session(self, node: Node, folder: str) -> str:
        options = node.options
        live = await self._o.session(
            node.agent,
            folder=folder,
            model=options.model,
            access=options.access,
            system=options.system,
            system_mode=options.system_mode,
        )
        await live.keep()
        return live.id

    async def resumes(self, session: str) -> bool:
        """Whether the agent can go on in its own conversation."""
        live: LiveSession = await self._o.session(session=session)
        row = self._o.find(session)
        return row.agent_session is not None and live.setup.agents[row.served_by or row.agent].resumes

    async def begin(self, session: str, prompt: str, node: Node, key: str) -> str:
        """Begins the turn once, whatever happens in between: the key is stored with it."""
        live = await self._o.session(session=session)
        return (await begin(live, prompt, node.options, wait=True, once=Once(key=key, digest=""))).row.id

    async def ended(self, turn: str) -> Envelope:
        self._running.add(turn)
        try:
            while True:
                version = self._o.store.data_version()
                row = self._o.find_turn(turn)
                if row.state == "ended" and row.envelope is not None:
                    await self._delivered(row.turn)
                    return row.envelope
                if self._cancelled.is_set():
                    await self._o.cancel_turn(turn)
                await change_since(self._o.store, version)
        finally:
            self._running.discard(turn)

    async def _delivered(self, turn: Turn) -> None:
        """With `wait_for = "forwarded"`, waits until the backend has the result, or for as long as the settings say."""
        if turn.wait_for == "forwarded":
            settings = self._o.setup_in(turn.folder).settings
            await TurnForwarding(settings, self._o.store, lambda: self._o.sender).deliver(turn)

    async def successor(self, envelope: Envelope) -> str | None:
        """The turn of the agent that goes on, since the quota ended."""
        found: TurnRow | None = successor_of(self._o.store, self._o.find_turn(envelope.turn))
        return found.id if found is not None else None

    async def diff(self, envelope: Envelope) -> str:
        path = envelope.artifacts.get("diff")
        if path is None:
            return ""
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read(DIFF)
        except OSError:
            return ""  # somebody has removed it

    def machine(self, turn: str) -> str:
        return ""
