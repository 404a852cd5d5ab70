"""A session to run turns in: a stored one that goes on, or a new one."""

from msgspec import Struct, structs

from ostler import clock
from ostler.access import Access
from ostler.agents import AGENTS
from ostler.errors import OstlerError, quoted
from ostler.model import Session, SystemMode, TransportName, TurnDefaults
from ostler.settings import Profile
from ostler.work.plug_ins import load_plug_ins
from ostler.work.sessions.choice import choose
from ostler.work.sessions.context import SessionContext
from ostler.work.sessions.live_session import LiveSession
from ostler.work.sessions.rows import find_session, is_named, new_session_row
from ostler.work.transports.spares import SpareKind
from ostler.work.turns.checks import check_folder
from ostler.work.turns.options import check_system


class SessionOptions(Struct, frozen=True, kw_only=True):
    """What a session is opened with: see `Ostler.session`."""

    agent: str | None = None
    folder: str | None = None
    session: str | None = None
    name: str | None = None
    resume_last: bool = False
    agent_session: str | None = None
    model: str | None = None
    access: Access | None = None
    system: str | None = None
    system_mode: SystemMode | None = None
    transport: TransportName | None = None


async def open_session(context: SessionContext, options: SessionOptions) -> LiveSession:
    """Raises bad_request, not_found, exists. Nothing is stored: a new session is, with its first turn."""
    await _prepare_plug_ins(options.agent)
    if options.session is not None or options.resume_last:
        return await _stored(context, options)
    return _new(context, options)


async def _stored(context: SessionContext, options: SessionOptions) -> LiveSession:
    if options.session is not None:
        row = find_session(context.store, options.session)
    else:
        row = _latest(context, options.agent, options.folder)
    named = _check_continues(context, row, options.agent, options.folder)
    await _prepare_plug_ins(row.agent)
    _refuse_new(row, name=options.name, agent_session=options.agent_session)
    defaults = TurnDefaults(
        access=options.access,
        model=options.model or named,
        system=options.system,
        system_mode=options.system_mode,
        transport=options.transport,
    )
    return LiveSession(context, row, stored=True, options=defaults)


def _new(context: SessionContext, options: SessionOptions) -> LiveSession:
    where, name = check_folder(options.folder or "."), options.name
    setup = context.setup_in(where)
    settings = setup.settings
    choice = choose(settings, options.agent)
    profile = settings.profiles.get(choice.profile or "")
    if name is not None and is_named(context.store, name):
        raise OstlerError(
            "exists", f"there is already a session named {quoted(name)}", f"Continue it with --session {name}"
        )
    row = new_session_row(
        context.store,
        settings,
        agent=choice.agent,
        folder=where,
        name=name,
        access=options.access or (profile.access if profile else None) or settings.access,
        model=options.model or choice.model,
        profile=choice.profile,
        system=_system(options.system, options.system_mode, profile),
        system_mode=options.system_mode or "append",
        agent_session=options.agent_session,
        transport=options.transport,
    )
    if options.agent_session is None:
        kind = SpareKind(row.profile or row.agent, row.folder, row.access)
        wanted = options.transport or (profile.transport if profile else None)  # a turn may still name another
        row = structs.replace(row, id=context.services.keepers.spares.take(kind, wanted) or row.id)
    if options.transport is not None:
        from ostler.work.sessions.moving import check_move

        check_move(setup, row, options.transport)
    return LiveSession(context, row, stored=False)


async def _prepare_plug_ins(name: str | None) -> None:
    """Plug-ins may take long to import: not on the event loop, and only for a name that they might have."""
    if name is not None and name not in AGENTS:
        await load_plug_ins()


def _latest(context: SessionContext, agent: str | None, folder: str | None) -> Session:
    where = check_folder(folder or ".")
    choice = choose(context.setup_in(where).settings, agent) if agent else None
    known = [row for row in context.store.sessions() if row.folder == where and (not choice or choice.fits(row))]
    found = next((row for row in known if row.agent != "exec" and row.state != "closed"), None)
    if found is None:
        who = f"{choice.profile or choice.agent} session" if choice else "session"
        raise OstlerError("not_found", f"no {who} in {where} to continue", "Leave out --continue to start one")
    return found


def _check_continues(context: SessionContext, row: Session, agent: str | None, folder: str | None) -> str | None:
    """Raises where that is another session's. The model, where `agent` is the name of one."""
    if row.expires_at is not None and row.expires_at < clock.now():
        raise OstlerError("not_found", f"session {row.label} has expired", "Start a new one")
    choice = choose(context.setup_in(row.folder).settings, agent) if agent is not None else None
    if choice is not None and not choice.fits(row):
        raise OstlerError("bad_request", f"session {row.label} uses {row.profile or row.agent}, not {agent}")
    if folder is not None and check_folder(folder) != row.folder:
        raise OstlerError(
            "bad_request", f"session {row.label} belongs to {row.folder}", "Leave out --folder, or start a new one"
        )
    check_folder(row.folder)
    return choice.model if choice is not None and choice.profile is None else None


def _refuse_new(row: Session, **given: str | None) -> None:
    """What only a new session can be given. Raises bad_request."""
    for name, value in given.items():
        if value is not None and value != getattr(row, name):
            what = name.replace("_", " ")
            message = f"session {row.label} already exists; its {what} cannot be set here"
            raise OstlerError("bad_request", message, f"Leave the {what} out, or start a new session")


def _system(system: str | None, mode: SystemMode | None, profile: Profile | None) -> str | None:
    """What a new session keeps: the profile's own is only copied for another mode. Raises bad_request."""
    check_system(system)
    if system is not None or mode is None:
        return system
    if profile is None or profile.system is None:
        raise OstlerError("bad_request", "a system mode needs a system prompt", "Give one: --system")
    return profile.system
