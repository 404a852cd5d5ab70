"""What is asked of one turn, and the turn that comes of it."""

import secrets
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ostler.agents import AGENTS
from ostler.settings import Profile, Settings
from ostler.words import Access, Attachment, Limits, McpServer, Session, Transport, Turn
from ostler.work.attachments import attachment
from ostler.work.servers import servers_of


class Wishes(Struct, frozen=True, kw_only=True):
    """A prompt and its options. What is None falls back to the session, its profile, the settings."""

    prompt: str
    access: Access | None = None
    model: str | None = None
    system: str | None = None
    tools_allowed: Sequence[str] | None = None
    tools_denied: Sequence[str] | None = None
    first_tools_allowed: Sequence[str] | None = None
    first_tools_denied: Sequence[str] | None = None
    attachments: Sequence[Attachment | str] = ()
    schema: dict[str, Any] | None = None
    env: Mapping[str, str] | None = None
    limits: Limits | None = None
    fallback: Sequence[str] | None = None
    command: bool = False
    mode: str | None = None
    mcp: Sequence[McpServer] | None = None
    transport: Transport | None = None  # None: a process of its own, where the agent has that


def turn_of(wishes: Wishes, row: Session, settings: Settings) -> Turn:
    """The turn, resolved."""
    profile = settings.profiles.get(row.profile or "", Profile())
    first = row.turns == 0
    allowed, denied = wishes.tools_allowed, wishes.tools_denied
    if first and wishes.first_tools_allowed is not None:
        allowed = wishes.first_tools_allowed
    if first and wishes.first_tools_denied is not None:
        denied = wishes.first_tools_denied
    return Turn(
        id=f"{row.id}-{secrets.token_hex(5)}",
        session=row.id,
        agent=row.agent,
        prompt=wishes.prompt,
        folder=row.folder,
        access=wishes.access or row.access,
        model=wishes.model or row.model,
        profile=row.profile,
        system=wishes.system or row.system or profile.system,
        tools_allowed=tuple(allowed if allowed is not None else profile.tools_allowed or settings.tools_allowed),
        tools_denied=tuple(dict.fromkeys((*settings.tools_denied, *profile.tools_denied, *(denied or ())))),
        attachments=tuple(attachment(a) if isinstance(a, str) else a for a in wishes.attachments),
        schema=wishes.schema,
        env=dict(wishes.env or {}),
        limits=wishes.limits or profile.limits or settings.limits,
        fallback=tuple(wishes.fallback if wishes.fallback is not None else profile.fallback or settings.fallback),
        command=wishes.command,
        first=first,
        lean=settings.lean,
        transport=_transport(wishes.transport or "pipe", row.agent),
        mode=wishes.mode,
        mcp=tuple(wishes.mcp if wishes.mcp is not None else servers_of(profile.mcp, settings)),
        **conversation_of(row),
    )


def _transport(wish: Transport, name: str) -> Transport:
    """A process for each turn is a dialog where the agent holds nothing else."""
    agent = AGENTS.get(name)
    return "dialog" if wish == "pipe" and agent is not None and not agent.one_shot else wish


def conversation_of(row: Session) -> dict[str, Any]:
    """What a turn says of the agent's own conversation: resumed, copied, or a new one."""
    if row.agent_session is not None:
        return {"agent_session": row.agent_session, "resume": True, "fork": False}
    if row.fork_of is not None:
        return {"agent_session": row.fork_of, "resume": True, "fork": True}
    return {"agent_session": str(uuid.uuid4()), "resume": False, "fork": False}
