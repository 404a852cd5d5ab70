"""Begins turns that go on by themselves: the Ostler runs them, and whoever asked may leave."""

import asyncio

from msgspec import Struct

from ostler.errors import OstlerError
from ostler.model import TurnOptions, TurnRow
from ostler.store.once import Once
from ostler.work.sessions.live_session import LiveSession, Prepared
from ostler.work.sessions.rows import find_turn
from ostler.work.transports.stop import Stop


class Begun(Struct, frozen=True, kw_only=True):
    """A turn that is committed. `repeated`: it was begun before, under the same key."""

    row: TurnRow
    repeated: bool = False


async def begin(
    live: LiveSession, prompt: str, options: TurnOptions, *, wait: bool = False, once: Once | None = None
) -> Begun:
    """Begins a turn, or with `wait` queues it, and returns once that is committed; the Ostler runs it to its end.

    Raises OstlerError, and leaves nothing behind, when it cannot begin. The same key (`once`) again gives
    the same turn. Cancelling the wait undoes nothing once the turn is prepared.
    """
    store, turns, stop = live.context.store, live.context.turns, Stop()
    if once is not None and (known := store.turn_once(live.id, once)):
        return Begun(row=find_turn(store, known), repeated=True)
    with turns.cancellable(stop):
        prepared = await live.prepare(prompt, options, stop)
        committed: asyncio.Future[Begun | OstlerError] = asyncio.get_running_loop().create_future()
        turns.own(_run(live, prepared, stop, wait, once, committed))
        begun = await asyncio.shield(committed)
    if isinstance(begun, OstlerError):
        raise begun
    return begun


async def _run(
    live: LiveSession,
    prepared: Prepared,
    stop: Stop,
    wait: bool,
    once: Once | None,
    committed: "asyncio.Future[Begun | OstlerError]",
) -> None:
    """The turn from its commit to its end. What comes after `committed` is in the journal and the envelope."""
    store, turns = live.context.store, live.context.turns
    with turns.cancellable(stop):
        try:
            placed = await live.place(prepared, wait, once)
            turn = placed if isinstance(placed, str) else prepared.attempt.turn.id
            committed.set_result(Begun(row=find_turn(store, turn), repeated=isinstance(placed, str)))
        except OstlerError as error:
            committed.set_result(error)
            return
        except BaseException:
            committed.cancel()
            raise
        if isinstance(placed, str):
            return
        if placed is None:
            placed, prepared = await live.wait_in_line(prepared, stop)
        await turns.track(live.turn_run(prepared, placed, stop))
