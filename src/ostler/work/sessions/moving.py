"""Moves a session to another transport between two turns: same id, same journal, same conversation of the agent."""

import asyncio
from contextlib import suppress
from typing import Literal

from msgspec import structs

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import Session, TransportName, TurnRow
from ostler.settings import Profile
from ostler.store.changes import Move
from ostler.work.owner import alive, ask_owner
from ostler.work.owner_requests import MoveSession
from ostler.work.sessions.context import SessionContext
from ostler.work.sessions.manual import held_error, held_screen, until_handed_back
from ostler.work.sessions.preflight import has_conversation
from ostler.work.store_changes import change_since
from ostler.work.transports.choose import check_transport, choose_transport
from ostler.work.transports.stop import Stop
from ostler.work.turns.setup import Setup, server_of

MidTurn = Literal["wait", "interrupt"]  # what becomes of a turn that runs
_HINT = "Move it when the turn has ended (--wait), or cancel the turn (--interrupt)"
_HELD = "Move it when the keyboard is handed back (--wait), or all the same (--interrupt)"


async def move_session(
    context: SessionContext, row: Session, transport: TransportName, mid_turn: MidTurn | None = None
) -> Session:
    """The session once it has moved. Raises `unsupported`, `bad_request` (closed), `busy`."""
    before = check_move(context.setup_in(row.folder), row, transport)
    if row.transport == transport and row.moving_to in (None, transport):
        return row
    stop = Stop()
    with context.turns.cancellable(stop):
        if _running(context, row.id) is None:
            await _until_nobody_types(context, row, mid_turn, stop)
        move = Move(to=transport, at=clock.now(), later=mid_turn is not None, announced=before != transport)
        moved = await _asked_for(context, row, move)
        if moved.moving_to is not None and mid_turn == "interrupt" and (turn := _running(context, row.id)):
            await context.control.cancel_turn(turn.id)
        while moved.moving_to is not None:
            moved = await _later(context, row.id, stop)
        if mid_turn == "wait":  # who took the keyboard while the turn ran keeps the screen that long
            await _until_nobody_types(context, row, mid_turn, stop)
    await asyncio.gather(*(_end_waiting(context, owner.id, row.id, transport) for owner in context.store.owners()))
    return moved


def check_move(setup: Setup, row: Session, transport: TransportName) -> TransportName:
    """The transport that it has now. Raises `unsupported` where the agent lacks the other one."""
    if row.agent not in setup.agents:
        raise OstlerError("unsupported", f"session {row.label} has no agent: it ran a command")
    named, server, agents = setup.agents[row.agent], server_of(setup, row.agent), tuple(setup.agents.values())
    check_transport(transport, server, agents)
    profile = setup.settings.profiles.get(row.profile or "", Profile())
    with suppress(OstlerError):  # the profile names one that the agent has not
        return choose_transport(row.transport or profile.transport or "pipe", named, server, agents)
    return "pipe"


async def _until_nobody_types(context: SessionContext, row: Session, mid_turn: MidTurn | None, stop: Stop) -> None:
    """A person at the keyboard of the agent's screen is not moved away from, unless that is asked for."""
    if mid_turn == "interrupt" or (held := held_screen(context, row.id)) is None:
        return
    if mid_turn is None:
        raise held_error(held, _HELD)
    while await until_handed_back(context, row.id, stop):
        if stop.problem is not None:
            raise stop.problem.raised()


async def _asked_for(context: SessionContext, row: Session, move: Move) -> Session:
    await context.turns.end_orphaned()
    try:
        return await context.store.move_session(row.id, move)
    except OstlerError as error:
        if error.kind != "busy":
            raise
        raise OstlerError("busy", f"a turn is running in session {row.label}", _HINT) from error


async def _later(context: SessionContext, session: str, stop: Stop) -> Session:
    """The session after the next change of anything. Who stops waiting does not undo what was asked for."""
    version = context.store.data_version()
    await context.turns.end_orphaned()
    if (row := context.store.session(session)) is None:
        raise OstlerError("not_found", f"session {session} was removed")
    if row.moving_to is not None:
        await change_since(context.store, version, stop)
        if stop.problem is not None:
            raise stop.problem.raised()
    return row


def _running(context: SessionContext, session: str) -> TurnRow | None:
    """The turn that runs; one that only waits for its turn keeps nobody from moving."""
    turns = context.store.running_turns()
    return next((turn for turn in turns if turn.session == session and turn.state != "queued"), None)


async def _end_waiting(context: SessionContext, owner_id: str, session: str, to: TransportName) -> None:
    """Only the process that keeps a dialog or a screen knows of it: each is told."""
    owner = context.store.owner(owner_id)
    if owner_id == context.owner:
        await end_waiting(context, session, to)
    elif owner is not None and alive(owner):
        with suppress(OstlerError):  # it ends just now, and what it kept with it
            await ask_owner(owner, MoveSession(session=session, to=to))


async def end_waiting(context: SessionContext, session: str, to: TransportName) -> None:
    """Ends what this process keeps for the session's next turn, unless it is for `to`, or works already."""
    if _running(context, session) is not None:
        return  # a turn that named its transport itself: what it leaves is closed before the next one
    await _keep_conversation(context, session)
    await context.services.keepers.close(session, but=to)


async def _keep_conversation(context: SessionContext, session: str) -> None:
    """What a person began in a screen that was opened without a turn goes along, if it was kept under the chosen id."""
    row, id = context.store.session(session), context.services.keepers.chosen_id(session, seen=True)
    if row is None or row.agent_session is not None or id is None:
        return
    begun = structs.replace(row, agent_session=id)
    if await has_conversation(context.setup_in(row.folder), begun):
        await context.store.change_session(session, agent_session=id)
