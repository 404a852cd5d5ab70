"""Hands a session over to another agent, by hand or when its quota ends: a new session, linked with the old one, that
begins with what was done.
"""

import asyncio

from msgspec import structs

from ostler.errors import OstlerError
from ostler.model import Envelope, Plan, Session, Turn, TurnOptions, TurnRow
from ostler.store import Store
from ostler.work.known_agents import name_and_model
from ostler.work.pool.pool import limited_error
from ostler.work.sessions.context import SessionContext
from ostler.work.sessions.handover import HandedWork, handover_prompt
from ostler.work.sessions.live_session import LiveSession
from ostler.work.sessions.open_session import SessionOptions, open_session
from ostler.work.turns.begin import begin

_DIFF_BYTES = 256 * 1024


async def hand_over(
    context: SessionContext, row: Session, agent: str, instruction: str = "", name: str | None = None
) -> tuple[LiveSession, str]:
    """The new session, stored with its first turn, and the prompt for that. Raises busy while a turn of the old one
    runs, and not_found where there is nothing to hand over.
    """
    if row.state not in ("idle", "closed"):
        raise OstlerError("busy", f"session {row.label} is busy", "Wait for its turn to end, or cancel it")
    work = await asyncio.to_thread(handed_work, context.store, row)
    if not work.turns:
        raise OstlerError("not_found", f"session {row.label} has no turns to hand over")
    options = SessionOptions(agent=agent, folder=row.folder, name=name, access=row.access)
    live = await open_session(context, options)
    live.row = structs.replace(live.row, handed_from=row.id)
    return live, handover_prompt(work, instruction)


async def hand_on(
    context: SessionContext, row: Session, last: TurnRow, name: str, left: tuple[str, ...] = ()
) -> TurnRow:
    """Lets the agent `name` go on with the work of `last`, a turn that is just ending: its first turn, once that is
    committed. `left` are those who take over from it. Raises what keeps it from beginning; nothing is left then.
    """
    assert last.envelope is not None
    setup = context.setup_in(row.folder)
    agent, model = name_and_model(setup.settings, name)
    options = _options_of(last.turn, last.envelope, model, left)
    if (until := context.turns.pool.parked().get(agent)) is not None:
        raise limited_error(agent, until)
    work = await asyncio.to_thread(handed_work, context.store, row, last)
    live = await open_session(context, SessionOptions(agent=agent, folder=row.folder, access=last.turn.access))
    live.row = structs.replace(live.row, handed_from=row.id)
    return (await begin(live, handover_prompt(work), options, wait=True)).row


def _options_of(turn: Turn, envelope: Envelope, model: str | None, left: tuple[str, ...]) -> TurnOptions:
    """What was asked of the turn, for another agent. Raises over_budget where no money is left for it."""
    limits = turn.limits
    if limits.cost_usd is not None and envelope.cost_usd:
        limits = structs.replace(limits, cost_usd=limits.cost_usd - envelope.cost_usd)
        if limits.cost_usd is not None and limits.cost_usd <= 0:
            raise OstlerError("over_budget", f"the turn has cost ${envelope.cost_usd:.2f} already")
    return TurnOptions(
        access=turn.access,
        model=model,
        system=turn.system,
        system_mode=turn.system_mode if turn.system else None,
        tools_allowed=turn.tools_allowed,
        tools_denied=turn.tools_denied,
        env=turn.env,
        limits=limits,
        fallback=left,
        mcp=turn.mcp,
        hooks=turn.hooks,
        agent_flags=(),
        transport=turn.transport,
        priority=turn.priority,
        attachments=turn.attachments,
        schema=turn.schema,
        wait_for=turn.wait_for,
    )


def handed_work(store: Store, row: Session, last: TurnRow | None = None) -> HandedWork:
    """`last` is a turn that the store does not know as ended yet."""
    turns = [turn for turn in store.turns(row.id) if turn.state == "ended"]
    turns += [last] if last is not None else []
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
