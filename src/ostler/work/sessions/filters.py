"""Which sessions of a list somebody wants."""

from collections.abc import Iterable, Sequence

from ostler.agents.paths import is_inside
from ostler.model import Session, SessionState


def chosen_sessions(
    sessions: Iterable[Session],
    *,
    folder: str | None = None,
    text: str = "",
    agent: str | None = None,
    states: Sequence[SessionState] = (),
) -> list[Session]:
    """Those of this folder and below, that mention the text, with this agent or profile, in one of these states."""
    return [
        row
        for row in sessions
        if is_within(row, folder)
        and mentions(row, text)
        and agent in (None, row.agent, row.profile)
        and (not states or row.state in states)
    ]


def is_within(row: Session, folder: str | None) -> bool:
    """Whether it works in this folder or below; None: anywhere."""
    return folder is None or row.folder == folder or is_inside(row.folder, folder)


def mentions(row: Session, text: str) -> bool:
    """Whether part of its name, title, folder, agent or id is that text, in whatever case."""
    wanted = text.casefold()
    return any(wanted in part.casefold() for part in (row.name or "", row.title, row.folder, row.agent, row.id))
