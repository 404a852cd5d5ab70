"""Recordings, wherever one is read. That of an agent's headless turn is drawn from its journal when it is wanted."""

import asyncio
import contextlib
import os
from collections.abc import Iterator

from ostler.errors import OstlerError
from ostler.model import AnyEvent, Ended, TerminalRow
from ostler.render.turn_text import TurnText
from ostler.settings import Settings
from ostler.store import Store
from ostler.store.files import file_errors
from ostler.work.terminals.context import TerminalContext
from ostler.work.terminals.recording import new_recording, part_path
from ostler.work.turns.artifacts import diff_of

_PAGE = 2048  # events at a time: a turn may have very many


async def recording_file(context: TerminalContext, row: TerminalRow) -> str:
    """The path of its recording, as far as that goes now. Raises `not_found` where it has none."""
    if not row.recording:
        raise OstlerError("not_found", f"terminal {row.id} has no recording")
    if row.source == "turn" and not os.path.exists(row.recording):
        return await asyncio.to_thread(_drawn, context, row)
    return row.recording


def _drawn(context: TerminalContext, row: TerminalRow) -> str:
    """The same bytes as a viewer was shown who looked meanwhile (turn_terminal.py). Kept once the turn is over.

    Raises `store` when it cannot be written.
    """
    turn = context.store.turn(row.turn or "")
    if turn is None or turn.turn.agent == "exec":  # whose output is in no journal
        raise OstlerError("not_found", f"the recording of terminal {row.id} is gone")
    now = _EventClock(row.created_at)
    path = row.recording if turn.envelope is not None else str(part_path(row))
    draft = f"{path}.{os.urandom(6).hex()}"
    cast = new_recording(context.store.folder, row, _limit_mb(context, row), path=draft, clock=now)
    try:
        text = TurnText(access=turn.turn.access, home=context.home)
        for event in _events_of(context.store, row):
            now.turn_to(event.at)
            cast.output(text.feed(event))
        if turn.envelope is not None:
            cast.output(text.end(turn.envelope, diff_of(turn.envelope)))
        cast.close()
        with file_errors(path):
            os.replace(draft, path)
    except BaseException:
        cast.close()
        os.unlink(draft)
        raise
    if path == row.recording:
        part_path(row).unlink(missing_ok=True)
    return path


def _events_of(store: Store, row: TerminalRow) -> Iterator[AnyEvent]:
    """Those of the terminal's turn, up to its end: hooks may tell of it later."""
    seen = 0
    while events := store.events(row.session, after=seen, limit=_PAGE, turn=row.turn):
        for event in events:
            yield event
            if isinstance(event, Ended):
                return
        seen = events[-1].seq


def _limit_mb(context: TerminalContext, row: TerminalRow) -> float:
    with contextlib.suppress(OstlerError):  # the folder's settings are broken by now, or it is gone
        return context.setup_in(row.folder).settings.recording_mb
    return Settings().recording_mb


class _EventClock:
    """The time by the journal, for a recording that is made afterwards. It never goes back."""

    def __init__(self, began: float) -> None:
        self._now = began

    def turn_to(self, at: float) -> None:
        self._now = max(self._now, at)

    def __call__(self) -> float:
        return self._now
