"""The pool over HTTP: who runs, who waits and why, and accounts whose quota is used up."""

from ostler.errors import OstlerError, quoted
from ostler.server.routing import Routes
from ostler.work import Ostler
from ostler.work.pool.view import QueueView, queue_view

queue = Routes("queue")


@queue("GET /api/queue", "The turns that run on this machine, those that wait, and why")
async def get_queue(ostler: Ostler) -> QueueView:
    """Of all ostler processes of this store. `waiting` is in the order in which they start."""
    return _view(ostler)


@queue("POST /api/queue/{account}/resume", "Its quota is back: its turns may start again", status=200)
async def resume_account(ostler: Ostler, account: str) -> QueueView:
    if not await ostler.store.unpark(account):
        raise OstlerError("not_found", f"account {quoted(account[:100])} is not parked")
    return _view(ostler)


def _view(ostler: Ostler) -> QueueView:
    return queue_view(ostler.pool, ostler.store.sessions_of(turn.session for turn in ostler.store.pool_turns()))
