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
from ostler.settings import Settings
from ostler.store import Redactor
from ostler.store.once import Once
from ostler.words import Access, AnyEvent, Attachment, Envelope, Limits, Notice, Session, Transport, Turn, TurnRow
from ostler.work.artifacts import Recording
from ostler.work.carry import Attempt
from ostler.work.environment import secrets as secret_values
from ostler.work.preflight import check_resume
from ostler.work.prepare import check_prompt, prepare, server_of
from ostler.work.servers import Wanted, servers_of
from ostler.work.turn import TurnRun, name_and_model, new_row
from ostler.work.wishes import Wishes, conversation_of, turn_of

if TYPE_CHECKING:
    from ostler.work.ostler import Ostler

_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # nothing that is misread


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


class Prepared(Struct, frozen=True, kw_only=True):
    """A turn that could be carried now, and who takes it if the first agent cannot."""

    attempt: Attempt
    notices: tuple[Notice, ...] = ()
    fallback: tuple[str, ...] = ()


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
        mode: str | None = None,
        mcp: Sequence[Wanted] | None = None,
    ) -> AsyncGenerator[AnyEvent, None]:
        """Runs one turn and yields its events; the last is `ended`, then `self.last` is its envelope.

        Raises OstlerError, and leaves nothing behind, when the turn cannot begin. Leaving the loop
        early cancels the turn.
        """
        wishes = Wishes(
            prompt=prompt,
            access=access,
            model=model,
            system=system,
            tools_allowed=tools_allowed,
            tools_denied=tools_denied,
            first_tools_allowed=first_tools_allowed,
            first_tools_denied=first_tools_denied,
            attachments=attachments,
            schema=schema,
            env=env,
            limits=limits,
            fallback=fallback,
            command=command,
            transport=transport,
            mode=mode,
            mcp=servers_of(mcp, self.ostler.settings) if mcp is not None else None,
        )
        prepared = await self.prepare(wishes)
        events = self.carry(prepared, wait=wait, record=record)
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
        await self.ostler.store.add_session(row, unique=True)
        return LiveSession(self.ostler, row, stored=True)

    async def keep(self) -> Session:
        """Stores a new session before its first turn. `exists` for a name that another one has."""
        if not self._stored:
            known = Redactor(secret_values(self.ostler.setup.environ, {}, self.ostler.settings.redact))
            served_by = server_of(self.ostler.setup, AGENTS[self.row.agent]).name
            await self._store(known.clean(structs.replace(self.row, served_by=served_by)))
        return self.row

    # -- one turn

    async def prepare(self, wishes: Wishes) -> Prepared:
        """The turn, ready to be carried. Raises OstlerError for all that cannot work; writes nothing."""
        check_prompt(wishes.prompt)
        self.ostler.start_warden()
        turn = turn_of(wishes, self.row, self.ostler.settings)
        self._check_server(turn)
        if turn.resume and not self.ostler.dialogs.holds(self.id):
            await check_resume(self.ostler.setup, self.row, turn, explicit=wishes.access is not None)
        return await self._first_attempt(turn)

    async def carry(
        self, prepared: Prepared, *, wait: bool = False, record: Recording | None = None
    ) -> AsyncGenerator[AnyEvent, None]:
        """Stores the turn, runs it in a task that the Ostler owns, and yields its events."""
        next_seq = await self.place(prepared, wait)
        if next_seq is None:
            next_seq, prepared = await self.wait_in_line(prepared)
        assert isinstance(next_seq, int)
        run = self.turn_run(prepared, next_seq, record)
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

    def turn_run(self, prepared: Prepared, next_seq: int, record: Recording | None = None) -> TurnRun:
        return TurnRun(
            self.ostler.setup,
            self.ostler.warden,
            self.row,
            prepared.attempt,
            next_seq=next_seq,
            notices=prepared.notices,
            fallback=prepared.fallback,
            recording=record,
            dialogs=self.ostler.dialogs,
        )

    async def place(self, prepared: Prepared, wait: bool, once: Once | None = None) -> int | str | None:
        """Commits the turn before anything is spawned: the seq of its first event, or None once it is queued.

        The id of another turn if `once` began one before. Raises busy, unless `wait`.
        """
        first = prepared.attempt
        if not self._stored:
            session = structs.replace(self.row, served_by=first.served_by, title=_title(first))
            await self._store(first.redactor.clean(session))
        row = new_row(first, self.ostler.desk.id)
        placed: int | str | None
        try:
            placed = await self._begin(row, once)
        except OstlerError as error:
            if error.kind != "busy":
                raise
            if await self.ostler.turns.end_orphaned():
                return await self.place(prepared, wait, once)
            if not wait:
                raise
            placed = await self._queue(structs.replace(row, state="queued"), once)
        if not self.row.title and not isinstance(placed, str):
            self.row = await self.ostler.store.change_session(self.id, title=_title(first))
        return placed

    async def wait_in_line(self, prepared: Prepared) -> tuple[int, Prepared]:
        """The first seq once a queued turn may begin, and the turn as it is then."""
        turn = prepared.attempt.turn
        next_seq = await self.ostler.turns.wait_in_line(turn)
        try:
            return next_seq, await self._as_of_now(prepared)
        except BaseException as error:
            await self.ostler.turns.give_up(turn, error)
            raise

    async def _as_of_now(self, prepared: Prepared) -> Prepared:
        """The turns before it have made the conversation that it is to go on with, and had their price."""
        self.row = self.ostler.store.session(self.id) or self.row
        turn, kept = prepared.attempt.turn, self.row.agent_session
        if kept is None or turn.agent != self.row.agent or (turn.resume and turn.agent_session == kept):
            return prepared
        turn = structs.replace(turn, first=False, **conversation_of(self.row))
        return structs.replace(prepared, attempt=await prepare(self.ostler.setup, turn))

    async def _store(self, row: Session) -> None:
        await self.ostler.store.add_session(row, unique=True)
        self.row, self._stored = row, True

    async def _begin(self, row: TurnRow, once: Once | None) -> int | str:
        store = self.ostler.store
        return await (store.begin_turn(row) if once is None else store.begin_turn_once(row, once))

    async def _queue(self, row: TurnRow, once: Once | None) -> str | None:
        if once is not None:
            return await self.ostler.store.queue_turn_once(row, once)
        await self.ostler.store.queue_turn(row)
        return None

    async def _first_attempt(self, turn: Turn) -> Prepared:
        """The first agent of the list that is there at all."""
        setup = self.ostler.setup
        try:
            return Prepared(attempt=await prepare(setup, turn), fallback=turn.fallback)
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
                return Prepared(
                    attempt=await prepare(setup, turn), notices=tuple(notices), fallback=turn.fallback[n + 1 :]
                )
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
