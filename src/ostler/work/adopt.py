"""Conversations that a CLI keeps by itself, found in the user's HOME."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import structs

from ostler.agents import Agent, Conversation, decode
from ostler.agents.adapter import Record

MAX_BYTES = 256 * 1024
MAX_RECORDS = 50


class Found(Conversation, frozen=True, kw_only=True):
    """A conversation, the file it is kept in, and when that was last written."""

    path: str
    used_at: float


def found(agent: Agent, home: Path, limit: int = 200) -> list[Found]:
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
