"""Sessions: found, made, continued, forked; and the turns that are run in them."""

import asyncio
import secrets
import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from ostler.agents import AGENTS
from ostler.errors import OstlerError
from ostler.settings import Profile, Settings
from ostler.words import Access, AnyEvent, Attachment, Envelope, Limits, Notice, Session, Transport, Turn
from ostler.work.artifacts import Recording
from ostler.work.attachments import attachment
from ostler.work.carry import Attempt
from ostler.work.prepare import check_prompt, prepare, server_of
from ostler.work.turn import TurnRun, name_and_model, new_row

if TYPE_CHECKING:
    from ostler.work.ostler import Ostler

_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # nothing that is misread
_POLL = 0.05


class Choice(Struct, frozen=True, kw_only=True):
    """Who takes a session's turns: an agent, a model, a profile, or none of them said."""

    agent: str
    model: str | None = None
    profile: str | None = None


def choose(settings: Settings, wanted: str | None) -> Choice:
    """By profile, name or model; without any, the default agent."""
    name = wanted or settings.default_agent
    if not name:
        raise OstlerError(
            "bad_request",
            "no agent was named and there is no default",
            f'Name one: ostler run claude "…" (agents: {", ".join(AGENTS)}), or set default_agent',
        )
    agent, model = name_and_model(settings, name)
    profile = name if name in settings.profiles and name not in AGENTS else None
    return Choice(agent=agent, model=model, profile=profile)


def new_session_id(taken: Any) -> str:
    """A short id that people can type; longer when short ones run out."""
    for size in (4, 4, 4, 5, 5, 6, 8, 12):
        id = "".join(secrets.choice(_ALPHABET) for _ in range(size))
        if not taken(id):
            return id
    return secrets.token_hex(16)


class LiveSession:
    """A session at work. `row` is what the store keeps of it, `last` the envelope of its last turn here."""

    def __init__(self, ostler: "Ostler", row: Session, *, stored: bool) -> None:
        self.ostler = ostler
        self.row = row
        self.last: Envelope | None = None
        self._stored = stored
        self._running: TurnRun | None = None

    @property
    def id(self) -> str:
        return self.row.id

    async def run(
        self,
        prompt: str,
        *,
        access: Access | None = None,
        model: str | None = None,
        system: str | None = None,
        tools_allowed: Sequence[str] | None = None,
        tools_denied: Sequence[str] | None = None,
        first_tools_allowed: Sequence[str] | None = None,
        first_tools_denied: Sequence[str] | None = None,
        attachments: Sequence[Attachment | str] = (),
        schema: dict[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        fallback: Sequence[str] | None = None,
        command: bool = False,
        wait: bool = False,
        record: Recording | None = None,
        transport: Transport | None = None,
    ) -> AsyncGenerator[AnyEvent, None]:
        """Runs one turn and yields its events; the last is `ended`, then `self.last` is its envelope.

        Raises OstlerError, and leaves nothing behind, when the turn cannot begin. Leaving the loop
        early cancels the turn.
        """
        check_prompt(prompt)
        self.ostler.start_warden()
        settings, profile = self.ostler.setup.settings, self._profile()
        first = self.row.turns == 0
        allowed = first_tools_allowed if first and first_tools_allowed is not None else tools_allowed
        denied = first_tools_denied if first and first_tools_denied is not None else tools_denied
        turn = Turn(
            id=f"{self.id}-{secrets.token_hex(5)}",
            session=self.id,
            agent=self.row.agent,
            prompt=prompt,
            folder=self.row.folder,
            access=access or self.row.access,
            model=model or self.row.model,
            profile=self.row.profile,
            system=system or self.row.system or profile.system,
            tools_allowed=tuple(allowed if allowed is not None else profile.tools_allowed or settings.tools_allowed),
            tools_denied=tuple(dict.fromkeys((*settings.tools_denied, *profile.tools_denied, *(denied or ())))),
            attachments=tuple(attachment(a) if isinstance(a, str) else a for a in attachments),
            schema=schema,
            env=dict(env or {}),
            limits=limits or profile.limits or settings.limits,
            fallback=tuple(fallback if fallback is not None else profile.fallback or settings.fallback),
            command=command,
            first=first,
            lean=settings.lean,
            transport=transport or self._usual_transport(),
            **self._conversation(),
        )
        first_attempt, notices, rest = await self._first_attempt(turn)
        events = self.carry(first_attempt, notices=notices, fallback=rest, wait=wait, record=record)
        async with aclosing(events):
            async for event in events:
                yield event

    async def cancel(self) -> None:
        """Cancels the turn that runs here, if one does; its events and envelope follow as usual."""
        if self._running is not None:
            self._running.cancel()

    async def fork(self, name: str | None = None) -> "LiveSession":
        """A new session that begins as a copy of this conversation, where the agent can."""
        agent = server_of(self.ostler.setup, AGENTS[self.row.agent])
        if not agent.forks:
            raise OstlerError("unsupported", f"{agent.name} cannot fork a conversation", "Start a new session")
        if self.row.agent_session is None:
            raise OstlerError("not_found", f"session {self.id} has no conversation to fork yet")
        row = self.ostler.new_row(
            agent=self.row.agent,
            folder=self.row.folder,
            name=name,
            access=self.row.access,
            model=self.row.model,
            profile=self.row.profile,
            system=self.row.system,
            title=self.row.title,
            served_by=self.row.served_by,
            fork_of=self.row.agent_session,  # the copy is made when its first turn comes
        )
        await self.ostler.setup.store.add_session(row)
        return LiveSession(self.ostler, row, stored=True)

    # -- one turn

    def _profile(self) -> Profile:
        return self.ostler.setup.settings.profiles.get(self.row.profile or "", Profile())

    def _usual_transport(self) -> Transport:
        """A process for each turn, unless the agent only holds dialogs."""
        agent = AGENTS.get(self.row.agent)
        return "dialog" if agent is not None and not agent.one_shot else "pipe"

    def _conversation(self) -> dict[str, Any]:
        if self.row.agent_session is not None:
            return {"agent_session": self.row.agent_session, "resume": True}
        if self.row.fork_of is not None:
            return {"agent_session": self.row.fork_of, "resume": True, "fork": True}
        return {"agent_session": str(uuid.uuid4())}

    async def carry(
        self,
        first: Attempt,
        *,
        notices: tuple[Notice, ...] = (),
        fallback: tuple[str, ...] = (),
        wait: bool = False,
        record: Recording | None = None,
    ) -> AsyncGenerator[AnyEvent, None]:
        """Stores the turn, runs it in a task that the Ostler owns, and yields its events."""
        next_seq = await self._take(first, wait)
        run = TurnRun(
            self.ostler.setup,
            self.ostler.warden,
            self.row,
            first,
            next_seq=next_seq,
            notices=notices,
            fallback=fallback,
            recording=record,
            dialogs=self.ostler.dialogs,
        )
        task = self.ostler.track(run)
        self._running = run
        try:
            async for event in run.journal.read():
                yield event
        finally:
            if run.journal.ended is None:
                run.cancel("the turn was left")
            self.last = await _to_the_end(task, run)
            self._running = None
            self.row = self.ostler.store.session(self.id) or self.row

    async def _take(self, first: Attempt, wait: bool) -> int:
        """The session's row is committed before anything is spawned; returns the next seq."""
        if not self._stored:
            self.row = structs.replace(self.row, served_by=first.served_by, title=_title(first))
            await self.ostler.store.add_session(first.redactor.clean(self.row))
            self._stored = True
        return await self._take_session(first, wait)

    async def _first_attempt(self, turn: Turn) -> tuple[Attempt, tuple[Notice, ...], tuple[str, ...]]:
        """The first agent of the list that is there at all."""
        setup = self.ostler.setup
        self._check_server(turn)
        try:
            return await prepare(setup, turn), (), turn.fallback
        except OstlerError as error:
            if error.kind != "missing" or not turn.fallback:
                raise
            failure = error
        notices: list[Notice] = []
        for n, name in enumerate(turn.fallback):
            notices.append(Notice(code="fallback", text=f"{turn.agent}: {failure.message}; {name} takes the turn"))
            agent, model = name_and_model(setup.settings, name)
            turn = structs.replace(
                turn, agent=agent, model=model, agent_session=str(uuid.uuid4()), resume=False, fork=False
            )
            try:
                return await prepare(setup, turn), tuple(notices), turn.fallback[n + 1 :]
            except OstlerError as error:
                failure = error
        raise failure

    def _check_server(self, turn: Turn) -> None:
        """A scripted conversation is nothing a real agent could resume, nor the other way round."""
        server = server_of(self.ostler.setup, AGENTS[turn.agent])
        if turn.resume and self.row.served_by and self.row.served_by != server.name:
            raise OstlerError(
                "denied",
                f"session {self.id} was served by {self.row.served_by}, not by {server.name}",
                "Start a new session",
            )

    async def _take_session(self, first: Attempt, wait: bool) -> int:
        """The next seq, once the session is ours. Raises busy, unless `wait`."""
        store, row = self.ostler.store, new_row(first, self.ostler.desk.id)
        try:
            return await store.begin_turn(row)
        except OstlerError as error:
            if error.kind != "busy":
                raise
            busy = error
        if await self.ostler.end_orphaned_turns():
            return await self._take_session(first, wait)
        if not wait:
            raise busy
        await store.queue_turn(structs.replace(row, state="queued"))
        return await self.ostler.wait_in_line(first.turn)


async def _to_the_end(task: "asyncio.Task[Envelope]", run: TurnRun) -> Envelope:
    """Waits for the turn's end, also while this very task is being cancelled."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            cancelled = True
            run.cancel()
    if cancelled:
        task.result()
        raise asyncio.CancelledError
    return task.result()


def _title(first: Attempt) -> str:
    prompt = first.redactor.text(first.turn.prompt)
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return line if len(line) <= 80 else line[:79] + "…"


def expires(settings: Settings, now: float | None = None) -> float:
    return (time.time() if now is None else now) + settings.ttl_days * 86400
