"""What there is to see of a live terminal: its bytes, its sizes, its screen, and in the end its last screen.

The source is never held back for it. The screen walks over the log at its own speed; if a flood overtakes it
by a whole ring, it goes on at the first clean cut of what is there, and `notices` says what it missed.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote

from msgspec.structs import replace

from ostler.errors import OstlerError
from ostler.process import Size
from ostler.terminal import clean
from ostler.terminal.log import ByteLog
from ostler.terminal.pace import Pace
from ostler.terminal.screen.protocol import Modes, ScreenFacts, Snapshot
from ostler.terminal.screen.screen import Screen
from ostler.terminal.screen.screens import Screens
from ostler.terminal.viewer_protocol import HIGH, Gone, SnapshotMessage
from ostler.terminal.viewer_snapshot import ViewerSnapshot, viewer_snapshot

SPREAD = 0.004  # seconds between two hand-ons of a flood: larger pieces cost less than many small ones
PIECE = 64 * 1024  # what is handed on at once whatever the time
SIZES = 256  # resizes that are remembered; who has missed more of them gets a snapshot
FINAL_LIMIT = 20.0  # seconds for the last look; a screen process that hangs is replaced within them


class SizeChange(NamedTuple):
    """From `offset` on the terminal has this size."""

    offset: int
    size: Size


class Display:
    """One for each terminal. `spread` gets bytes that are in the log by now, `heard` what the program told in
    passing, made harmless, `reply` what it is to be answered.
    """

    def __init__(
        self,
        screens: Screens,
        size: Size,
        ring: int,
        *,
        spread: Callable[[bytes], None],
        on_facts: Callable[[ScreenFacts], None],
        reply: Callable[[bytes], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.log = ByteLog(ring)
        self.size = size
        self.resizes = 0  # how many there were
        self.now = ScreenFacts()  # the last title, folder and progress
        self.left_at = 0  # the offset by which the alternate screen was last left
        self.sure_at: int | None = 0  # from here on viewers were exact; None: not now
        self.notices: deque[str] = deque(maxlen=50)
        self.gone: Gone | None = None  # set when everything has ended
        self.final: Snapshot | None = None  # the last screen, with history
        self._plain = b""  # its `vt` without
        self._keeping = asyncio.Lock()
        self._screens = screens
        self._spread, self._on_facts, self._reply = spread, on_facts, reply
        self._sizes: deque[SizeChange] = deque()
        self._first_size = size  # before those
        self._screen: Screen | None = None
        self._alternate = False
        self._looks: dict[bool, asyncio.Task[ViewerSnapshot]] = {}
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._pace = Pace(SPREAD, self.flush)

    @property
    def modes(self) -> Modes:
        return self._screen.modes if self._screen else Modes()

    @property
    def backlog(self) -> int:
        """Bytes that the screen is behind the log."""
        return self._screen.backlog if self._screen else 0

    # -- what happens ------------------------------------------------------------------------------------

    def append(self, data: bytes) -> None:
        """The hot path: into the log now, handed on at once after a pause, and a few ms later in a flood."""
        self.log.append(data)
        self._pending.append(data)
        self._pending_size += len(data)
        if self._pending_size >= PIECE:
            self.flush()
        else:
            self._pace()

    def flush(self) -> None:
        """Hands on what the log has got since the last time."""
        if self._pending:
            data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
            self._pending.clear()
            self._pending_size = 0
            if self._screen:
                self._screen.feed(self.log.end - len(data), data)
            self._spread(data)

    def resize(self, size: Size) -> None:
        """Takes effect after all that the log has."""
        self.flush()
        self.size = size
        self.sure_at = None
        self.resizes += 1
        self._sizes.append(SizeChange(self.log.end, size))
        if len(self._sizes) > SIZES:
            self._first_size = self._sizes.popleft().size
        if self._screen:
            self._screen.resize(*size)

    def resize_after(self, count: int) -> SizeChange | None:
        """The resize that follows the first `count` ones, if there is one and it is remembered."""
        at = count - self._forgotten
        return self._sizes[at] if 0 <= at < len(self._sizes) else None

    def forgot(self, count: int) -> bool:
        """Whether a resize after the first `count` ones is not remembered."""
        return count < self._forgotten

    def can_resume(self, offset: int) -> bool:
        """Whether a viewer that has seen everything before `offset` needs nothing but what follows."""
        resized = bool(self._sizes) and self._sizes[-1].offset >= offset
        if resized or self.sure_at is None:
            return False
        return max(self.log.start, self.log.end - 2 * HIGH, self.left_at, self.sure_at) <= offset <= self.log.end

    @property
    def _forgotten(self) -> int:
        return self.resizes - len(self._sizes)

    # -- looking -----------------------------------------------------------------------------------------

    def screen(self) -> Screen:
        """The screen; opened when first asked for, and then fed from the log."""
        if self._screen is None:
            self.flush()
            start = self.log.cut(self.log.start)
            before = [size for at, size in self._sizes if at <= start] or [self._first_size]
            self._screen = screen = self._screens.open(
                *before[-1],
                offset=start,
                read_log=self.log.read,
                reply=self._reply,
                on_facts=self._show_facts,
                notice=self.notices.append,
            )
            for at, size in self._sizes:
                if at > start:
                    screen.feed(at, b"")
                    screen.resize(*size)
            screen.feed(self.log.end, b"")
        return self._screen

    async def snapshot(self, history: bool) -> Snapshot:
        """The screen after all bytes so far. Raises `crashed` if looking kills the emulator."""
        self.flush()
        if not self.final and (self.gone or self._keeping.locked()):
            await self._keep()  # a screen that is being closed for the last look takes no other one
        if self.final:
            return self.final if history else replace(self.final, vt=self._plain)
        screen = self.screen()
        if screen.closed.done():
            raise OstlerError("not_found", "the screen is closed")
        found = await screen.snapshot(history)
        return replace(found, title=clean.title(found.title), cwd=folder(found.cwd))

    def look(self, history: bool) -> asyncio.Task[ViewerSnapshot]:
        """A snapshot for viewers, shared by all who ask while it is made. Never fails."""
        look = self._looks.get(history)
        if look is None or look.done():
            look = self._looks[history] = self._loop.create_task(self._shot(history))
            look.add_done_callback(lambda _: self._looks.pop(history, None))
        return look

    async def end(self, gone: Gone) -> None:
        """Keeps the last screen, if there was one, lets go of the emulation, and then says so."""
        self.flush()
        try:
            if self._screen:
                await self._keep()
        except OstlerError as error:
            self.notices.append(f"the last screen is not known: {error}")
        finally:
            self.gone = gone
        while self._looks:
            await asyncio.wait(self._looks.values())

    async def _keep(self) -> None:
        """Takes the last screen for good, once."""
        async with self._keeping:
            if self.final:
                return
            screen = self.screen()
            if screen.closed.done():
                raise OstlerError("not_found", "the screen is closed")
            try:
                async with asyncio.timeout(FINAL_LIMIT):
                    plain, last = await screen.snapshot(), await screen.snapshot(history=True)
                    await screen.close()
            except TimeoutError:
                raise OstlerError("timed_out", f"the emulator needed more than {FINAL_LIMIT:.0f} s") from None
            self._plain = plain.vt
            self.final = replace(last, title=clean.title(last.title), cwd=folder(last.cwd))

    async def _shot(self, history: bool) -> ViewerSnapshot:
        resizes = self.resizes
        try:
            found = await self.snapshot(history)
            resizes = self._resizes_in(found, resizes)
            shot = viewer_snapshot(found, resizes, history)
        except OstlerError as error:
            self.notices.append(f"no snapshot: {error}")
            shot = self._blank()
        if not shot.history:
            self.sure_at = None
        elif self.sure_at is None and resizes == self.resizes:
            self.sure_at = shot.shown.offset
        return shot

    def _resizes_in(self, snapshot: Snapshot, asked: int) -> int:
        """How many resizes it has seen: those before it was asked for, and more if it was asked for anew because
        the screen process died meanwhile. In doubt fewer: one that is told again does no harm.
        """
        count = asked
        while (resize := self.resize_after(count)) and resize.offset < snapshot.offset:
            count += 1
        likely = count
        while self._size_after(likely) != (snapshot.cols, snapshot.rows):
            resize = self.resize_after(likely)
            if not resize or resize.offset > snapshot.offset:
                return count
            likely += 1
        return likely

    def _size_after(self, count: int) -> Size:
        resize = self.resize_after(count - 1)
        return resize.size if resize else self._first_size

    def _blank(self) -> ViewerSnapshot:
        """An empty screen, from which on the last bytes of the log are shown."""
        offset = self.log.cut(max(self.log.start, self.log.end - HIGH))
        before = [size for at, size in self._sizes if at < offset] or [self._first_size]
        resizes = self.resizes - sum(at >= offset for at, _ in self._sizes)
        shown = SnapshotMessage(offset=offset, cols=before[-1].cols, rows=before[-1].rows, vt="")
        return ViewerSnapshot(shown=shown, resizes=resizes, history=True)

    def _show_facts(self, facts: ScreenFacts) -> None:
        facts = harmless(facts)
        if facts.modes:
            if self._alternate and not facts.modes.alternate:
                self.left_at = facts.offset
            self._alternate = facts.modes.alternate
        self.now = ScreenFacts(
            title=self.now.title if facts.title is None else facts.title,
            cwd=self.now.cwd if facts.cwd is None else facts.cwd,
            progress=facts.progress or self.now.progress,
        )
        self._on_facts(facts)


def harmless(facts: ScreenFacts) -> ScreenFacts:
    """What a program says of itself, without what acts on who reads it."""
    title = None if facts.title is None else clean.title(facts.title)
    cwd = None if facts.cwd is None else folder(facts.cwd)
    return replace(facts, title=title, cwd=cwd)


def folder(path: str) -> str:
    return clean.folder(f"file://{quote(path)}") or ""
