"""A live terminal in the process that owns it: takes the bytes of its source, shows them, takes what is typed."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from ostler import clock
from ostler.access import Rights
from ostler.errors import OstlerError
from ostler.model import Exit, TerminalRow
from ostler.process import Size
from ostler.store.redact import Redactor
from ostler.terminal import clean
from ostler.terminal.byte_stream import ByteStream
from ostler.terminal.cast import CastWriter
from ostler.terminal.display import Display
from ostler.terminal.input_encoding import encoded
from ostler.terminal.keyboard import Keyboard
from ostler.terminal.lease import Author, Lease, LeaseChange
from ostler.terminal.log import LIMIT, ByteLog
from ostler.terminal.mask import Mask
from ostler.terminal.pace import Pace
from ostler.terminal.row_stream import RowStream
from ostler.terminal.screen.protocol import Modes, ScreenFacts, Snapshot
from ostler.terminal.screen.screens import Screens, nothing
from ostler.terminal.subscription import Subscribers, Subscription
from ostler.terminal.text import plain_text
from ostler.terminal.viewer import Viewer
from ostler.terminal.viewer_protocol import (
    Ack,
    AnyViewerMessage,
    Format,
    Gone,
    Refresh,
    ResizeTerminal,
    ViewerInput,
    Viewing,
    Want,
)

FACTS = 1.0  # seconds between two titles or bells that are worth storing: some programs spin in their title
RESIZES = 0.03  # between two sizes that the program is told: who drags a window sends hundreds


class Controls(Protocol):
    """Of a source that takes input; a read-only terminal has none."""

    def write(self, data: bytes) -> None:
        """Never blocks; `too_many` when its bounded buffer is full."""

    def resize(self, cols: int, rows: int) -> None: ...


OwnInput = Callable[[ViewerInput, Modes], bool]  # whether it took the message


class LiveTerminal:
    """The way of its bytes: masked, into the log, the recording and the screen, to viewers.

    The source is always read. What is not emulated yet stays in the log, so nothing grows without bound.
    """

    def __init__(
        self,
        row: TerminalRow,
        screens: Screens,
        *,
        controls: Controls | None = None,
        cast: CastWriter | None = None,
        redactor: Redactor | None = None,
        changed: Callable[[TerminalRow], None] = nothing,
        eager: bool = True,
        answers: bool = True,
        ring: int = LIMIT,
    ) -> None:
        """`changed` gets the row after each change worth storing. Without `eager` the emulation begins when
        somebody looks, with what the log still has. `answers`: what the program asks its terminal is answered here.
        """
        self.row = row
        self._controls, self._cast, self._changed = controls, cast, changed
        self._answers = answers
        self.own_input: OwnInput | None = None  # of a source that takes some messages in its own way
        size = Size(row.cols, row.rows)
        spread, on_facts, reply = self._spread, self._handle_facts, self._reply
        self._display = Display(screens, size, ring, spread=spread, on_facts=on_facts, reply=reply)
        self._keyboard = Keyboard(self._passed)
        self._viewers: list[Viewer] = []
        self._passing: list[asyncio.Future[None]] = []  # automation that waits for the keyboard
        self._subscribers = Subscribers(self._display)
        self._unrecorded: list[bytes] = []
        self._mask = Mask(redactor, self._display.append, self._to_record) if redactor else None
        self._facts = Pace(FACTS, lambda: self._changed(self.row))
        self._sizes = Pace(RESIZES, self._resize)
        self._ending = asyncio.Lock()
        self._closed = False  # neither output nor input any more
        self._stored = False  # what there is to see of it is on disk
        if eager:
            self._open_screen()

    def _open_screen(self) -> None:
        """A program is worth more than its screen: without one, its bytes must do."""
        try:
            self._display.screen()
        except OstlerError as error:
            self._display.notices.append(f"not emulated yet: {error}")

    @property
    def log(self) -> ByteLog:
        return self._display.log

    @property
    def lease(self) -> Lease:
        return self._keyboard.lease

    @property
    def final(self) -> Snapshot | None:
        """The last screen, with its history, once the terminal has ended; None if it was never emulated."""
        return self._display.final

    @property
    def notices(self) -> tuple[str, ...]:
        """What went wrong with emulation and recording, the newest."""
        return tuple(self._display.notices)

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    @property
    def crowded(self) -> bool:
        """The screen is half a ring behind. A source that can wait should, for some milliseconds: if the log
        overtakes the screen, it goes on without what it missed."""
        return self._display.backlog > self.log.limit // 2

    # -- the source ----------------------------------------------------------------------------------------

    def output(self, data: bytes) -> None:
        """Bytes of the source. Never blocks; after `end` they are dropped."""
        if self._closed:
            return
        if self._mask:
            self._mask.feed(data)
        else:
            self._to_record(data)
            self._display.append(data)

    def _to_record(self, data: bytes) -> None:
        if self._cast:
            self._unrecorded.append(data)

    def settle(self) -> None:
        """What is held back as the possible beginning of a secret is in the log now: the source has paused."""
        if self._mask and not self._closed:
            self._mask.settle()

    async def end(self, exit: Exit | None) -> None:
        """Everything is flushed to viewers, subscribers and recording; idempotent.

        It waits for the last screen, but for no viewer: they get the rest when they take it.
        """
        async with self._ending:
            if self._closed:
                return
            self._flush()
            gone = Gone(exit=exit, offset=self.log.end)
            try:
                await self._display.end(gone)
                await self._subscribers.end(gone)
            finally:
                self._keyboard.close()
                self._wake_waiting()
                size = self.log.end
                ended = replace(self.row, state="ended", exit=exit, ended_at=clock.now(), size=size)
                self.row = replace(ended, pid=None, held_by="")
                self._changed(self.row)
                self._wake()

    def free_log(self) -> None:
        """Its end is stored. Until then who comes late gets its bytes here, from then on those of its recording."""
        self._stored = True
        self._forget()

    def _flush(self) -> None:
        if self._mask:
            self._mask.close()
        self._closed = True
        self._display.flush()
        self._sizes.flush()
        self._facts.flush()
        self._record(CastWriter.close)

    # -- who types -------------------------------------------------------------------------------------------

    def input(self, author: Author, message: ViewerInput) -> None:
        """Keys, text and the like need the lease; a size too, if anybody holds it. `denied` without.

        `not_found` if the terminal has ended, `unsupported` if it is read-only, `bad_request` for what cannot
        be typed and for what is no size; sizes out of bounds are clamped.
        """
        controls = self._writable()
        if isinstance(message, ResizeTerminal):
            self._resized(author, clean.clamp(message.cols, message.rows))
            return
        self._keyboard.use(author)
        if self.own_input is not None and self.own_input(message, self._display.modes):
            return
        if data := encoded(message, self._display.modes):
            controls.write(data)

    def take(self, author: Author) -> None:
        self._writable()
        self._keyboard.take(author)

    async def acquire(self, author: Author) -> None:
        """Takes the keyboard for automation as soon as nobody else holds it; a person who does is waited for.

        Raises what `take` raises but `denied`. On cancel it waits no more.
        """
        while True:
            try:
                return self.take(author)
            except OstlerError as error:
                if error.kind != "denied":
                    raise
            passed = asyncio.get_running_loop().create_future()
            self._passing.append(passed)
            try:
                self._keyboard.wait(author)
                await passed
            except asyncio.CancelledError:
                self.release(author)
                raise

    def release(self, author: Author) -> None:
        self._keyboard.release(author)

    def _writable(self) -> Controls:
        if self._closed:
            raise OstlerError("not_found", f"the terminal {self.row.id} has ended", "Open another one")
        if self._controls is None:
            raise OstlerError("unsupported", f"the terminal {self.row.id} is read-only: it does not accept input")
        return self._controls

    def _resized(self, author: Author, size: Size) -> None:
        holder = self.lease.holder
        if holder and holder != author:
            raise OstlerError("denied", f"{holder.name} has the keyboard and chooses the size", "Take it first")
        if size != (self.row.cols, self.row.rows):
            self.row = replace(self.row, cols=size.cols, rows=size.rows)
            self._sizes()

    def follow_size(self, size: Size) -> None:
        """The source has another size by itself, or is to have one before anybody has seen it."""
        if not self._closed and size != (self.row.cols, self.row.rows):
            self.row = replace(self.row, cols=size.cols, rows=size.rows)
            self._sizes()

    def _resize(self) -> None:
        """Makes the terminal as large as its row says."""
        size = Size(self.row.cols, self.row.rows)
        if size == self._display.size:
            return
        if self._controls and not self._closed:
            self._controls.resize(*size)
        self._display.resize(size)
        self._record(lambda cast: cast.resize(*size))
        self._changed(self.row)
        self._wake()

    # -- who watches -----------------------------------------------------------------------------------------

    async def snapshot(self, history: bool = False) -> Snapshot:
        """The screen now, or the last one; with `history` its `vt` begins with the scrollback."""
        self._sizes.flush()
        snapshot = await self._display.snapshot(history)
        self._forget()
        return snapshot

    def text(self, limit: int | None = None, since: int | None = None) -> str:
        """The last characters of output without anything that controls a terminal; `since`: after that offset."""
        if since is not None:
            text = plain_text(self.log.read(since)[1])
        elif self.final and self.log.start == self.log.end:
            text = plain_text(self.final.vt)
        elif limit is None:
            text = plain_text(self.log.read(0)[1])
        else:
            text = self._last_text(limit)
        return text if limit is None else text[-limit:] if limit > 0 else ""

    def _last_text(self, limit: int) -> str:
        """At least so many characters, if there are so many; most output is far less than half control."""
        likely = self.log.cut(self.log.end - 8 * max(limit, 0) - 1024)
        text = plain_text(self.log.read(likely)[1])
        return text if len(text) >= limit else plain_text(self.log.read(0)[1])

    def subscribe(self, buffer: int = 64, snapshot_every: int | None = None) -> Subscription:
        """Screens and their changes for programs, numbered, without loss."""
        return self._subscribers.add(buffer, snapshot_every)

    def view(
        self, author: Author, rights: Rights = "view", offset: int | None = None, format: Format = "bytes"
    ) -> Viewing:
        """A viewer. With `offset` it goes on there, if all that followed is known as bytes."""

        def walk(wake: Callable[[], None]) -> ByteStream | RowStream:
            if format == "rows":
                return RowStream(self._display, self._subscribers, wake)
            return ByteStream(self._display, offset, wake)

        viewer = Viewer(self.row, self._keyboard, author, rights, walk=walk, obey=self._obey, left=self._left)
        self._viewers.append(viewer)
        return viewer

    def _obey(self, author: Author, said: AnyViewerMessage) -> None:
        match said:
            case Want(action="take"):
                self.take(author)
            case Want():
                self.release(author)
            case Ack() | Refresh():
                pass  # the viewer's own
            case _:
                self.input(author, said)

    def _left(self, viewer: Viewer) -> None:
        self._viewers.remove(viewer)
        self._forget()

    def _wake(self) -> None:
        for viewer in self._viewers:
            viewer.changed()

    def _forget(self) -> None:
        """When the end is stored and its last screen is known, the bytes are of no use unless somebody watches."""
        if self._stored and self.final and not self._viewers:
            self.log.forget()

    # -- what the display hears ------------------------------------------------------------------------------

    def _spread(self, _: bytes) -> None:
        if self._unrecorded:
            self._record(nothing)
        for viewer in self._viewers:
            viewer.grew()

    def _handle_facts(self, facts: ScreenFacts) -> None:
        title = self.row.title if facts.title is None else facts.title
        if title != self.row.title or facts.bells:
            self.row = replace(self.row, title=title, bells=self.row.bells + facts.bells)
            self._facts()
        for viewer in self._viewers:
            viewer.add_facts(facts)

    def _reply(self, data: bytes) -> None:
        """What the program asked its terminal: answered by us alone, never by those who watch."""
        if self._controls and self._answers and not self._closed:
            try:
                self._controls.write(data)
            except OstlerError as error:
                self._display.notices.append(f"an answer was not delivered: {error}")

    def _passed(self, change: LeaseChange | None) -> None:
        """Who types is recorded, what is typed never: it may be a secret."""
        if change:
            name = change.holder.name if change.holder else "nobody"
            self._held_by(change.holder)
            self._record(lambda cast: cast.marker(f"keyboard: {name}"))
            self._wake_waiting()
        for viewer in self._viewers:
            viewer.leased()

    def _held_by(self, holder: Author | None) -> None:
        """A person's hold is stored, for those who would run something here; automation's passes with each prompt."""
        person = holder.name if holder is not None and holder.kind == "person" else ""
        if person != self.row.held_by:
            self.row = replace(self.row, held_by=person)
            self._changed(self.row)

    def _wake_waiting(self) -> None:
        passing, self._passing = self._passing, []
        for passed in passing:
            if not passed.done():
                passed.set_result(None)

    def _record(self, write: Callable[[CastWriter], None]) -> None:
        """Output first, as far as it is decided. A recording that cannot be written ends, the terminal goes on."""
        if self._cast:
            output, self._unrecorded = b"".join(self._unrecorded), []
            try:
                if output:
                    self._cast.output(output)
                write(self._cast)
            except OstlerError as error:
                self._display.notices.append(f"the recording ends here: {error}")
