"""The options of a turn: checked, merged, and the turn that comes of them."""

import os
import re
import uuid
from collections.abc import Iterable
from typing import Any

from msgspec import structs

from ostler.errors import OstlerError, quoted
from ostler.model import PRIORITIES, HookMode, Limits, Session, SystemMode, Turn, TurnDefaults, TurnOptions
from ostler.settings import Profile, Settings
from ostler.work.known_agents import find_agent
from ostler.work.turns.attachments import attachment
from ostler.work.turns.checked_types import check_types
from ostler.work.turns.mcp_servers import servers_of


def merged(options: TurnOptions, defaults: TurnDefaults) -> TurnOptions:
    """The options of one turn, over those that hold for many. A system prompt brings its own mode."""
    under = {name: value for name, value in structs.asdict(defaults).items() if getattr(options, name) is None}
    if options.system is not None:
        under.pop("system_mode", None)
    return structs.replace(options, **under)


def limits_of(row: Session, settings: Settings, **changes: float | None) -> Limits:
    """What holds for turns of this session, with these changes: its profile's limits, else those of the settings."""
    profile = settings.profiles.get(row.profile or "", Profile())
    return structs.replace(profile.limits or settings.limits, **changes)


def check_options(options: TurnDefaults, settings: Settings) -> None:
    """Raises what is wrong with them whatever the agent: bad_request, and not_found for a fallback."""
    for name in ("tools_allowed", "tools_denied", "first_tools_allowed", "first_tools_denied", "fallback"):
        _check_words(name, getattr(options, name))
    for name, value in (options.env or {}).items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise OstlerError("bad_request", f"{quoted(name[:100])} cannot be the name of a variable")
        if not isinstance(value, str) or "\0" in value:
            raise OstlerError("bad_request", f"the variable {name} is not a string without NUL characters")
    check_types(structs.replace(options, env=None))
    check_system(options.system)
    lowest, highest = PRIORITIES
    if options.priority is not None and not lowest <= options.priority <= highest:
        raise OstlerError("bad_request", f"the priority {options.priority} is not between {lowest} and {highest}")
    for name in options.fallback or ():
        find_agent(settings, name)  # now, not when it is needed


def check_system(text: str | None) -> None:
    if text is not None and "\0" in text:
        raise OstlerError("bad_request", "a system prompt cannot contain a NUL character")


def fallback_of(asked_for: Iterable[str] | None, row: Session, settings: Settings) -> tuple[str, ...]:
    """Who takes a turn of this session if its agent cannot."""
    profile = settings.profiles.get(row.profile or "", Profile())
    return tuple(asked_for if asked_for is not None else profile.fallback or settings.fallback)


def _check_words(name: str, words: Iterable[str] | None) -> None:
    for word in words or ():
        if not isinstance(word, str) or not word.strip() or re.search(r"[\x00-\x1f\x7f]", word):
            raise OstlerError("bad_request", f"{name}: {quoted(str(word)[:100])} is not a name")


def resolve_turn(prompt: str, options: TurnOptions, row: Session, settings: Settings) -> Turn:
    """The turn that comes of a prompt and its options: what they leave open, the session, its profile or the settings
    say. Raises not_found for an MCP server that the settings do not have.
    """
    profile = settings.profiles.get(row.profile or "", Profile())
    system, mode = _system(options, row, profile)
    own, usual = _tools(options, row.turns == 0), _tools(profile, row.turns == 0)
    return Turn(
        id=f"{row.id}-{os.urandom(5).hex()}",
        session=row.id,
        agent=row.agent,
        prompt=prompt,
        folder=row.folder,
        access=options.access or row.access,
        model=options.model or row.model,
        profile=row.profile,
        system=system,
        system_mode=mode,
        tools_allowed=tuple(own[0] if own[0] is not None else usual[0] or settings.tools_allowed),
        tools_denied=tuple(dict.fromkeys((*settings.tools_denied, *(usual[1] or ()), *(own[1] or ())))),
        attachments=tuple(attachment(a) if isinstance(a, str) else a for a in options.attachments),
        schema=options.schema,
        env={**(profile.env or {}), **(options.env or {})},
        limits=options.limits or limits_of(row, settings),
        fallback=fallback_of(options.fallback, row, settings),
        command=options.command,
        first=is_new_system(row, system, mode, settings),
        lean=settings.lean,
        transport=options.transport or row.transport or profile.transport or "pipe",
        mode=options.mode,
        agent_flags=_flags(options, profile, settings.agent_flags.get(row.agent, ())),
        hooks=_first(options.hooks, profile.hooks, settings.hooks),
        wait_for=options.wait_for or "ended",
        priority=next((each for each in (options.priority, profile.priority) if each is not None), 0),
        done_pattern=profile.done_pattern,
        mcp=servers_of(options.mcp if options.mcp is not None else profile.mcp, settings),
        **conversation_of(row),
    )


def _flags(options: TurnDefaults, profile: TurnDefaults, usual: tuple[str, ...]) -> tuple[str, ...]:
    if options.agent_flags is not None:
        return tuple(options.agent_flags)
    return tuple(profile.agent_flags if profile.agent_flags is not None else usual)


def _first(*said: HookMode | None) -> HookMode | None:
    """What the nearest says that says anything."""
    return next((each for each in said if each is not None), None)


def _system(options: TurnOptions, row: Session, profile: Profile) -> tuple[str | None, SystemMode]:
    """The system prompt, and its mode: what says the one says the other, unless the turn has a mode of its own."""
    said = ((each.system, each.system_mode) for each in (options, row, profile))
    system, mode = next(((system, mode) for system, mode in said if system), (None, None))
    if system is None and options.system_mode == "replace":
        raise OstlerError("bad_request", "a system mode needs a system prompt", "Give one: --system")
    return system, (options.system_mode or mode or "append") if system else "append"


def _tools(options: TurnDefaults, first: bool) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """What is allowed, and what is denied; a first turn may have lists of its own."""
    allowed, denied = options.tools_allowed, options.tools_denied
    if first and options.first_tools_allowed is not None:
        allowed = options.first_tools_allowed
    if first and options.first_tools_denied is not None:
        denied = options.first_tools_denied
    return allowed, denied


def is_new_system(row: Session, system: str | None, mode: SystemMode, settings: Settings) -> bool:
    """Whether the agent has not heard this system prompt yet. Some are told with the first turn, and then no more."""
    profile = settings.profiles.get(row.profile or "", Profile())
    return row.turns == 0 or (system, mode) != _system(TurnOptions(), row, profile)


def conversation_of(row: Session) -> dict[str, Any]:
    """What a turn says of the agent's own conversation: resumed, copied, or a new one."""
    if row.agent_session is not None:
        return {"agent_session": row.agent_session, "resume": True, "fork": False}
    if row.fork_of is not None:
        return {"agent_session": row.fork_of, "resume": True, "fork": True}
    return {"agent_session": str(uuid.uuid4()), "resume": False, "fork": False}


def tried_again(turn: Turn) -> Turn:
    """The turn for another attempt of the same agent: a conversation that it began before has nothing in it."""
    return turn if turn.resume else structs.replace(turn, agent_session=str(uuid.uuid4()))


def taken_over(turn: Turn, agent: str, model: str | None) -> Turn:
    """The turn as another agent gets it: the first one of a new conversation, whatever the session had before."""
    new = str(uuid.uuid4())
    changes = {"agent": agent, "model": model, "agent_session": new, "agent_flags": ()}
    return structs.replace(turn, **changes, resume=False, fork=False, first=True)
