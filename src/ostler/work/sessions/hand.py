"""Hands a session over to another agent: a new session, linked with the old one, that begins with what was done."""

import asyncio

from msgspec import structs

from ostler.errors import OstlerError
from ostler.model import Plan, Session, TurnRow
from ostler.store import Store
from ostler.work.sessions.context import SessionContext
from ostler.work.sessions.handover import HandedWork, handover_prompt
from ostler.work.sessions.live_session import LiveSession
from ostler.work.sessions.open_session import SessionOptions, open_session

_DIFF_BYTES = 256 * 1024


async def hand_over(
    context: SessionContext, row: Session, agent: str, instruction: str = "", name: str | None = None
) -> tuple[LiveSession, str]:
    """The new session, stored with its first turn, and the prompt for that. Raises busy while a turn of the old one
    runs, and not_found where there is nothing to hand over.
    """
    if row.state not in ("idle", "closed"):
        raise OstlerError("busy", f"session {row.name or row.id} is busy", "Wait for its turn to end, or cancel it")
    work = await asyncio.to_thread(handed_work, context.store, row)
    if not work.turns:
        raise OstlerError("not_found", f"session {row.name or row.id} has no turns to hand over")
    options = SessionOptions(agent=agent, folder=row.folder, name=name, access=row.access)
    live = await open_session(context, options)
    live.row = structs.replace(live.row, handed_from=row.id)
    return live, handover_prompt(work, instruction)


def handed_work(store: Store, row: Session) -> HandedWork:
    turns = [turn for turn in store.turns(row.id) if turn.state == "ended"]
    plan = store.last_event(row.id, "plan")
    return HandedWork(
        session=row,
        turns=turns,
        plan=plan if isinstance(plan, Plan) else None,
        diffs=[_diff(turn) for turn in turns],
    )


def _diff(turn: TurnRow) -> str:
    path = turn.envelope.artifacts.get("diff") if turn.envelope else None
    if path is None:
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_DIFF_BYTES)
    except OSError:
        return ""  # somebody has removed it: the folder itself still shows what was done
