"""A session at work, and the turns that are run in it."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, Unpack

from msgspec import Struct, structs

from ostler.errors import OstlerError, quoted
from ostler.model import (
    AnyEvent,
    Ended,
    Envelope,
    Notice,
    Session,
    SignalName,
    TransportName,
    Turn,
    TurnDefaults,
    TurnOptions,
    TurnRow,
)
from ostler.process import Size
from ostler.store import Redactor
from ostler.store.once import Once
from ostler.work.known_agents import name_and_model
from ostler.work.pool.pool import limited_error
from ostler.work.pool.quota import account_of
from ostler.work.sessions.context import SessionContext
from ostler.work.sessions.manual import held_error, held_screen
from ostler.work.sessions.preflight import check_resume
from ostler.work.sessions.rows import new_session_row
from ostler.work.terminals.turn_terminal import AgentTerminal, TurnTerminal
from ostler.work.transports.facts import TRANSPORT_FACTS
from ostler.work.transports.stop import Stop, unless_stopped
from ostler.work.transports.transport import Attempt
from ostler.work.turns.artifacts import Recording
from ostler.work.turns.asking import asked_by
from ostler.work.turns.checks import check_prompt
from ostler.work.turns.environment import secrets as secret_values
from ostler.work.turns.handle import TurnHandle
from ostler.work.turns.keywords import RunKeywords, options_from
from ostler.work.turns.options import (
    check_options,
    merged,
    resolve_turn,
    taken_over,
)
from ostler.work.turns.prepare import prepare
from ostler.work.turns.run import TurnRun, new_row
from ostler.work.turns.setup import Setup, server_of

if TYPE_CHECKING:
    from ostler.work.sessions.moving import MidTurn
    from ostler.work.terminals.terminal import Terminal


class Prepared(Struct, frozen=True, kw_only=True):
    """A turn that could run now, and who takes it if the first agent cannot."""

    prompt: str
    options: TurnOptions  # what was asked for, before settings and trust were looked at
    attempt: Attempt
    setup: Setup  # with the settings of its folder, as they were then
    notices: tuple[Notice, ...] = ()
    fallback: tuple[str, ...] = ()


# What others may have changed since: it was moved, or its screen was opened. The rest may not be stored yet.
_CHANGED_ELSEWHERE = ("transport", "moving_to", "agent_session", "fork_of")


class LiveSession:
    """A session at work. `row` is what the store keeps of it, `last` the envelope of its last turn here."""

    def __init__(
        self, context: SessionContext, row: Session, *, stored: bool, options: TurnDefaults | None = None
    ) -> None:
        self.context = context
        self.row = row
        self.options = options or TurnDefaults()  # of all turns that are run through it
        self.last: Envelope | None = None
        self._stored = stored
        self._stops: list[Stop] = []  # of the turns that are being prepared, wait, or run here; the oldest first

    def __repr__(self) -> str:
        name = f" {self.row.name!r}" if self.row.name else ""
        return f"<LiveSession {self.id}{name}: {self.row.agent} in {self.row.folder}, {self.row.state}>"

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def setup(self) -> Setup:
        """With the settings of its folder, as they are now."""
        return self.context.setup_in(self.row.folder)

    def run(self, prompt: str, options: TurnOptions | None = None, **keywords: Unpack[RunKeywords]) -> TurnHandle:
        """One turn: `envelope = await session.run("…")`, or `async for event in session.run("…")`.

        It begins when it is awaited or iterated, and raises OstlerError then if it cannot. The last event is `ended`.
        When another agent goes on since the quota ended, its events follow, and the envelope is its own.
        """
        wait, record = keywords.pop("wait", False), keywords.pop("record", None)
        resolved = options_from(keywords, options)
        return TurnHandle(lambda turn: self._run(turn, prompt, resolved, wait, record))

    async def _run(
        self, turn: TurnHandle, prompt: str, options: TurnOptions, wait: bool, record: Recording | None
    ) -> AsyncGenerator[AnyEvent, None]:
        with self._cancellable(turn.stop):
            prepared = await self.prepare(prompt, options, turn.stop)
            async with aclosing(self.run_prepared(turn, prepared, wait=wait, record=record)) as events:
                async for event in events:
                    yield event

    async def cancel(self, signal: SignalName | None = None) -> None:
        """Cancels the turn that runs here, if one does; its events and envelope follow as usual.

        With `signal` its processes get that. One that is still being prepared, or waits, has neither: its `run`
        raises `cancelled`.
        """
        if self._stops:
            self._stops[0].cancel(signal=signal)

    @contextmanager
    def _cancellable(self, stop: Stop) -> Iterator[None]:
        self._stops.append(stop)
        try:
            with self.context.turns.cancellable(stop):
                yield
        finally:
            self._stops.remove(stop)

    async def open_tui(self, *, cols: int = 120, rows: int = 30, **keywords: Unpack[RunKeywords]) -> "Terminal":
        """Starts the agent's own screen without a turn; the next turns with the same options use it (`pty`).

        It ends when it is not used for `tui_idle`. Raises unsupported, and what keeps a turn from beginning.
        """
        await self.keep()
        options = options_from({**keywords, "transport": "pty"})
        prepared = await self._prepare("(none)", options)  # which is not typed
        attempt = structs.replace(prepared.attempt, size=Size(cols, rows))
        services, last = self.context.services, self.context.store.turns(self.id)
        id = await services.keepers.tuis.open(
            attempt, prepared.setup.settings.tui_idle, last[-1].turn.id if last else None
        )
        return await services.terminals().locate(id)

    async def terminal(self) -> "Terminal":
        """The session's primary terminal, wherever it lives: its snapshot, text, input, wait. Raises not_found."""
        return await self.context.services.terminals().locate_primary(self.id)

    async def fork(self, name: str | None = None) -> "LiveSession":
        """A new session that begins as a copy of this conversation, where the agent can."""
        agent = server_of(self.setup, self.row.agent)
        if not agent.forks:
            raise OstlerError("unsupported", f"{agent.name} cannot fork a conversation", "Start a new session")
        if self.row.agent_session is None:
            raise OstlerError("not_found", f"session {self.row.label} has no conversation to fork yet")
        row = new_session_row(
            self.context.store,
            self.setup.settings,
            agent=self.row.agent,
            folder=self.row.folder,
            name=name,
            access=self.row.access,
            model=self.row.model,
            profile=self.row.profile,
            system=self.row.system,
            system_mode=self.row.system_mode,
            title=self.row.title,
            served_by=self.row.served_by,
            fork_of=self.row.agent_session,  # the copy is made when its first turn comes
        )
        await self.context.store.add_session(row, unique=True)
        return LiveSession(self.context, row, stored=True)

    async def move(self, transport: TransportName, mid_turn: "MidTurn | None" = None) -> Session:
        """From its next turn on the session has this transport, in the same conversation. See `Ostler.move`."""
        from ostler.work.sessions.moving import check_move, move_session

        if self._stored:
            self.row = await move_session(self.context, self.row, transport, mid_turn)
        else:
            check_move(self.setup, self.row, transport)
            self.row = structs.replace(self.row, transport=transport)
        return self.row

    async def keep(self) -> Session:
        """Stores a new session before its first turn. `exists` for a name that another one has."""
        if not self._stored:
            setup = self.setup
            known = Redactor(secret_values(setup.environ, {}, setup.settings.redact))
            served_by = server_of(setup, self.row.agent).name
            await self._store(known.clean(structs.replace(self.row, served_by=served_by)))
        return self.row

    # -- one turn

    async def prepare(self, prompt: str, options: TurnOptions, stop: Stop) -> Prepared:
        """The turn, ready to run. Raises OstlerError where it cannot, or when it is stopped; writes nothing."""
        prepared = await unless_stopped(self._prepare(prompt, options), stop)
        stop.turn = prepared.attempt.turn.id
        return prepared

    async def _prepare(self, prompt: str, options: TurnOptions, id: str | None = None) -> Prepared:
        """`id` is that of the turn where it has one already."""
        check_prompt(prompt)
        options = merged(options, self.options)
        self.context.start_warden()
        if self._stored and (stored := self.context.store.session(self.id)) is not None:
            self.row = structs.replace(self.row, **{name: getattr(stored, name) for name in _CHANGED_ELSEWHERE})
        setup, services = self.setup, self.context.services
        self._check_profile(setup)
        check_options(options, setup.settings)
        turn = resolve_turn(prompt, options, self.row, setup.settings)
        turn = structs.replace(turn, id=id or turn.id, **asked_by(self.context.store, setup.environ))
        self._check_server(setup, turn)
        if turn.resume and not services.keepers.holds(self.id):
            await check_resume(setup, self.row, turn, explicit=options.access is not None)
        if not turn.resume and turn.transport == "pty" and (held := services.keepers.chosen_id(self.id)):
            kept = structs.replace(turn, agent_session=held)
            prepared = await self._first_attempt(setup, kept, prompt, options)
            if services.keepers.tuis.reserve(prepared.attempt):
                return prepared
        return await self._first_attempt(setup, turn, prompt, options)

    async def run_prepared(
        self, turn: TurnHandle, prepared: Prepared, *, wait: bool = False, record: Recording | None = None
    ) -> AsyncGenerator[AnyEvent, None]:
        """Stores the turn, runs it in a task that the Ostler owns, and yields its events."""
        stop = turn.stop
        next_seq, prepared = await self._in_turn(prepared, wait, stop)
        run = self.turn_run(prepared, next_seq, stop, record)
        task = self.context.turns.track(run)
        try:
            async for event in run.journal.read():
                if run.successor is None or not isinstance(event, Ended):  # the end of the work is the successor's
                    yield event
        finally:
            if run.journal.ended is None:
                stop.cancel("its caller stopped reading events")
            turn.envelope = self.last = await _to_the_end(task, stop)
            self.row = run.session_after or self.context.store.session(self.id) or self.row
        if run.successor is not None:
            from ostler.work.sessions.successors import successor_events

            async with aclosing(successor_events(self.context, turn, run.successor.id)) as events:
                async for event in events:
                    yield event
            self.last = turn.envelope

    async def _in_turn(self, prepared: Prepared, wait: bool, stop: Stop) -> tuple[int, Prepared]:
        """The seq of the first event once the turn is stored and may begin, and the turn as it is then."""
        begun = await self._begun_at_once(prepared, wait)
        if begun == "queued":
            return await self.wait_in_line(prepared, stop)
        if begun is not None:
            return begun, prepared
        placing = asyncio.ensure_future(self.place(prepared, wait))
        try:
            next_seq = await asyncio.shield(placing)
        except asyncio.CancelledError as error:
            await asyncio.wait([placing])  # what the store was given is committed whoever waits for it
            if placing.exception() is None:
                await self.context.turns.give_up(prepared.attempt.turn, error)
            raise
        if next_seq is None:
            return await self.wait_in_line(prepared, stop)
        assert isinstance(next_seq, int)
        return next_seq, prepared

    async def _begun_at_once(self, prepared: Prepared, wait: bool) -> int | Literal["queued"] | None:
        """The seq of its first event where nothing is in the way, as in most turns; else None, and nothing was done.

        "queued": the pool has no room for it.
        """
        if not self._stored or not self.row.title or held_screen(self.context, self.id) is not None:
            return None
        row = self._row_of(prepared)
        try:
            begun = await self.context.store.begin_turn(row, self.context.turns.pool.gate(wait))
            return "queued" if begun is None else begun
        except OstlerError as error:
            if error.kind != "busy":
                raise
            return None
        except asyncio.CancelledError as error:  # which comes once it is known whether the turn has begun
            if self.context.store.turn(row.id) is not None:
                await self.context.turns.give_up(row.turn, error)
            raise

    def turn_run(self, prepared: Prepared, next_seq: int, stop: Stop, record: Recording | None = None) -> TurnRun:
        first, terminal = prepared.attempt, None
        facts = TRANSPORT_FACTS[first.transport]
        if self.context.warms and facts.can_be_warm and prepared.setup.settings.pool.warm:
            from ostler.work.sessions.warm import warm_up

            self.context.turns.own(warm_up(self, prepared))
        if not facts.has_own_terminal:
            terminal = self._terminal_of(first)
        return TurnRun(
            prepared.setup,
            self.context.services,
            self.row,
            first,
            next_seq=next_seq,
            notices=prepared.notices,
            fallback=prepared.fallback,
            recording=record,
            stop=stop,
            terminal=terminal,
            hand_on=self._hand_on,
        )

    def _terminal_of(self, first: Attempt) -> TurnTerminal:
        if first.turn.agent != "exec":
            return AgentTerminal(self.context.terminal, self.row, first.turn)
        from ostler.work.terminals.output_terminal import OutputTerminal

        return OutputTerminal(self.context.terminal, self.row, first.turn, first.redactor, first.shown)

    async def _hand_on(self, turn: Turn, envelope: Envelope, name: str, left: tuple[str, ...]) -> TurnRow:
        from ostler.work.sessions.hand import hand_on

        ending = TurnRow(
            id=turn.id, session=self.id, state="ended", turn=turn, created_at=envelope.started_at, envelope=envelope
        )
        return await hand_on(self.context, self.row, ending, name, left)

    async def place(self, prepared: Prepared, wait: bool, once: Once | None = None) -> int | str | None:
        """Commits the turn before anything is spawned: the seq of its first event, or None once it is queued.

        The id of another turn if `once` began one before. Raises busy, unless `wait`.
        """
        first = prepared.attempt
        if not self._stored:
            session = structs.replace(self.row, served_by=first.served_by, title=_title(first))
            await self._store(first.redactor.clean(session))
        row = self._row_of(prepared)
        placed: int | str | None
        try:
            if (held := held_screen(self.context, self.id)) is not None:
                raise held_error(held)
            placed = await self._begin(row, once, wait)
        except OstlerError as error:
            if error.kind != "busy":
                raise
            if await self.context.turns.end_orphaned():
                return await self.place(prepared, wait, once)
            if not wait:
                raise
            placed = await self._queue(structs.replace(row, state="queued"), once)
        if not self.row.title and not isinstance(placed, str):
            self.row = await self.context.store.change_session(self.id, title=_title(first))
        return placed

    async def wait_in_line(self, prepared: Prepared, stop: Stop) -> tuple[int, Prepared]:
        """The first seq once a queued turn may begin, and the turn as it is then."""
        turn, turns = prepared.attempt.turn, self.context.turns
        next_seq = await turns.wait_in_line(turn, stop)
        try:
            now = turns.despite_store(turn, stop, lambda: self._as_of_now(prepared))
            return next_seq, await unless_stopped(now, stop)
        except BaseException as error:
            await turns.give_up(turn, error)
            raise

    async def _as_of_now(self, prepared: Prepared) -> Prepared:
        """The turn by the settings and the trust of this moment, in the conversation that the turns before it made."""
        self.row = self.context.store.session(self.id) or self.row
        now = await self._prepare(prepared.prompt, prepared.options, prepared.attempt.turn.id)
        await self.context.store.renew_turn(new_row(now.attempt, self.context.owner).turn)
        return now

    async def _store(self, row: Session) -> None:
        await self.context.store.add_session(row, unique=True)
        self.row, self._stored = row, True

    def _row_of(self, prepared: Prepared) -> TurnRow:
        """The turn as it is stored, with what it asks of the pool. Raises over_budget."""
        pool, settings, turn = self.context.turns.pool, prepared.setup.settings, prepared.attempt.turn
        pool.check(turn, settings)
        claim = pool.claim_of(turn, settings)
        return structs.replace(new_row(prepared.attempt, self.context.owner), claim=claim)

    async def _begin(self, row: TurnRow, once: Once | None, wait: bool) -> int | str | None:
        """None: the pool has no room for it, and it is queued."""
        store, gate = self.context.store, self.context.turns.pool.gate(wait)
        return await (store.begin_turn(row, gate) if once is None else store.begin_turn_once(row, once, gate))

    async def _queue(self, row: TurnRow, once: Once | None) -> str | None:
        if once is not None:
            return await self.context.store.queue_turn_once(row, once)
        await self.context.store.queue_turn(row)
        return None

    async def _first_attempt(self, setup: Setup, turn: Turn, prompt: str, options: TurnOptions) -> Prepared:
        """The first agent of the list that is there at all."""
        notices = settings_notices(setup)
        ready = partial(Prepared, prompt=prompt, options=options, setup=setup)
        try:
            self._check_quota(setup, turn)
            return ready(attempt=await prepare(setup, turn), notices=notices, fallback=turn.fallback)
        except OstlerError as error:
            if error.kind not in ("missing", "limited") or not turn.fallback:
                raise
            failure = error
        for n, name in enumerate(turn.fallback):
            text = f"{turn.agent}: {failure.message}; {name} takes the turn"
            notices = (*notices, Notice(code="fallback", text=text))
            agent, model = name_and_model(setup.settings, name)
            turn = taken_over(turn, agent, model)
            try:
                self._check_quota(setup, turn)
                attempt = await prepare(setup, turn)
                return ready(attempt=attempt, notices=notices, fallback=turn.fallback[n + 1 :])
            except OstlerError as error:
                failure = error
        raise failure

    def _check_quota(self, setup: Setup, turn: Turn) -> None:
        """Raises limited while the agent's quota is used up and another may take the turn. Without one it waits."""
        account = account_of(turn, setup.settings)
        if turn.fallback and (until := self.context.turns.pool.parked().get(account)) is not None:
            raise limited_error(account, until)

    def _check_profile(self, setup: Setup) -> None:
        """Without its profile a session would go on without the limits and the denied tools of that."""
        name = self.row.profile
        if name is not None and name not in setup.settings.profiles:
            message = f"session {self.row.label} uses the profile {quoted(name)}, which no longer exists here"
            hint = ". ".join(setup.notices) or "Put it back, or start a new session"
            raise OstlerError("not_found", message, hint)

    def _check_server(self, setup: Setup, turn: Turn) -> None:
        """A scripted conversation is nothing a real agent could resume, nor the other way round."""
        server = server_of(setup, turn.agent)
        if turn.resume and self.row.served_by and self.row.served_by != server.name:
            raise OstlerError(
                "denied",
                f"session {self.row.label} was served by {self.row.served_by}, not by {server.name}",
                "Start a new session",
            )


async def _to_the_end(task: "asyncio.Task[Envelope]", stop: Stop) -> Envelope:
    """Waits for the turn's end, also while this very task is being cancelled."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            cancelled = True
            stop.cancel()
    if cancelled:
        task.result()
        raise asyncio.CancelledError
    return task.result()


def settings_notices(setup: Setup) -> tuple[Notice, ...]:
    """What of the folder's settings was left out, for the turn that they hold for."""
    return tuple(Notice(code="settings", text=text) for text in setup.notices)


def _title(first: Attempt) -> str:
    prompt = first.redactor.text(first.turn.prompt)
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return line if len(line) <= 80 else line[:79] + "…"
