"""Sessions that a person drives: whoever has the keyboard of an agent's own screen is not typed over."""

from ostler.errors import OstlerError
from ostler.model import TerminalRow
from ostler.work.sessions.context import SessionContext
from ostler.work.store_changes import change_since
from ostler.work.transports.stop import Stop, unless_stopped


def held_screen(context: SessionContext, session: str) -> TerminalRow | None:
    """The agent's own screen whose keyboard a person has."""
    if not any(row.tui for row in context.store.terminals(session, live=True)):
        return None  # most sessions: nothing of terminals is imported for them
    live = context.services.terminals().list(session, live=True)
    return next((row for row in live if row.tui and row.held_by), None)


def held_error(held: TerminalRow, hint: str = "Queue it with --wait, or have the keyboard handed back") -> OstlerError:
    return OstlerError("busy", f"{held.held_by} has the keyboard of {held.name} ({held.id})", hint)


async def until_handed_back(context: SessionContext, session: str, stop: Stop) -> bool:
    """Waits while a person has the keyboard; False: nobody had it.

    In this process automation stands in line for it, so that an idle person loses it; of another's screen it waits for
    a change.
    """
    version = context.store.data_version()
    held = held_screen(context, session)
    if held is None:
        return False
    live = context.services.terminals().live(held.id)
    if live is None:
        await change_since(context.store, version, stop)
        return True
    from ostler.terminal.lease import Author

    author = Author("ostler", "automation", f"{session} in line")  # not the turn's that may run there meanwhile
    try:
        await unless_stopped(live.acquire(author), stop)
    except OstlerError as error:
        if error.kind != "not_found":  # the program has ended, and nobody types any more
            raise
    live.release(author)
    return True
