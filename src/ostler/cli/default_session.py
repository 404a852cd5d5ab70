"""Which session or terminal is meant where none is named."""

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ostler.errors import OstlerError
from ostler.work.sessions.filters import is_within

if TYPE_CHECKING:
    from ostler.model import Session, TerminalRow
    from ostler.work import Ostler

RUNNING = ("busy", "asking", "queued")


def latest_session(o: "Ostler", key: str | None, *, with_commands: bool = True) -> "Session":
    """The session called `key`; without one the last used of this folder, else of those below.

    `with_commands`: what `ostler exec` ran counts too.
    """
    if key is not None:
        return o.find(key)
    here = os.path.realpath(".")
    rows = [row for row in o.sessions() if is_within(row, here) and (with_commands or row.agent != "exec")]
    found = next((row for row in rows if row.folder == here), next(iter(rows), None))
    if found is None:
        raise OstlerError("not_found", "there is no session in this folder", "Name one: ostler sessions --all")
    return found


def running_session(o: "Ostler", key: str | None, states: Sequence[str] = RUNNING) -> "Session":
    """The session called `key`; without one the only one in these states: of this folder, else anywhere."""
    if key is not None:
        return o.find(key)
    found = _only(o, [row for row in o.sessions() if row.state in states])
    if found is None:
        nothing = "no agent is asking anything" if states == ("asking",) else "nothing is running"
        raise OstlerError("not_found", f"{nothing} right now", "Name a session: ostler sessions --all")
    return found


def running_or_latest(o: "Ostler", key: str | None) -> "Session":
    """As `running_session`; where nothing runs, the last used of this folder."""
    if key is None and not any(row.state in RUNNING for row in o.sessions()):
        return latest_session(o, None)
    return running_session(o, key)


def open_session(o: "Ostler", key: str | None) -> "Session":
    """The session called `key`; without one the only one in which something runs, be it a program in a terminal."""
    if key is not None:
        return o.find(key)
    shown = {row.session for row in o.terminals.list(live=True)}
    found = _only(o, [row for row in o.sessions() if row.state in RUNNING or row.id in shown])
    if found is None:
        raise OstlerError("not_found", "nothing is running right now", "Name a session: ostler sessions --all")
    return found


def _only(o: "Ostler", rows: "Collection[Session]") -> "Session | None":
    here = os.path.realpath(".")
    rows = [row for row in rows if is_within(row, here)] or rows
    if len(rows) > 1:
        listed = ", ".join(f"{row.label} ({row.profile or row.agent}, {row.state})" for row in rows)
        raise OstlerError("bad_request", f"{len(rows)} sessions match: {listed}", "Name one of them")
    return next(iter(rows), None)


def live_terminal(o: "Ostler") -> "TerminalRow":
    """The only program that runs in a terminal: of this folder, else anywhere."""
    live = [row for row in o.terminals.list(live=True) if row.source != "turn"]
    rows = _here(o, live) or live
    if not rows:
        raise OstlerError("not_found", "no program is running in a terminal", "Open one: ostler exec --tty -- bash")
    if len(rows) > 1:
        listed = ", ".join(f"{row.id} ({row.name})" for row in rows)
        raise OstlerError("bad_request", f"{len(rows)} terminals match: {listed}", "Name one of them")
    return rows[0]


def latest_recorded(o: "Ostler") -> "TerminalRow":
    """The newest terminal of this folder that has a recording."""
    rows = _here(o, [row for row in o.terminals.list() if row.recording])
    if not rows:
        raise OstlerError("not_found", "this folder has no recordings", "List them: ostler terminals --all")
    return rows[0]


def _here(o: "Ostler", rows: "list[TerminalRow]") -> "list[TerminalRow]":
    here = os.path.realpath(".")
    ours = {row.id for row in o.sessions() if is_within(row, here)}
    return [row for row in rows if row.session in ours]
