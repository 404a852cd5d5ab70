"""What a screen process has got of one log and what it still has to get: pure decisions, no sockets.

The log itself is the buffer: bytes are read from it when the process has room. A rebuild is the same walk,
begun again at the last checkpoint.
"""

from collections import deque
from collections.abc import Callable

from ostler.terminal.screen_words import Checkpoint, Feed, Modes, Open, Request, Resize

WINDOW = 256 * 1024  # bytes on their way to the process
CHUNK = 64 * 1024
CAREFUL_CHUNK = 4096
CANCEL = b"\x18"  # ends a sequence whose rest is lost


class Tail:
    """The walk of one screen over its log."""

    def __init__(
        self, opening: Open, read_log: Callable[[int, int], tuple[int, bytes]], notice: Callable[[str], None]
    ) -> None:
        self.end = self.sent = self.done = self.told = opening.offset
        self.modes = Modes()
        self.closing = False
        self._opening = opening
        self._read_log, self._notice = read_log, notice
        self._kept: Checkpoint | None = None
        self._resizes: list[tuple[int, Resize]] = []  # since the checkpoint, with their offsets
        self._count = 0
        self._queue: deque[tuple[int, Request]] = deque()  # each is due when its offset has been sent
        self._skips: list[tuple[int, int]] = []
        self._doubt = (0, 0)
        self._suspect: Request | None = None
        self._rebuilt_at = opening.offset
        self._fresh: tuple[int, bytes] = (0, b"")  # what was just fed, to spare the log

    @property
    def rebuilt(self) -> bool:
        """All that was there when the process died has been emulated again."""
        return self.done >= self._rebuilt_at and not self._queue

    def grew(self, offset: int, data: bytes) -> None:
        self.end = max(self.end, offset + len(data))
        self._fresh = (offset, data)

    def resized(self, cols: int, rows: int) -> None:
        self._count += 1
        resize = Resize(self._opening.id, self._count, cols, rows)
        self._resizes.append((self.end, resize))
        self.then(resize)

    def then(self, request: Request) -> None:
        """To be sent after the bytes fed so far."""
        self._queue.append((self.end, request))

    def next(self, careful: bool) -> Request | None:
        """What to send now, counted as sent; None if there is nothing, or no room."""
        self._pass_over()
        if self._queue and self._queue[0][0] <= self.sent:
            return self._queue.popleft()[1]
        goal = self._queue[0][0] if self._queue else self.end
        if self.sent >= goal or self.sent - self.done >= WINDOW:
            return None
        limit = min(goal - self.sent, CAREFUL_CHUNK if careful else CHUNK)
        if self.sent < self.told:  # told before the crash: quiet up to there, aloud from there on
            limit = min(limit, self.told - self.sent)
        return self._take(min([limit, *(start - self.sent for start, _ in self._skips if start > self.sent)]))

    def came_to(self, offset: int) -> None:
        self.done = max(self.done, offset)
        self.told = max(self.told, offset)

    def keep(self, checkpoint: Checkpoint) -> None:
        self._kept = checkpoint
        self._resizes = [(at, resize) for at, resize in self._resizes if resize.count > checkpoint.resizes]
        self._skips = [skip for skip in self._skips if skip[1] > checkpoint.offset]

    def rewind(self) -> None:
        """Begins again for a new process; what was asked of the old one is to be asked anew."""
        kept, opening = self._kept, self._opening
        start = kept.offset if kept else opening.offset
        self._rebuilt_at = max(self.sent, start)
        self.sent = self.done = start
        again = Open(opening.id, opening.cols, opening.rows, opening.offset, opening.limits, kept, self.modes)
        self._queue = deque([(start, again), *((max(at, start), resize) for at, resize in self._resizes)])

    def doubt(self) -> None:
        """The process died: what it had not confirmed may be the reason."""
        self._doubt = (self.told, self.sent)

    def again(self, request: Request) -> bool:
        """Whether this is the second crash on the same bytes, or on the same other request."""
        if not isinstance(request, Feed):
            before, self._suspect = self._suspect, request
            return before == request
        start, (first, last) = request.end - len(request.data), self._doubt
        self._doubt = (start, request.end)
        return first < request.end and start < last

    def skip(self, request: Request) -> None:
        """Leaves out what killed the process, and says so."""
        match request:
            case Feed(_, end, _, data):
                self._skips.append((end - len(data), end))
                self._notice(f"{len(data)} bytes at {end - len(data)} crashed the emulator twice and were skipped")
            case Resize(_, count, cols, rows):
                self._resizes = [(at, resize) for at, resize in self._resizes if resize.count != count]
                self._notice(f"the size {cols} × {rows} crashed the emulator and was skipped")
            case _:
                self._begin_blank()

    def _begin_blank(self) -> None:
        self._opening = Open(self._opening.id, *self._size(), self.end, self._opening.limits)
        self._kept, self._resizes, self.modes = None, [], Modes()
        self._notice("the screen could not be rebuilt and begins empty")

    def _size(self) -> tuple[int, int]:
        if self._resizes:
            return self._resizes[-1][1].cols, self._resizes[-1][1].rows
        return self._opening.cols, self._opening.rows

    def _pass_over(self) -> None:
        for start, end in self._skips:
            if start <= self.sent < end:
                self.sent = end

    def _take(self, limit: int) -> Feed | None:
        offset, data = self._fresh
        if offset == self.sent and data:
            data = data[:limit]
        else:
            offset, data = self._read_log(self.sent, limit)
        if not data:
            return None
        lost, quiet = offset - self.sent, self.sent < self.told
        self.sent = offset + len(data)
        if lost:
            self._notice(f"{lost} bytes at {offset - lost} left the log before they were emulated")
            data = CANCEL + data
        return Feed(self._opening.id, self.sent, quiet, data)
