"""Begins turns that go on by themselves: the Ostler carries them, and whoever asked may leave."""

import asyncio

from msgspec import Struct

from ostler.errors import OstlerError
from ostler.store.once import Once
from ostler.words import TurnRow
from ostler.work.sessions import LiveSession, Prepared
from ostler.work.wishes import Wishes


class Begun(Struct, frozen=True, kw_only=True):
    """A turn that is committed. `repeated`: it was begun before, under the same key."""

    row: TurnRow
    repeated: bool = False


async def begin(live: LiveSession, wishes: Wishes, *, wait: bool = False, once: Once | None = None) -> Begun:
    """Begins a turn, or with `wait` queues it, and returns once that is committed; the Ostler carries it on.

    Raises OstlerError, and leaves nothing behind, when it cannot begin. The same key (`once`) again gives
    the same turn. Cancelling the wait undoes nothing.
    """
    store = live.ostler.store
    if once is not None and (known := store.turn_once(live.id, once)):
        return Begun(row=live.ostler.find_turn(known), repeated=True)
    prepared = await live.prepare(wishes)
    told: asyncio.Future[Begun | OstlerError] = asyncio.get_running_loop().create_future()
    live.ostler.turns.own(_carry(live, prepared, wait, once, told))
    answer = await asyncio.shield(told)
    if isinstance(answer, OstlerError):
        raise answer
    return answer


async def _carry(
    live: LiveSession,
    prepared: Prepared,
    wait: bool,
    once: Once | None,
    told: "asyncio.Future[Begun | OstlerError]",
) -> None:
    """The turn from its commit to its end. What comes after `told` is in the journal and the envelope."""
    ostler = live.ostler
    try:
        placed = await live.place(prepared, wait, once)
        turn = placed if isinstance(placed, str) else prepared.attempt.turn.id
        told.set_result(Begun(row=ostler.find_turn(turn), repeated=isinstance(placed, str)))
    except OstlerError as error:
        told.set_result(error)
        return
    except BaseException:
        told.cancel()
        raise
    if isinstance(placed, str):
        return
    if placed is None:
        placed, prepared = await live.wait_in_line(prepared)
    await ostler.track(live.turn_run(prepared, placed))
