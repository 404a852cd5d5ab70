"""The door to everything: one `Ostler` for each process that works on a state folder."""

import asyncio
import os
import shlex
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import structs

from ostler.agents import AGENTS, Agent, Conversation, any_acp
from ostler.errors import OstlerError
from ostler.process import Size, Warden, raise_fd_limit
from ostler.settings import Settings
from ostler.store import Store
from ostler.words import (
    Access,
    Answered,
    AnyEvent,
    Asked,
    Envelope,
    Limits,
    Offered,
    Session,
    Turn,
    TurnRow,
)
from ostler.work.adopt import found, listed, lists
from ostler.work.asks import Answer
from ostler.work.call_terminals import CallTerminals
from ostler.work.carry_tty import carry_tty
from ostler.work.command import command_attempt
from ostler.work.dialogs import Dialogs
from ostler.work.owner import OwnerDesk, Request, alive, ask_owner
from ostler.work.prepare import NotesCache, Setup, check_folder, server_of
from ostler.work.probe import AgentReport, report
from ostler.work.sessions import LiveSession, Prepared, choose, expires, new_session_id
from ostler.work.turn import TurnRun
from ostler.work.turn_terminal import TurnTerminal
from ostler.work.turns import Turns, change_since

if TYPE_CHECKING:
    from ostler.terminal.screen import Screens
    from ostler.work.terminals import Terminals


class Ostler:
    """Sessions and turns on one state folder. Use `async with`: at the end nothing is left running."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], role: str = "api") -> None:
        any_acp.add(AGENTS, settings.acp)
        self.setup = Setup(settings=settings, environ=dict(environ), store=_open_store(settings))
        self.desk = OwnerDesk(self.store, role)
        self._stays = role == "up"
        self._warden: asyncio.Task[Warden] | None = None
        self.dialogs = Dialogs(self.warden, settings.dialog_idle, partial(CallTerminals, self), self.store.turn_before)
        self.turns = Turns(self.store, self.desk)
        self.last_exec: Envelope | None = None
        self.turn_terminals: dict[str, TurnTerminal] = {}  # what the turns of this process say, by terminal

    @cached_property
    def terminals(self) -> "Terminals":
        # Imported when first used: a turn that nobody watches needs nothing of it.
        from ostler.work.terminals import Terminals

        return Terminals(self)

    @cached_property
    def screens(self) -> "Screens":
        from ostler.terminal.screen import Screens

        return Screens()

    @property
    def store(self) -> Store:
        return self.setup.store

    @property
    def settings(self) -> Settings:
        return self.setup.settings

    async def __aenter__(self) -> Self:
        raise_fd_limit()
        try:
            await self.desk.open(self._answer, self._stream)
            await self.turns.end_orphaned()
        except BaseException:
            self.store.close()
            raise
        if self._stays:
            self.turns.look_after()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.turns.close()
        async with AsyncExitStack() as rest:  # the last one first, whatever fails
            rest.callback(self.store.close)
            if "screens" in self.__dict__:
                rest.push_async_callback(self.screens.close)
            rest.push_async_callback(self.desk.close)
            if self._warden is not None and (warden := await _started(self._warden)) is not None:
                rest.push_async_callback(warden.close)
            if "terminals" in self.__dict__:
                rest.push_async_callback(self.terminals.close)
            rest.push_async_callback(self.dialogs.close)

    # -- sessions

    async def session(
        self,
        agent: str | None = None,
        *,
        folder: str | None = None,
        session: str | None = None,
        name: str | None = None,
        resume_last: bool = False,
        agent_session: str | None = None,
        model: str | None = None,
        access: Access | None = None,
        system: str | None = None,
    ) -> LiveSession:
        """An existing session (`session`, `resume_last`) or a new one, which is stored with its first turn."""
        if session is not None or resume_last:
            row = self.find(session) if session is not None else self._latest(agent, folder)
            self._check_continues(row, agent, folder)
            return LiveSession(self, row, stored=True)
        choice = choose(self.settings, agent)
        profile = self.settings.profiles.get(choice.profile or "")
        if name is not None and self._named(name):
            raise OstlerError("exists", f"there is a session named {name!r} already", f"Go on with --session {name}")
        row = self.new_row(
            agent=choice.agent,
            folder=check_folder(folder or "."),
            name=name,
            access=access or (profile.access if profile else None) or self.settings.access,
            model=model or choice.model,
            profile=choice.profile,
            system=system,
            agent_session=agent_session,
        )
        return LiveSession(self, row, stored=False)

    def new_row(self, **fields: Any) -> Session:
        now = time.time()
        id = new_session_id(lambda id: self.store.session(id) is not None)
        return Session(id=id, created_at=now, used_at=now, expires_at=expires(self.settings, now), **fields)

    def sessions(self) -> list[Session]:
        return self.store.sessions()

    def find(self, key: str) -> Session:
        """By id, name or unique beginning of an id. Raises not_found or bad_request (ambiguous)."""
        found = self.store.find(key) if key else []
        if not found:
            raise OstlerError("not_found", f"no session is called {key!r}", "List them: ostler sessions")
        exact = [row for row in found if key in (row.id, row.name)]
        if len(found) > 1 and len(exact) != 1:
            ids = ", ".join(row.id for row in found[:5])
            raise OstlerError("bad_request", f"{key!r} could be any of {ids}", "Give more of the id")
        return exact[0] if exact else found[0]

    def find_turn(self, id: str) -> TurnRow:
        """By its id. Raises not_found."""
        row = self.store.turn(id)
        if row is None:
            raise OstlerError("not_found", f"there is no turn {id!r}")
        return row

    def _named(self, name: str) -> bool:
        return any(row.name == name for row in self.store.find(name))

    def _latest(self, agent: str | None, folder: str | None) -> Session:
        where = check_folder(folder or ".")
        name = choose(self.settings, agent).agent if agent else None
        known = [row for row in self.store.sessions() if row.folder == where and name in (None, row.agent)]
        found = next((row for row in known if row.agent != "exec"), None)
        if found is None:
            who = f"{name} session" if name else "session"
            raise OstlerError("not_found", f"no {who} in {where} to continue", "Leave out --continue to begin one")
        return found

    def _check_continues(self, row: Session, agent: str | None, folder: str | None) -> None:
        if row.expires_at is not None and row.expires_at < time.time():
            raise OstlerError("not_found", f"session {row.id} has expired", "Begin a new one")
        if agent is not None and choose(self.settings, agent).agent != row.agent:
            raise OstlerError("bad_request", f"session {row.id} is with {row.agent}, not with {agent}")
        if folder is not None and check_folder(folder) != row.folder:
            raise OstlerError(
                "bad_request", f"session {row.id} belongs to {row.folder}", "Leave out --folder, or begin a new one"
            )
        check_folder(row.folder)

    # -- following

    def events(self, session_id: str, after: int = 0) -> list[AnyEvent]:
        return self.store.events(session_id, after=after)

    def offered(self, session_id: str) -> Offered | None:
        """What the session's agent has, as its dialog last told. None: no dialog of it has told yet."""
        event = self.store.last_event(session_id, "offered")
        return event if isinstance(event, Offered) else None

    async def follow(self, session_id: str, after: int = 0, forever: bool = False) -> AsyncIterator[AnyEvent]:
        """A session's events, whoever writes them, until it is idle (or for ever)."""
        while True:
            version = self.store.data_version()
            idle = not any(row.session == session_id for row in self.store.running_turns())
            for event in self.store.events(session_id, after=after):
                yield event
                after = event.seq
            if idle and not forever:
                return
            await change_since(self.store, version)

    # -- cancelling, pruning, adopting, looking

    async def cancel(self, key: str) -> bool:
        """Tells the owner of that session's turn to cancel it. False: no turn runs."""
        row = self.find(key)
        await self.turns.end_orphaned()
        waiting = [turn for turn in self.store.running_turns() if turn.session == row.id]
        for turn in waiting:
            await self._tell_owner_to_cancel(turn)
        return bool(waiting)

    async def answer(self, key: str, answer: Answer) -> None:
        """Answers an ask of that session's turn, whichever process runs it. `ask` may be empty if only one is open."""
        turn = self._asking_turn(key)
        if not answer.ask:
            answer = structs.replace(answer, ask=self._only_ask(turn))
        request = {"op": "answer", "turn": turn.id, "answer": msgspec.to_builtins(answer)}
        await self._tell_owner(turn, request)

    async def steer(self, key: str, text: str, by: str = "you") -> None:
        """Tells the running turn of that session more, where the agent can."""
        turn = self._running_turn(self.find(key))
        await self._tell_owner(turn, {"op": "steer", "turn": turn.id, "text": text, "by": by})

    def open_asks(self, turn: str) -> list[Asked]:
        """The asks of a turn that nobody has answered."""
        row = self.store.turn(turn)
        if row is None or row.state == "ended":
            return []
        events = self.store.events(row.session, turn=turn)
        answered = {event.id for event in events if isinstance(event, Answered)}
        return [event for event in events if isinstance(event, Asked) and event.id not in answered]

    def _asking_turn(self, key: str) -> TurnRow:
        turn = self.store.turn(key)
        return turn if turn is not None else self._running_turn(self.find(key))

    def _only_ask(self, turn: TurnRow) -> str:
        asks = self.open_asks(turn.id)
        if not asks:
            raise OstlerError("not_found", f"nothing is asked in session {turn.session}")
        if len(asks) > 1:
            raise OstlerError("bad_request", "several asks are open", f"Name one: {', '.join(a.id for a in asks)}")
        return asks[0].id

    def _running_turn(self, row: Session) -> TurnRow:
        running = [turn for turn in self.store.running_turns() if turn.session == row.id and turn.state != "queued"]
        if not running:
            raise OstlerError("not_found", f"no turn runs in session {row.id}")
        return running[0]

    async def _tell_owner(self, turn: TurnRow, request: dict[str, Any]) -> None:
        owner = self.store.owner(turn.owner) if turn.owner else None
        if turn.owner == self.desk.id:
            await self._answer(request)
        elif owner is not None and alive(owner):
            await ask_owner(owner, request)
        else:
            raise OstlerError("crashed", "the ostler process that ran this turn is gone", "Run again to go on")

    async def cancel_turn(self, id: str) -> TurnRow:
        """Tells the owner of this turn to cancel it; the turn as it is then. One that has ended is left alone."""
        await self.turns.end_orphaned()
        turn = self.find_turn(id)
        if turn.state != "ended":
            await self._tell_owner_to_cancel(turn)
        return self.find_turn(id)

    async def _tell_owner_to_cancel(self, turn: TurnRow) -> None:
        owner = self.store.owner(turn.owner) if turn.owner else None
        if turn.owner == self.desk.id:
            self.turns.cancel(turn.id)
        elif owner is not None and alive(owner):
            await ask_owner(owner, {"op": "cancel", "turn": turn.id})

    async def prune(self, older_than: float | None = None, dry_run: bool = False) -> list[Session]:
        """Removes sessions that expired, or were not used for `older_than` seconds; never a busy one."""
        now = time.time()
        await self.turns.end_orphaned()
        watched = {row.session for row in self.store.terminals(live=True)}
        idle = [row for row in self.store.sessions() if row.state == "idle" and row.id not in watched]
        old = [row for row in idle if _is_old(row, now, older_than)]
        if not dry_run:
            for row in old:
                await self.store.remove_session(row.id)
        return old

    async def remove(self, key: str) -> Session:
        """Ends the session's terminals and removes it with its files. `busy` while a turn of it lives."""
        row = self.find(key)
        await self.turns.end_orphaned()
        await self.store.change_session(row.id, state="closed")  # from here on nobody begins anything in it
        await self.terminals.close_all(row.id)
        await self.store.remove_session(row.id)
        return row

    async def adopt(self, agent_name: str, folder: str | None = None) -> list[Session]:
        """Makes sessions of the conversations that a CLI already keeps; those known are left alone.

        Of one folder, if that is given. Raises OstlerError where the agent has to be asked, and cannot tell.
        """
        agent = AGENTS[choose(self.settings, agent_name).agent]
        where = check_folder(folder) if folder is not None else None
        known = {row.agent_session for row in self.store.sessions()}
        adopted = []
        for conversation in await self._conversations(agent, where):
            if conversation.id in known or not os.path.isdir(conversation.folder):
                continue
            if where not in (None, os.path.realpath(conversation.folder)):
                continue
            row = self.new_row(
                agent=agent.name,
                folder=os.path.realpath(conversation.folder),
                agent_session=conversation.id,
                title=conversation.title,
                served_by=agent.name,
                access=self.settings.access,
            )
            await self.store.add_session(row)
            adopted.append(row)
        return adopted

    async def _conversations(self, agent: Agent, folder: str | None) -> Sequence[Conversation]:
        if lists(agent) and server_of(self.setup, agent) is agent:
            return await listed(self.setup, agent, await self.warden(), folder)
        return found(agent, Path(self.setup.home))

    async def doctor(self, names: Sequence[str] | None = None) -> list[AgentReport]:
        """What is installed, logged in and able, without a network call."""
        agents = [AGENTS[choose(self.settings, name).agent] for name in names] if names else list(AGENTS.values())
        return await asyncio.gather(
            *(report(agent, self.setup.environ, self.settings, NotesCache(self.store)) for agent in agents)
        )

    # -- commands as turns

    async def exec(
        self,
        argv: Sequence[str],
        *,
        folder: str | None = None,
        name: str | None = None,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        tty: Size | None = None,
    ) -> AsyncGenerator[AnyEvent, None]:
        """Runs a command as a turn, with the user's own environment; `last_exec` is its envelope.

        With `tty` it runs in a terminal of that size, which `terminal_opened` names.
        """
        row = self.new_row(agent="exec", folder=check_folder(folder or "."), name=name, access="full")
        turn = Turn(
            id=f"{row.id}-{os.urandom(5).hex()}",
            session=row.id,
            agent="exec",
            prompt=shlex.join(argv),
            folder=row.folder,
            access="full",
            env=dict(env or {}),
            limits=limits or Limits(first_record=None, idle=None),
        )
        environ = {**self.setup.environ, **(env or {})}
        live = LiveSession(self, row, stored=False)
        attempt = command_attempt(turn, argv, environ)
        if tty is not None:
            attempt = structs.replace(attempt, in_terminal=partial(carry_tty, self.terminals, tty))
        events = live.carry(Prepared(attempt=attempt))
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            self.last_exec = live.last

    # -- for sessions

    def start_warden(self) -> "asyncio.Task[Warden]":
        """The one warden of this process begins with the first turn, while that is still being prepared."""
        if self._warden is None:
            self._warden = asyncio.create_task(Warden.start())
        return self._warden

    async def warden(self) -> Warden:
        return await asyncio.shield(self.start_warden())

    def track(self, run: TurnRun) -> "asyncio.Task[Envelope]":
        """Runs the turn in a task of its own, which this Ostler waits for."""
        if run.first.in_terminal is None:
            run.terminal = TurnTerminal(self, run.session, run.turn, run.redactor)
        return self.turns.track(run)

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What other ostler processes may ask of this one."""
        match request:
            case {"op": "cancel", "turn": str(turn)}:
                return {"ok": self.turns.cancel(turn)}
            case {"op": "answer", "turn": str(turn), "answer": answer}:
                await self.dialogs.answer(turn, msgspec.convert(answer, Answer))
                return {"ok": True}
            case {"op": "steer", "turn": str(turn), "text": str(text), "by": str(by)}:
                await self.dialogs.steer(turn, text, by)
                return {"ok": True}
            case {"op": "terminal"}:
                return await self.terminals.answer(request)
            case _:
                raise OstlerError("bad_request", "unknown request")

    async def _stream(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Another ostler process views a terminal of this one."""
        await self.terminals.serve(request, reader, writer)


async def _started(warden: "asyncio.Task[Warden]") -> Warden | None:
    """The warden, or None where it could not be started: the turn that wanted it has told why."""
    try:
        return await warden
    except OstlerError:
        return None


def _open_store(settings: Settings) -> Store:
    store = Store.open(settings.home)
    ignore = os.path.join(settings.home, ".gitignore")
    if settings.state == "project" and not os.path.lexists(ignore):
        with open(ignore, "x") as file:
            file.write("*\n")
    return store


def _is_old(row: Session, now: float, older_than: float | None) -> bool:
    if older_than is not None:
        return row.used_at < now - older_than
    return row.expires_at is not None and row.expires_at < now
