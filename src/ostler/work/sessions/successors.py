"""Turns of agents that go on with the work of another, whose quota ended: shown and waited for as one piece of work."""

from collections.abc import AsyncGenerator
from functools import partial

from ostler.model import AnyEvent, Ended, TurnRow
from ostler.store import Store
from ostler.work.sessions.context import SessionContext
from ostler.work.sessions.rows import find_turn
from ostler.work.store_changes import change_since
from ostler.work.turns.handle import TurnHandle


def successor_of(store: Store, turn: TurnRow) -> TurnRow | None:
    """The turn that goes on with the work of this one, which has ended."""
    session = turn.envelope.handed_to if turn.envelope is not None else None
    turns = store.turns(session) if session is not None else []
    return turns[0] if turns else None  # it may have been removed


async def successor_events(
    context: SessionContext, handle: TurnHandle, successor: str
) -> AsyncGenerator[AnyEvent, None]:
    """What the successors do, one after the other; the envelope of the last is the handle's then.

    A cancel of the handle is theirs, and so is leaving this early.
    """
    store, turns = context.store, context.turns
    row: TurnRow | None = find_turn(store, successor)
    while row is not None:
        id = row.id
        try:
            with handle.stop.calling(partial(turns.cancel, id)):
                if handle.stop.problem is not None:
                    turns.cancel(id)
                async for event in _events(store, id):
                    if not isinstance(event, Ended) or successor_of(store, find_turn(store, id)) is None:
                        yield event
        finally:
            if turns.cancel(id):  # somebody left
                await _end(store, id)
        row = find_turn(store, id)
        handle.envelope = row.envelope
        row = successor_of(store, row)


async def _events(store: Store, turn: str) -> AsyncGenerator[AnyEvent, None]:
    """All of the turn, until it has ended: `ended` comes once its envelope is there."""
    seen = 0
    while True:
        version, row = store.data_version(), find_turn(store, turn)
        for event in store.events(row.session, after=seen, turn=turn):
            if isinstance(event, Ended) and row.state != "ended":
                break
            seen = event.seq
            yield event
        if row.state == "ended":
            return
        await change_since(store, version)


async def _end(store: Store, turn: str) -> None:
    while find_turn(store, turn).state != "ended":
        await change_since(store, store.data_version())
