"""Conversations that a CLI keeps by itself: found where it puts them, or listed by the agent where it speaks ACP."""

import os
import secrets
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from ostler.access import ACCESS_ORDER
from ostler.agents import Agent, Conversation, decode
from ostler.agents.acp.conversations import AcpList
from ostler.agents.adapter import located
from ostler.agents.values import Record
from ostler.model import Session, Turn
from ostler.process import Warden
from ostler.store.files import session_folder
from ostler.work.dialogs.live_dialog import LiveDialog
from ostler.work.sessions.rows import new_session_row
from ostler.work.turns.prepare import prepare
from ostler.work.turns.setup import Setup, server_of

MAX_BYTES = 256 * 1024
MAX_RECORDS = 50
LIMIT = 200  # conversations of one agent


class Found(Conversation, frozen=True, kw_only=True):
    """A conversation, the file it is kept in, and when that was last written."""

    path: str
    used_at: float


async def adopt(
    setup: Setup, agent: Agent, warden: Callable[[], Awaitable[Warden]], folder: str | None
) -> list[Session]:
    """Makes sessions of the conversations that the agent keeps, of one folder if that is given; known ones stay.

    Raises OstlerError where the agent has to be asked, and cannot tell.
    """
    known = {row.agent_session for row in setup.store.sessions()}
    adopted = []
    for conversation in await _conversations(setup, agent, warden, folder):
        if conversation.id in known or not os.path.isdir(conversation.folder):
            continue
        if folder not in (None, os.path.realpath(conversation.folder)):
            continue
        row = new_session_row(
            setup.store,
            setup.settings,
            agent=agent.name,
            folder=os.path.realpath(conversation.folder),
            agent_session=conversation.id,
            title=conversation.title,
            served_by=agent.name,
            access=setup.settings.access,
        )
        await setup.store.add_session(row)
        adopted.append(row)
    return adopted


async def _conversations(
    setup: Setup, agent: Agent, warden: Callable[[], Awaitable[Warden]], folder: str | None
) -> Sequence[Conversation]:
    if lists(agent) and server_of(setup, agent.name).name == agent.name:
        return await listed(setup, agent, await warden(), folder)
    return found(agent, Path(setup.home), {**setup.environ, **setup.settings.env})


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
    listing = AcpList(attempt.effective_turn, attempt.dialog.host, LIMIT, folder)
    try:
        dialog = await LiveDialog.start(structs.replace(attempt, dialog=listing), warden)
        await dialog.close()
    finally:
        shutil.rmtree(session_folder(setup.store.folder, id), ignore_errors=True)
    return listing.found


def found(agent: Agent, home: Path, environ: Mapping[str, str], limit: int = LIMIT) -> list[Found]:
    """The newest conversations of an agent, newest first. A file that cannot be understood is left out.

    `environ` is the agent's own, whose variables may say that they lie elsewhere than in `home`.
    """
    taken: dict[str, Found] = {}
    for used_at, path in sorted(files_of(agent, home, environ), reverse=True):
        if len(taken) >= limit:
            break
        conversation = _read(agent, path, used_at)
        if conversation is not None:
            taken.setdefault(conversation.id, conversation)
    return list(taken.values())


def files_of(agent: Agent, home: Path, environ: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    """Regular files that match the agent's patterns, with their times."""
    for each in agent.conversations:
        folder, pattern = located(agent, each, str(home), environ)
        try:
            paths = list(Path(folder).glob(pattern))
        except (OSError, ValueError, NotImplementedError):
            continue  # no such folder, or a pattern that its name breaks: there is nothing to find
        for path in paths:
            try:
                info = path.lstat()
            except OSError:
                continue  # removed since it was listed
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
