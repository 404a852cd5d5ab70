"""Keeps dialogs and agents' own screens started for sessions to come: their first turn need not wait for the agent.

How many, for whom and when not is decided here; `transports/spares.py` knows which there are.
"""

import logging

from msgspec import structs

from ostler.errors import OstlerError
from ostler.model import Session, TurnOptions
from ostler.work.sessions.live_session import LiveSession, Prepared
from ostler.work.sessions.rows import LONG_ID, new_session_id
from ostler.work.transports.facts import TRANSPORT_FACTS
from ostler.work.transports.spares import SpareKind
from ostler.work.transports.stop import Stop

_log = logging.getLogger(__name__)


async def warm_ahead(live: LiveSession) -> None:
    """The same before any turn has begun, for a new session of which nothing is known but its agent and folder.

    In the transport that its profile names, else in a dialog.
    """
    profile, stop = live.setup.settings.profiles.get(live.row.profile or ""), Stop()
    transport = (profile.transport if profile else None) or "dialog"
    if not TRANSPORT_FACTS[transport].can_be_warm:
        return
    with live.context.turns.cancellable(stop):
        try:
            prepared = await live.prepare("(none)", TurnOptions(transport=transport), stop)
        except OstlerError as error:
            _log.info("%s was not started for later: %s", live.row.agent, error)
            return
    await warm_up(live, prepared)


async def warm_up(live: LiveSession, prepared: Prepared) -> None:
    """As many as the settings say for the profile or agent of a turn that has just begun, and just like that turn.

    None while turns wait: what a spare takes would be theirs.
    """
    turn, limits = prepared.attempt.turn, prepared.setup.settings.pool
    spares, kind, stop = live.context.services.keepers.spares, SpareKind.of(turn), Stop()
    async with spares.starting:
        with live.context.turns.cancellable(stop):  # for when ostler closes
            while len(spares.find(kind, turn.transport)) < limits.warm.get(kind.who, 0):
                if any(not each.runs for each in live.context.store.pool_turns()):
                    return
                try:
                    made = await _to_come(live, prepared).prepare("(none)", _options(prepared), stop)
                    await spares.start(made.attempt, limits.warm_seconds, stop)
                except OstlerError as error:
                    _log.info("%s was not started for later: %s", kind.who, error)
                    return


def _to_come(live: LiveSession, prepared: Prepared) -> LiveSession:
    """A session like this one, without its past. Its id is long: nobody else may hit on it before it is stored."""
    row, store = live.row, live.context.store
    fresh = Session(
        id=new_session_id(lambda id: store.session(id) is not None, LONG_ID),
        agent=prepared.attempt.turn.agent,
        folder=row.folder,
        created_at=row.created_at,
        used_at=row.used_at,
        access=prepared.attempt.turn.access,
        model=row.model,
        profile=row.profile,
        system=row.system,
        system_mode=row.system_mode,
        transport=row.transport,
    )
    return LiveSession(live.context, fresh, stored=False, options=live.options)


def _options(prepared: Prepared) -> TurnOptions:
    """Without what belongs to the prompt."""
    return structs.replace(prepared.options, attachments=(), schema=None, command=False, mode=None)
