"""Before a conversation is resumed: is it still there, is its folder, is nobody else at it, is its access no wider?"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ostler.access import Access, suffices
from ostler.agents import Agent
from ostler.errors import ErrorKind, OstlerError
from ostler.model import Session, Turn
from ostler.work.turns.setup import Setup, server_of

_MOST = 2000  # files of an agent that are looked through


class Check(Struct, frozen=True, kw_only=True):
    """One thing that a resume needs. `ok` None: it cannot be known from here, and keeps nobody from trying."""

    name: Literal["folder", "conversation", "owner", "access"]
    ok: bool | None
    text: str
    hint: str = ""
    kind: ErrorKind = "bad_request"  # of the error that it is


async def check_resume(setup: Setup, row: Session, turn: Turn, *, explicit: bool) -> None:
    """Raises the first thing that keeps this turn from resuming its conversation.

    `explicit`: somebody asked for the turn's access. A turn that runs in this very session is no
    error yet: this one may queue.
    """
    conversation = await asyncio.to_thread(_conversation, setup, row, turn.env)
    others = _owner(setup, _same_conversation(setup, row) - {row.id})
    for check in (_folder(row), conversation, others, _access(row, turn.access, explicit)):
        if check.ok is False:
            raise OstlerError(check.kind, check.text, check.hint)


async def preflight(setup: Setup, row: Session) -> tuple[Check, ...]:
    """What a resume of this session would find."""
    conversation = await asyncio.to_thread(_conversation, setup, row, {})
    owner = _owner(setup, _same_conversation(setup, row))
    return _folder(row), conversation, owner, _access(row, row.access, explicit=False)


async def has_conversation(setup: Setup, row: Session) -> bool:
    """Whether the agent is known to keep the conversation of this session."""
    return (await asyncio.to_thread(_conversation, setup, row, {})).ok is True


def _folder(row: Session) -> Check:
    if not os.path.isdir(row.folder):
        return Check(name="folder", ok=False, text=f"no such folder: {row.folder}", hint=_NEW, kind="not_found")
    if (now := os.path.realpath(row.folder)) != row.folder:
        text = f"the folder of session {row.label}, {row.folder}, now leads to {now}"
        return Check(name="folder", ok=False, text=text, hint=_NEW, kind="denied")
    return Check(name="folder", ok=True, text=row.folder)


def _conversation(setup: Setup, row: Session, env: Mapping[str, str]) -> Check:
    kept = row.agent_session or row.fork_of
    if kept is None:
        return Check(name="conversation", ok=True, text="none yet: the next turn begins one")
    server = server_of(setup, row.agent) if row.agent in setup.agents else None
    if server is None or not server.conversations:
        return Check(name="conversation", ok=None, text=f"{row.agent} keeps {kept} where ostler cannot look")
    env = {**setup.environ, **setup.settings.env, **env}
    if setup.settings.config != "user":
        return Check(name="conversation", ok=None, text=f"{server.name} keeps {kept} in a folder of its own")
    known = _keeps(server, Path(env.get("HOME") or setup.home), env, kept)
    if known is None:
        return Check(
            name="conversation", ok=None, text=f"{server.name} has too many conversations to search for {kept}"
        )
    if not known:
        text = f"{server.name} no longer has the conversation {kept} of session {row.label}"
        return Check(name="conversation", ok=False, text=text, hint=_NEW, kind="not_found")
    return Check(name="conversation", ok=True, text=f"{server.name} has {kept}")


def _keeps(agent: Agent, home: Path, environ: Mapping[str, str], id: str) -> bool | None:
    """By the name of its file, or by what stands in it; None: there are too many to look at."""
    from ostler.work.sessions.adopt import files_of, found

    paths = [path for _, path in files_of(agent, home, environ)]
    if any(id in path for path in paths):
        return True
    if any(conversation.id == id for conversation in found(agent, home, environ, limit=_MOST)):
        return True
    return None if len(paths) > _MOST else False


def _same_conversation(setup: Setup, row: Session) -> set[str]:
    """The session, and others that go on with the same conversation of the agent."""
    if row.agent_session is None:
        return {row.id}
    return {row.id} | {other.id for other in setup.store.sessions() if other.agent_session == row.agent_session}


def _owner(setup: Setup, sessions: set[str]) -> Check:
    busy = [turn for turn in setup.store.running_turns() if turn.session in sessions]
    if not busy:
        return Check(name="owner", ok=True, text="no turn of it is running")
    owner = setup.store.owner(busy[0].owner) if busy[0].owner else None
    where = f" in process {owner.pid} (ostler {owner.role})" if owner else ""
    hint = (
        f"Wait for it (--wait), watch it (ostler watch {busy[0].session}), or end it (ostler cancel {busy[0].session})"
    )
    return Check(name="owner", ok=False, text=f"a turn of this conversation runs{where}", hint=hint, kind="busy")


def _access(row: Session, wanted: Access, explicit: bool) -> Check:
    if not suffices(row.access, wanted) and not explicit:
        text = f"session {row.label} has access {row.access}, the turn would have {wanted}"
        return Check(name="access", ok=False, text=text, hint=f"Pass --access {wanted} to allow it", kind="denied")
    return Check(name="access", ok=True, text=f"{row.access}, unless a turn is given another")


_NEW = "Start a new session"
