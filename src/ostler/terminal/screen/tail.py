"""What a screen process has got of one log and what it still has to get: pure decisions, no sockets.

The log itself is the buffer: bytes are read from it when the process has room. A rebuild is the same walk,
begun again at the last checkpoint.
"""

from collections import deque
from collections.abc import Callable

from ostler.terminal.screen.current_step import DRAW, FEED, KEEP, OPEN, RESIZE, Doing
from ostler.terminal.screen.protocol import Checkpoint, FeedScreen, Modes, OpenScreen, ResizeScreen, ScreenRequest

WINDOW = 256 * 1024  # bytes on their way to the process
CHUNK = 64 * 1024
CAREFUL_CHUNK = 4096
CANCEL = b"\x18"  # ends a sequence whose rest is lost


class Tail:
    """The walk of one screen over its log."""

    def __init__(
        self, opening: OpenScreen, read_log: Callable[[int, int], tuple[int, bytes]], notice: Callable[[str], None]
    ) -> None:
        self.end = self.sent = self.done = self.reported = opening.offset
        self.modes = Modes()
        self.closing = False
        self._opening = opening
        self._read_log, self._notice = read_log, notice
        self._kept: Checkpoint | None = None
        self._resizes: list[tuple[int, ResizeScreen]] = []  # since the checkpoint, with their offsets
        self._count = 0
        self._size = opening.cols, opening.rows
        self._queue: deque[tuple[int, ScreenRequest]] = deque()  # each is due when its offset has been sent
        self._skips: list[tuple[int, int]] = []
        self._suspect: Doing | None = None  # what the process died of, once so far

    @property
    def waiting(self) -> bool:
        """Whether there is something to send, be there room for it or not."""
        return self.sent < self.end or bool(self._queue)

    def grew(self, end: int) -> None:
        self.end = max(self.end, end)

    def resized(self, cols: int, rows: int) -> None:
        self._count += 1
        self._size = cols, rows
        resize = ResizeScreen(self._opening.id, self._count, cols, rows)
        self._resizes.append((self.end, resize))
        self.then(resize)

    def then(self, request: ScreenRequest) -> None:
        """To be sent after the bytes fed so far."""
        self._queue.append((self.end, request))

    def next(self) -> ScreenRequest | None:
        """What to send now, counted as sent; None if there is nothing, or no room."""
        if self._skips:
            self._pass_over()
        goal = self.end
        if self._queue:
            goal = self._queue[0][0]
            if goal <= self.sent:
                return self._queue.popleft()[1]
        if self.sent >= goal or self.sent - self.done >= WINDOW:
            return None
        return self._take(min(goal - self.sent, self._step()))

    def came_to(self, offset: int) -> None:
        self.done = max(self.done, offset)
        self.reported = max(self.reported, offset)
        if self._suspect:
            self.passed(OPEN)

    def passed(self, what: int) -> None:
        """The process has done such a thing for this screen and lives."""
        if self._suspect and self._suspect.what == what:
            self._suspect = None

    def keep(self, checkpoint: Checkpoint) -> None:
        self._kept = checkpoint
        self._resizes = [(at, resize) for at, resize in self._resizes if resize.count > checkpoint.resizes]
        self._skips = [skip for skip in self._skips if skip[1] > checkpoint.offset]
        self.passed(KEEP)

    def rewind(self) -> None:
        """Begins again for a new process; what was asked of the old one is to be asked anew."""
        kept, opening = self._kept, self._opening
        start = kept.offset if kept else opening.offset
        self.sent = self.done = start
        again = OpenScreen(opening.id, opening.cols, opening.rows, opening.offset, opening.limits, kept, self.modes)
        self._queue = deque([(start, again), *((max(at, start), resize) for at, resize in self._resizes)])

    def again(self, doing: Doing) -> bool:
        """The process died of this. Whether that is the second time; of bytes, whether some of them were there."""
        before, self._suspect = self._suspect, doing
        if before is None or before.what != doing.what:
            return False
        if doing.what == FEED:
            return before.number - before.size < doing.number and doing.number - doing.size < before.number
        return before == doing

    def skip(self, doing: Doing) -> None:
        """Leaves out what killed the process, and says so."""
        if doing.what == FEED:
            start = doing.number - doing.size
            self._skips.append((start, doing.number))
            self._notice(f"{doing.size} bytes at {start} crashed the emulator twice and were skipped")
        elif doing.what == RESIZE:
            self._resizes = [(at, resize) for at, resize in self._resizes if resize.count != doing.number]
            self._notice("a new size crashed the emulator twice and was skipped")
        else:
            self._begin_blank("looking at it" if doing.what == DRAW else "keeping it")

    def _begin_blank(self, why: str) -> None:
        self._opening = OpenScreen(self._opening.id, *self._size, self.end, self._opening.limits)
        self._kept, self._resizes, self.modes = None, [], Modes()
        self._notice(f"the screen begins empty: {why} crashed the emulator twice")

    def _pass_over(self) -> None:
        for start, end in self._skips:
            if start <= self.sent < end:
                self.sent = end

    def _step(self) -> int:
        """How many bytes at once: few where a crash is feared, and none beyond what was told or is to be skipped."""
        suspect = self._suspect
        step = CAREFUL_CHUNK if suspect and suspect.what == FEED and self.sent < suspect.number else CHUNK
        if self.sent < self.reported:  # told before the crash: quiet up to there, aloud from there on
            step = min(step, self.reported - self.sent)
        for start, _ in self._skips:
            if start > self.sent:
                step = min(step, start - self.sent)
        return step

    def _take(self, limit: int) -> FeedScreen | None:
        offset, data = self._read_log(self.sent, limit)
        if not data:
            return None
        lost, quiet = offset - self.sent, self.sent < self.reported
        self.sent = offset + len(data)
        if lost:
            self._notice(f"{lost} bytes at {offset - lost} left the log before they were emulated")
            data = CANCEL + data
        return FeedScreen(self._opening.id, self.sent, quiet, data)
