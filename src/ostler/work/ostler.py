"""The door to everything: one `Ostler` for each process that works on a state folder."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Self

from ostler.access import Access
from ostler.errors import OstlerError
from ostler.model import (
    AnyEvent,
    Asked,
    Limits,
    Offered,
    Session,
    SignalName,
    SystemMode,
    TransportName,
    TurnRow,
)
from ostler.process import Size, raise_fd_limit
from ostler.store import Redactor
from ostler.work.owner import OwnerReply, Streams
from ostler.work.owner_requests import AnswerAsk, CancelTurn, CloseSession, MoveSession, OwnerRequest, SteerTurn
from ostler.work.parts import OstlerParts
from ostler.work.plug_ins import load_plug_ins
from ostler.work.probe import AgentReport
from ostler.work.sessions import expiry
from ostler.work.sessions.choice import choose
from ostler.work.sessions.live_session import LiveSession
from ostler.work.sessions.open_session import SessionOptions, open_session
from ostler.work.sessions.rows import find_session, find_turn
from ostler.work.store_changes import change_since
from ostler.work.terminals.new_terminal import checked_name
from ostler.work.transports.transport import OutputSink
from ostler.work.turns.checks import check_folder
from ostler.work.turns.environment import secrets as secret_values
from ostler.work.turns.handle import TurnHandle
from ostler.work.turns.setup import with_project_config

if TYPE_CHECKING:
    from ostler.work.dialogs.asks import AskAnswer
    from ostler.work.sessions.moving import MidTurn

# What few turns need is imported where it is used: `ostler run` has to be quick.


class Ostler(OstlerParts):
    """Sessions and turns on one state folder. Use `async with`: at the end nothing is left running."""

    async def __aenter__(self) -> Self:
        raise_fd_limit()
        try:
            if self._serves:
                await load_plug_ins()
            await self.desk.open(self._handle)
            await self.turns.end_orphaned(carry_on=self._lingers)
        except BaseException:
            with suppress(OstlerError):  # the first error is the one to tell
                await self.desk.close()
            await self.warden.close()
            self.store.close()
            raise
        if self._stays or self.store.outbox_size():
            self.sender.start()
        if self._stays:
            self.turns.look_after()
            self._expiring.start()
        else:
            self.turns.own(expiry.remove_if_due(self.store))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._expiring.stop()
        await self.turns.close()
        async with AsyncExitStack() as rest:  # the last one first, whatever fails
            rest.callback(self.store.close)
            rest.push_async_callback(self._close_screens)
            rest.push_async_callback(self.desk.close)
            rest.push_async_callback(self.warden.close)
            rest.push_async_callback(self._close_callbacks)
            rest.push_async_callback(self._close_sender)
            rest.push_async_callback(self.unwritten.close)
            rest.push_async_callback(self._close_terminals)
            rest.push_async_callback(self.keepers.close_all)

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
        system_mode: SystemMode | None = None,
        transport: TransportName | None = None,
    ) -> LiveSession:
        """An existing session (`session`, `resume_last`) or a new one, which is stored with its first turn.

        Of an existing one `model`, `access`, `system`, `system_mode` and `transport` hold for the turns that are run
        through what is returned; the session keeps its own. What cannot hold is refused (bad_request): another agent,
        profile, folder or name, or another conversation of the agent.
        """
        options = SessionOptions(
            agent=agent,
            folder=folder,
            session=session,
            name=name,
            resume_last=resume_last,
            agent_session=agent_session,
            model=model,
            access=access,
            system=system,
            system_mode=system_mode,
            transport=transport,
        )
        return await open_session(self.session_context, options)

    def sessions(self) -> list[Session]:
        return self.store.sessions()

    def find(self, key: str) -> Session:
        """By id, name or unique beginning of an id. Raises not_found or bad_request (ambiguous)."""
        return find_session(self.store, key)

    def find_turn(self, id: str) -> TurnRow:
        """By its id. Raises not_found."""
        return find_turn(self.store, id)

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

    async def cancel(self, key: str, signal: SignalName | None = None) -> bool:
        """Cancels the turns of that session, whichever process runs them. False: no turn runs.

        The agent is asked to stop, and ended if it does not. With `signal` its processes get that at once, a dialog's
        too, and KILL if they have not ended soon after.
        """
        return await self.control.cancel_session(key, signal)

    async def cancel_turn(self, id: str, signal: SignalName | None = None) -> TurnRow:
        """Cancels this turn, as `cancel` does; the turn as it is then. One that has ended is left alone."""
        return await self.control.cancel_turn(id, signal)

    async def answer(self, key: str, answer: "AskAnswer") -> None:
        """Answers an ask of that session's turn, whichever process runs it. `ask` may be empty if only one is open."""
        await self.control.answer(key, answer)

    async def steer(self, key: str, text: str, by: str = "you") -> None:
        """Tells the running turn of that session more, where the agent can."""
        await self.control.steer(key, text, by)

    def open_asks(self, turn: str) -> list[Asked]:
        """The asks of a turn that nobody has answered."""
        row = self.store.turn(turn)
        return self.store.open_asks(row.session, turn) if row is not None else []

    async def prune(
        self, older_than: float | None = None, dry_run: bool = False, folder: str | None = None
    ) -> list[Session]:
        """Removes sessions that expired, or were not used for `older_than` seconds; never one that is in use.

        Of one folder and those below it, if that is given.
        """
        await self.turns.end_orphaned(carry_on=False)
        await self.panes.prune(dry_run)
        where = os.path.realpath(folder) if folder is not None else None
        return await expiry.prune(self.store, older_than, where, dry_run)

    async def close_session(self, key: str) -> Session:
        """Cancels the session's turns and ends its processes and terminals. Its record stays; it accepts no more turns.

        `busy` if a turn does not end. Nothing happens to a session that is closed already.
        """
        from ostler.work.sessions import closing

        return await closing.close_session(self.session_context, self.control, self.find(key))

    async def move(self, key: str, transport: TransportName, mid_turn: "MidTurn | None" = None) -> Session:
        """The session's next turns have this transport, in the same conversation of the agent.

        `busy` while a turn runs or a person has the keyboard of the agent's screen, unless `mid_turn` says what to do
        about it: `wait` for the end of it, or `interrupt` it. `unsupported` for an agent that lacks the transport.
        """
        from ostler.work.sessions import moving

        return await moving.move_session(self.session_context, self.find(key), transport, mid_turn)

    async def hand(
        self, key: str, agent: str, instruction: str = "", name: str | None = None
    ) -> tuple[LiveSession, str]:
        """Hands a session over to another agent: a new session in the same folder, linked with it, and the first
        prompt for it: what was asked and done, the plan and the changes. `busy` while a turn of the old one runs.
        """
        from ostler.work.sessions.hand import hand_over

        return await hand_over(self.session_context, self.find(key), agent, instruction, name)

    def warm_up(self, folder: str) -> None:
        """Begins to start the dialogs and screens that the settings keep started, for new sessions of this folder."""
        for name in self.setup_in(folder).settings.pool.warm:
            self.turns.own(self._warm(name, folder))

    async def _warm(self, name: str, folder: str) -> None:
        from ostler.work.sessions.warm import warm_ahead

        await warm_ahead(await self.session(name, folder=folder))

    async def rename(self, key: str, name: str | None) -> Session:
        """Gives the session another name, or none. `exists` for the name of another one."""
        row = self.find(key)
        if name is None:
            return await self.store.rename_session(row.id, None)
        known = Redactor(secret_values(self.setup.environ, {}, self.settings.redact))
        return await self.store.rename_session(row.id, known.text(checked_name(name, "session")))

    async def remove(self, key: str) -> Session:
        """Ends the session's processes and terminals and removes it with its files. `busy` while a turn of it lives."""
        from ostler.work.sessions import closing

        row = self.find(key)
        await self.turns.end_orphaned()
        await self.store.change_session(row.id, state="closed")  # from here on nobody begins anything in it
        await closing.end_processes(self.session_context, row.id)
        await self.store.remove_session(row.id)
        return row

    async def adopt(self, agent_name: str, folder: str | None = None) -> list[Session]:
        """Makes sessions of the conversations that a CLI already keeps; those known are left alone.

        Of one folder, if that is given. Raises OstlerError where the agent has to be asked, and cannot tell.
        """
        from ostler.work.sessions.adopt import adopt

        where = check_folder(folder) if folder is not None else None
        setup = self.setup if where is None else self.setup_in(where)
        agent = setup.agents[choose(setup.settings, agent_name).agent]
        return await adopt(setup, agent, self.warden.get, where)

    async def doctor(
        self,
        names: Sequence[str] | None = None,
        folder: str | None = None,
        *,
        sandboxes: bool = True,
        online: bool = False,
    ) -> list[AgentReport]:
        """What is installed, logged in and able; by the settings of a folder, if given.

        Without a network call, unless `online`: then each agent that is there is asked for one word.
        """
        from ostler.work import checkup

        await load_plug_ins()
        setup = self.setup if folder is None else self.setup_in(folder)
        agents = [choose(setup.settings, name).agent for name in names] if names else list(setup.agents)
        wanted = checkup.CheckupScope(sandboxes=sandboxes, online=online)
        reports = await asyncio.gather(*(checkup.examine(self, setup, setup.agents[name], wanted) for name in agents))
        if folder is None:
            return list(reports)
        return [await asyncio.to_thread(with_project_config, setup, report, folder) for report in reports]

    # -- commands as turns

    def exec(
        self,
        argv: Sequence[str],
        *,
        folder: str | None = None,
        name: str | None = None,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        access: Access = "full",
        tty: Size | None = None,
        stdin: bytes | int = b"",
        shown: OutputSink | None = None,
    ) -> TurnHandle:
        """A command as a turn, with the user's own environment: `await` it, or iterate over its events.

        An empty command succeeds and runs nothing. `stdin` is what it reads, or a descriptor that it reads from.
        `shown("stdout" | "stderr", data)` is called with its output as it comes, secrets masked.
        Under another `access` than full it runs behind a wall, `denied` where there are none.
        With `tty` it runs in a terminal of that size, which `terminal_opened` names; `stdin` is typed there, if there
        is any, and then the end of file.
        """
        from ostler.work.turns.exec import ExecOptions, run_command

        options = ExecOptions(
            folder=folder or ".",
            name=name,
            limits=limits or Limits(first_record=None, idle=None),
            env=dict(env or {}),
            access=access,
            tty=tty,
            stdin=stdin,
            shown=shown,
        )
        return run_command(self.session_context, argv, options)

    # -- for other ostler processes

    async def _handle(self, request: OwnerRequest, streams: Streams) -> OwnerReply | None:
        """What other ostler processes may ask of this one."""
        if isinstance(request, CancelTurn | AnswerAsk | SteerTurn | CloseSession):
            return await self.control.handle(request)
        if isinstance(request, MoveSession):
            from ostler.work.sessions import moving

            await moving.end_waiting(self.session_context, request.session, request.to)
            return {"ok": True}
        return await self.terminals.handle(request, streams)
