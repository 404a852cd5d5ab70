"""Where a viewer stands in a terminal's stream and what it gets next: decisions only, nothing is awaited.

Bytes keep a screen exact until it is resized; then, and after a flood, a snapshot makes it so again.

Two kinds of credit hold it back. Bytes stop at HIGH unacknowledged ones and go on at LOW. A further snapshot
waits until the one before was acknowledged, unless both are small. So a viewer that takes nothing costs nothing.
"""

import asyncio
import math
from collections.abc import Callable

from ostler.errors import OstlerError
from ostler.terminal import viewer_protocol
from ostler.terminal.display import Display, SizeChange
from ostler.terminal.log import unfinished
from ostler.terminal.screen.protocol import ScreenFacts
from ostler.terminal.viewer_protocol import HIGH, LOW, Frame, SnapshotMessage, encode_message
from ostler.terminal.viewer_snapshot import ViewerSnapshot

PACE = 0.02  # seconds between two bursts of bytes; the first after a pause goes at once
SHOT_PAUSE = 0.1  # between two snapshots
EXACT = 0.3  # how long a screen may be inexact: without history after a flood, or wrapped by the viewer's own rules
CHUNK = 32 * 1024
FOREVER = math.inf


class ByteStream:
    """The walk of one viewer over the log. `wake` is called when `next` has something new to say by itself."""

    def __init__(self, display: Display, offset: int | None, wake: Callable[[], None]) -> None:
        self._display, self._wake = display, wake
        self.resumed = offset is not None and display.can_resume(offset)
        self.begun = self.resumed  # it has got what its screen begins with
        self.over = False  # the end was told
        self.hungry = False  # it waits for output and for nothing else
        self._cursor = self._base = self._most = offset if self.resumed and offset is not None else 0
        self._stalled = False
        self._before = 0  # bytes that were sent before `base`, and what was drawn in snapshots: not acknowledged
        self._drawn = 0
        self._resizes = display.resizes
        self._alternate = display.modes.alternate  # when it leaves that, it knows nothing of what lay below
        self._facts = display.now if self.resumed else ScreenFacts()
        self._wants: bool | None = None if self.resumed else True  # a snapshot, with history or without
        self._look: asyncio.Task[ViewerSnapshot] | None = None
        self._inexact_since: float | None = None
        self._look_at = self._free_at = 0.0
        self._burst = 0  # the offset up to which bytes go without a pause

    def close(self) -> None:
        """Its viewer has gone."""

    # -- what is heard -----------------------------------------------------------------------------------

    def ack(self, offset: int) -> None:
        """Everything before `offset` was shown. Going back changes nothing, going ahead is `bad_request`."""
        if not 0 <= offset <= self._most:
            hint = "Acknowledge the offset after the last byte that was shown, or that of a snapshot"
            raise OstlerError("bad_request", f"offset {offset} was never sent; the last one was {self._most}", hint)
        if offset >= self._base:
            self._base, self._before, self._drawn = min(offset, self._cursor), 0, 0

    def refresh(self) -> None:
        """A snapshot is wanted."""
        self._wants = True

    def hurry(self) -> None:
        """Its viewer has typed: what comes next is likely the echo."""
        self._free_at = 0.0

    def add_facts(self, facts: ScreenFacts) -> None:
        """For viewers; waits, joined, until it can be sent."""
        self._facts = ScreenFacts(
            bells=self._facts.bells + facts.bells,
            title=self._facts.title if facts.title is None else facts.title,
            cwd=self._facts.cwd if facts.cwd is None else facts.cwd,
            progress=facts.progress or self._facts.progress,
        )
        if self._alternate and facts.modes and not facts.modes.alternate:
            self._want_what_lay_below()

    def _want_what_lay_below(self) -> None:
        """The alternate screen was left, and a snapshot holds one screen only."""
        self._wants = True
        self._display.sure_at = None

    # -- what is sent ------------------------------------------------------------------------------------

    def next(self, now: float) -> Frame | float:
        """The next frame, or when to ask again: at this time, or FOREVER for when something happens."""
        self.hungry = False
        if self._wants is None and not self._is_stalled() and self._lags():
            self._wants = False
        if self._wants is not None:
            return self._snapshot(now)
        if self._is_stalled():
            return FOREVER
        return self._stream(now)

    @property
    def _unseen(self) -> int:
        """Bytes under way."""
        return self._before + self._cursor - self._base

    def _is_stalled(self) -> bool:
        self._stalled = self._unseen >= HIGH or (self._stalled and self._unseen > LOW)
        return self._stalled

    def _lags(self) -> bool:
        """What it would need next is gone, or would take longer than a snapshot."""
        log = self._display.log
        far = log.end - self._cursor > 2 * HIGH
        return far or self._cursor < log.start or self._display.forgot(self._resizes)

    def _snapshot(self, now: float) -> Frame | float:
        if self._look is None:
            if self._drawn + self._unseen >= HIGH:
                return FOREVER  # until it acknowledges
            if now < self._look_at:
                return self._look_at
            self._look = self._display.look(history=self._wants is True)
            self._look.add_done_callback(lambda _: self._wake())
        if not self._look.done():
            return FOREVER
        shot, self._look = self._look.result(), None
        self._take(shot)
        self._look_at = now + SHOT_PAUSE
        self._inexact_since = None if shot.history else now
        return shot.frame

    def _take(self, shot: ViewerSnapshot) -> None:
        shown = shot.shown
        self.begun = True
        self._before, self._drawn = self._unseen, self._drawn + len(shown.vt)
        self._cursor = self._base = self._burst = shown.offset
        self._most = max(self._most, shown.offset)
        self._resizes, self._alternate = shot.resizes, shown.alternate
        self._facts = news(self._display.now, shown, self._facts.bells)
        self._wants = None
        if self._alternate and not self._display.modes.alternate:
            self._want_what_lay_below()

    def _stream(self, now: float) -> Frame | float:
        """Facts, bytes, resizes and the end, as they come."""
        gone, log = self._display.gone, self._display.log
        resize = self._display.resize_after(self._resizes)
        stop = resize.offset if resize else log.end
        if self._cursor >= stop and not (resize or gone or self._facts != ScreenFacts()):
            return self._idle(now)
        if self._cursor >= self._burst:
            if now < self._free_at and not gone:
                return self._free_at
            self._burst = log.end
        if self._facts != ScreenFacts():
            return self._sent(now, self._facts_message())
        if self._cursor < stop:
            data = self._piece(stop, whole=resize is None and gone is None)
            return self._sent(now, self._bytes(data)) if data else self._idle(now)
        if resize:
            return self._sent(now, self._resized(resize, now))
        if self._inexact_since is not None:
            self._wants = True
            return now
        assert gone
        self.over = True
        return encode_message(gone)

    def _idle(self, now: float) -> float:
        """All was sent: the time to make an inexact screen exact, by a snapshot with history."""
        self.hungry = True
        if self._inexact_since is None:
            return FOREVER
        if now < self._inexact_since + EXACT:
            return self._inexact_since + EXACT
        self._wants = True
        return now

    def _piece(self, stop: int, whole: bool) -> bytes:
        """Bytes up to `stop`, as many as may go at once. Half a character waits for its other half."""
        room = min(CHUNK, HIGH - self._unseen)
        _, data = self._display.log.read(self._cursor, min(room, stop - self._cursor))
        if whole or self._cursor + len(data) < stop:
            return data[: len(data) - unfinished(data)]
        return data

    def _bytes(self, data: bytes) -> bytes:
        offset = self._cursor
        self._cursor += len(data)
        self._most = max(self._most, self._cursor)
        return viewer_protocol.output(offset, data)

    def _resized(self, resize: SizeChange, now: float) -> str:
        """Terminals do not wrap lines anew in the same way, and a snapshot does not say which rows were one line."""
        self._resizes += 1
        self._inexact_since = now
        return encode_message(
            viewer_protocol.ResizedMessage(cols=resize.size.cols, rows=resize.size.rows, offset=resize.offset)
        )

    def _facts_message(self) -> str:
        facts, self._facts = self._facts, ScreenFacts()
        return encode_message(
            viewer_protocol.FactsMessage(title=facts.title, cwd=facts.cwd, progress=facts.progress, bells=facts.bells)
        )

    def _sent(self, now: float, frame: Frame) -> Frame:
        self._free_at = now + PACE
        return frame


def news(now: ScreenFacts, shown: SnapshotMessage, bells: int) -> ScreenFacts:
    """What was told after a snapshot was made, and bells."""
    progress = None if now.progress == "none" else now.progress
    return ScreenFacts(
        bells=bells,
        title=None if now.title == shown.title else now.title,
        cwd=None if now.cwd == shown.cwd else now.cwd,
        progress=None if progress == shown.progress else now.progress,
    )
