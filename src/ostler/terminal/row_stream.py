"""What a viewer without an emulator gets: the rows of the screen, those that change, the cursor and the bell.

Nothing has to be acknowledged: the next change is made ready when the one before was taken, and a viewer that is far
behind gets the whole screen instead of what it has missed.
"""

import asyncio
from collections.abc import Callable

from ostler.errors import OstlerError
from ostler.terminal.byte_stream import FOREVER
from ostler.terminal.display import Display
from ostler.terminal.screen.protocol import Cursor, Row, ScreenFacts, Snapshot, Update
from ostler.terminal.subscription import Seen, Subscribers
from ostler.terminal.viewer_protocol import CursorView, Frame, Gone, RowChange, ScreenRows, encode_message

BEHIND = 16  # changes that wait for a viewer before it gets the whole screen instead
RETRY = 0.5  # seconds until a screen that could not be drawn is tried again


class RowStream:
    """The changes of one screen for one viewer. `wake` is called when `next` has something new to say."""

    resumed = False  # a screen needs no bytes before it
    hungry = False

    def __init__(self, display: Display, subscribers: Subscribers, wake: Callable[[], None]) -> None:
        self.begun = False  # it has got what its screen begins with
        self.over = False  # the end was told
        self._display, self._wake = display, wake
        self._subscription = subscribers.add(BEHIND, None)
        self._coming: asyncio.Task[Seen] | None = None
        self._retry_at = 0.0

    def ack(self, offset: int) -> None:
        """Nothing waits for it."""

    def refresh(self) -> None:
        """The whole screen is wanted."""
        self._subscription.resync()

    def hurry(self) -> None:
        """Nothing is held back that could come sooner."""

    def add_facts(self, facts: ScreenFacts) -> None:
        """They come with the rows."""

    def next(self, now: float) -> Frame | float:
        """The next frame, or when to ask again: at this time, or FOREVER for when something happens."""
        if now < self._retry_at:
            return self._retry_at
        if self._coming is None:
            self._coming = asyncio.get_running_loop().create_task(self._subscription.__anext__())
            self._coming.add_done_callback(lambda _: self._wake())
        if not self._coming.done():
            return FOREVER
        coming, self._coming = self._coming, None
        try:
            seen = coming.result()
        except OstlerError as error:
            return self._not_drawn(error, now)
        self.begun = True
        if isinstance(seen, Gone):
            self.over = True
            return encode_message(seen)
        seq = self._subscription.seq
        return encode_message(whole_screen(seen, seq) if isinstance(seen, Snapshot) else changed_rows(seen))

    def close(self) -> None:
        self._subscription.close()
        if self._coming is not None:
            self._coming.cancel()

    def _not_drawn(self, error: OstlerError, now: float) -> Frame | float:
        self._display.notices.append(f"no rows: {error}")
        if self._display.gone is not None:  # nothing more can be drawn of it
            self.over = True
            return encode_message(self._display.gone)
        self._retry_at = now + RETRY
        return self._retry_at


def whole_screen(seen: Snapshot, seq: int = 1) -> ScreenRows:
    lines = zip(seen.text, seen.styled, strict=True)
    return ScreenRows(
        seq=seq,
        offset=seen.offset,
        cols=seen.cols,
        rows=seen.rows,
        whole=True,
        changed=tuple(RowChange(y=y, text=text, vt=vt) for y, (text, vt) in enumerate(lines)),
        cursor=cursor_view(seen.cursor),
        alternate=seen.modes.alternate,
        title=seen.title,
        cwd=seen.cwd,
        progress=seen.progress or "none",
    )


def changed_rows(update: Update) -> ScreenRows:
    facts = update.facts
    return ScreenRows(
        seq=update.seq,
        offset=update.offset,
        cols=update.cols,
        rows=update.rows,
        whole=update.whole,
        changed=tuple(row_change(row) for row in update.changed),
        cursor=cursor_view(update.cursor),
        alternate=update.modes.alternate,
        title=facts.title,
        cwd=facts.cwd,
        progress=facts.progress,
        bells=facts.bells,
    )


def row_change(row: Row) -> RowChange:
    return RowChange(y=row.y, text=row.text, vt=row.vt)


def cursor_view(cursor: Cursor) -> CursorView:
    return CursorView(x=cursor.x, y=cursor.y, shape=cursor.shape, visible=cursor.visible, blinking=cursor.blinking)
