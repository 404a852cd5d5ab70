"""Ending what a session holds: its turns, the processes of its dialogs, its terminals."""

import asyncio
from contextlib import suppress

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import Session
from ostler.work.owner import alive, ask_owner
from ostler.work.owner_requests import CloseSession
from ostler.work.sessions.context import SessionContext
from ostler.work.store_changes import change_since
from ostler.work.turns.control import TurnControl

_PATIENCE = 30.0  # seconds in which a cancelled turn has ended, whatever its agent does


async def close_session(context: SessionContext, control: TurnControl, row: Session) -> Session:
    """Cancels its turns, ends its processes and terminals; the session as it is then. Its record stays."""
    closed = await _without_turns(context, control, row)
    await end_processes(context, row.id)
    return closed


async def end_processes(context: SessionContext, session: str) -> None:
    """Ends the dialogs, TUIs and terminals of a session in which no turn can begin any more."""
    await asyncio.gather(*(_end_dialog(context, owner.id, session) for owner in context.store.owners()))
    await context.services.terminals().close_all(session)


async def _without_turns(context: SessionContext, control: TurnControl, row: Session) -> Session:
    """Closed: from here on nobody begins anything in it. `busy` if a turn does not end."""
    await context.turns.end_orphaned()
    deadline = clock.monotonic() + _PATIENCE
    cancelled: set[str] = set()
    while True:
        version = context.store.data_version()
        running = {turn.id for turn in context.store.running_turns() if turn.session == row.id}
        for turn in running - cancelled:
            await control.cancel_turn(turn)
        cancelled |= running
        try:
            return await context.store.change_session(row.id, state="closed")
        except OstlerError as error:
            if error.kind != "busy" or clock.monotonic() > deadline:
                raise
        await change_since(context.store, version)


async def _end_dialog(context: SessionContext, owner_id: str, session: str) -> None:
    """Only the process that keeps a dialog or a TUI knows of it: each is told."""
    owner = context.store.owner(owner_id)
    if owner_id == context.owner:
        await context.services.keepers.close(session)
    elif owner is not None and alive(owner):
        with suppress(OstlerError):  # it ends just now, and its dialogs with it
            await ask_owner(owner, CloseSession(session=session))
