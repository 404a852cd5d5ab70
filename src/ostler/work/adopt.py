"""Conversations that a CLI keeps by itself: found in the user's HOME, or listed by the agent where it speaks ACP."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import structs

from ostler.agents import Agent, Conversation, decode
from ostler.agents.acp_list import AcpList
from ostler.agents.adapter import Record
from ostler.process import Warden
from ostler.store.files import session_folder
from ostler.words import ACCESS_ORDER, Turn
from ostler.work.live_dialog import LiveDialog
from ostler.work.prepare import Setup, prepare

MAX_BYTES = 256 * 1024
MAX_RECORDS = 50
LIMIT = 200  # conversations of one agent


class Found(Conversation, frozen=True, kw_only=True):
    """A conversation, the file it is kept in, and when that was last written."""

    path: str
    used_at: float


def lists(agent: Agent) -> bool:
    """Whether its conversations lie where ostler cannot look, and the agent itself may be asked for them."""
    return not agent.conversations and agent.dialog is not None and agent.dialog.protocol == "acp"


async def listed(setup: Setup, agent: Agent, warden: Warden, folder: str | None = None) -> list[Conversation]:
    """What the agent lists, by a process of its own that is sent no prompt; of one folder if that is given.

    Raises OstlerError: it is missing, needs a login, or cannot list them. The process is gone in any case.
    """
    id = f"list-{secrets.token_hex(5)}"
    access = next(access for access in ACCESS_ORDER if access not in agent.unpromised)
    where = folder or setup.home
    turn = Turn(id=id, session=id, agent=agent.name, prompt="", folder=where, access=access, transport="dialog")
    attempt = await prepare(setup, turn)
    assert attempt.dialog is not None
    listing = AcpList(attempt.told, attempt.dialog.host, LIMIT, folder)
    try:
        dialog = await LiveDialog.start(structs.replace(attempt, dialog=listing), warden)
        await dialog.close()
    finally:
        shutil.rmtree(session_folder(setup.store.folder, id), ignore_errors=True)
    return listing.found


def found(agent: Agent, home: Path, limit: int = LIMIT) -> list[Found]:
    """The newest conversations of an agent, newest first. A file that cannot be understood is left out."""
    taken: dict[str, Found] = {}
    for used_at, path in sorted(files_of(agent, home), reverse=True):
        if len(taken) >= limit:
            break
        conversation = _read(agent, path, used_at)
        if conversation is not None:
            taken.setdefault(conversation.id, conversation)
    return list(taken.values())


def files_of(agent: Agent, home: Path) -> Iterator[tuple[float, str]]:
    """Regular files that match the agent's patterns, with their times."""
    for pattern in agent.conversations:
        try:
            paths = list(home.glob(pattern))
        except (OSError, ValueError, NotImplementedError):
            continue
        for path in paths:
            try:
                info = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(info.st_mode):
                yield info.st_mtime, str(path)


def _read(agent: Agent, path: str, used_at: float) -> Found | None:
    if agent.conversation is None:
        return None
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            head = file.read(MAX_BYTES)
        conversation = agent.conversation(path, records(head))
        if conversation is None or not conversation.id:
            return None
        return msgspec.convert({**structs.asdict(conversation), "path": path, "used_at": used_at}, Found)
    except Exception:  # whatever a foreign file holds, it must not hide the others
        return None


def records(head: bytes) -> list[Record]:
    """The first records of a file of JSON lines, or its one record where the file is one JSON object."""
    lines = head.split(b"\n", MAX_RECORDS)
    if len(lines) > MAX_RECORDS or len(head) == MAX_BYTES:
        lines.pop()  # cut, or more than were asked for
    values = [value for line in lines if isinstance(value := decode(line), dict)]
    if not values and isinstance(whole := decode(head), dict):
        return [whole]
    return values
