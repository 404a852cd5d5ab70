"""What a headless turn says, as a terminal that can be watched but not typed into.

Until somebody looks it is a log and a recording: nothing of emulators and viewers is imported or started for a turn
that nobody watches.
"""

import asyncio
import contextlib
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import AnyEvent, Envelope, Exit, Session, SignalName, TerminalRow, Turn
from ostler.render.turn_text import TurnText
from ostler.settings import Settings
from ostler.store import Redactor
from ostler.store.redact import Masker
from ostler.terminal.log import ByteLog
from ostler.work.terminals.context import TerminalContext
from ostler.work.terminals.new_terminal import new_turn_terminal_id
from ostler.work.transports.transport import OutputSink, nobody

if TYPE_CHECKING:
    from ostler.terminal.cast import CastWriter
    from ostler.terminal.live import LiveTerminal

COLS, ROWS = 100, 30
_MAX_DIFF = 4 * 1024 * 1024


class _TerminalEnd(Struct, frozen=True):
    last_lines: bytes
    fields: dict[str, Any]  # what is stored of it


class TurnTerminal:
    """One for each turn that has no terminal of its own. What goes wrong with it is no concern of the turn."""

    def __init__(
        self,
        context: TerminalContext,
        session: Session,
        turn: Turn,
        redactor: Redactor,
        shown: OutputSink | None = None,
        settings: Settings | None = None,
    ) -> None:
        """`settings`: those of the turn's folder, where they are known already."""
        store = context.store
        self._context, self._settings = context, settings
        self._row = TerminalRow(
            id=new_turn_terminal_id(),
            session=session.id,
            name=f"turn {store.turn_number(turn.id)}",
            source="turn",
            cols=COLS,
            rows=ROWS,
            created_at=clock.now(),
            folder=turn.folder,
            turn=turn.id,
            owner=context.owner,
        )
        self._adding: asyncio.Future[None] | None = None
        self._ended = asyncio.Event()
        self._asleep = ByteLog()
        self._cast: CastWriter | None = None
        self._live: LiveTerminal | None = None
        self._text = None if turn.agent == "exec" else TurnText(access=turn.access, home=context.home)
        self._shown = shown or nobody  # gets the output of a command too
        self._masker = redactor.masker
        self._masks: dict[str, Masker] = {}  # of the streams of a command
        self._end: _TerminalEnd | None = None  # once it is known how the turn ended

    @property
    def row(self) -> TerminalRow:
        return self._live.row if self._live else self._row

    @property
    def live(self) -> "LiveTerminal":
        """From now on somebody looks."""
        if self._live is None:
            from ostler.terminal.live import LiveTerminal

            self._live = LiveTerminal(self._row, self._context.screens(), eager=False)
            self._live.output(self._asleep.read(0)[1])
        return self._live

    @property
    def stored(self) -> bool:
        return self._ended.is_set()

    async def wait(self) -> Exit | None:
        await self._ended.wait()
        return self.row.exit

    async def kill(self, signal: SignalName | None = None) -> None:
        raise OstlerError("unsupported", f"terminal {self._row.id} shows a turn", "Cancel the turn instead")

    # -- for the turn --------------------------------------------------------------------------------------

    def open(self) -> None:
        """From now on it can be watched here; others find it once the next thing is written."""
        self._record()
        self._context.of_turns[self._row.id] = self
        with contextlib.suppress(OstlerError):  # the turn meets the same trouble, and tells it
            self._adding = self._context.store.add_turn_terminal(self._row)
            self._adding.add_done_callback(self._added)

    async def added(self) -> None:
        """Until others can find it, or never will."""
        if self._adding is not None:
            await asyncio.wait([self._adding])

    def _added(self, adding: "asyncio.Future[None]") -> None:
        if adding.cancelled() or adding.exception() is not None:  # see above
            self._context.of_turns.pop(self._row.id, None)

    def _record(self) -> None:
        from ostler.work.terminals.recording import new_recording, recording_path

        row = self._row
        with contextlib.suppress(OstlerError, OSError):  # a full disk: the turn goes on without a recording
            row = replace(row, recording=recording_path(self._context.store.folder, row))
            settings = self._settings or self._context.setup_in(row.folder).settings
            self._cast = new_recording(row, settings.recording_mb)
            self._row = row

    def feed(self, events: list[AnyEvent]) -> None:
        """Events as they were committed; of a command its output says all."""
        if self._end is None:
            self._output(self._shown_as(events))

    def _shown_as(self, events: list[AnyEvent]) -> bytes:
        if self._text is not None:
            text = self._text
            with contextlib.suppress(Exception):  # whatever is wrong with what is shown: the turn goes on
                return b"".join(text.feed(event) for event in events)
        return b""

    def raw(self, stream: str, data: bytes) -> None:
        """Output of a command, masked here."""
        if self._text is None:
            self._command_output(stream, self._masked(stream, data))

    def _masked(self, stream: str, data: bytes) -> bytes:
        if stream not in self._masks:
            self._masks[stream] = self._masker()
        return self._masks[stream].feed(data)

    def written_end(self, last: list[AnyEvent], envelope: Envelope) -> tuple[str, dict[str, Any]] | None:
        """Its id, and what is to be written of its end together with the turn's; None if it was not opened.

        Nothing of that is shown before `end`. Can be repeated.
        """
        if self._row.id not in self._context.of_turns:
            return None
        if self._end is None:
            self._end = self._end_of(self._exit(envelope), self._shown_as(last) + self._ending(envelope))
        return self._row.id, self._end.fields

    async def end(self, envelope: Envelope | None, exit: Exit | None = None, *, written: bool = False) -> None:
        """The last lines, and the end of the terminal. None: the turn's end could not be written, or is not it.

        `written`: `written_end` is in the store already.
        """
        if self._row.id not in self._context.of_turns:
            return
        try:
            if self._end is None and envelope is not None:
                self._end = self._end_of(self._exit(envelope), self._ending(envelope))
            await self._close(self._end or self._end_of(exit), written)
        except (OstlerError, OSError):
            pass  # its row was removed meanwhile
        finally:
            self._context.of_turns.pop(self._row.id, None)
            self._ended.set()

    def _end_of(self, exit: Exit | None, last_lines: bytes = b"") -> "_TerminalEnd":
        """Shows what was held back since it might have become a secret; the last lines are not shown yet."""
        for stream, mask in self._masks.items():
            self._command_output(stream, mask.close())
        size = self._asleep.end + len(last_lines)
        return _TerminalEnd(last_lines, {"exit": exit, "ended_at": clock.now(), "size": size})

    def _exit(self, envelope: Envelope) -> Exit | None:
        """The agent's own; where its process goes on, or never came to be, what one of this turn alone would have."""
        if self._text is None:
            return envelope.exit
        if envelope.outcome == "cancelled":
            return Exit(signal=signal.SIGINT)  # whatever code an agent that is told to stop ends with: it did not fail
        if envelope.exit is not None:
            return envelope.exit
        if envelope.outcome == "timed_out":
            return Exit(signal=signal.SIGINT)
        return Exit(code=0 if envelope.ok else 1)

    def _ending(self, envelope: Envelope) -> bytes:
        with contextlib.suppress(Exception):  # as above: a turn must not end otherwise since it cannot be shown
            return self._text.end(envelope, diff_of(envelope)) if self._text else b""
        return b""

    def _command_output(self, stream: str, data: bytes) -> None:
        if data:
            self._shown(stream, data)
            self._output(data.replace(b"\n", b"\r\n"))

    async def _close(self, end: "_TerminalEnd", written: bool) -> None:
        self._output(end.last_lines)
        if self._cast is not None:
            self._cast.close()
        if self._live is not None:
            await self._live.end(end.fields["exit"])
        self._row = replace(self._row, state="ended", **end.fields)
        if not written:
            write = partial(self._context.store.end_terminal, self._row.id, **end.fields)
            await self._context.unwritten.write(self._row.id, write)
        if self._live is not None:
            self._live.free_log()

    def _output(self, data: bytes) -> None:
        if not data:
            return
        self._asleep.append(data)
        if self._cast is not None:
            with contextlib.suppress(OstlerError):  # a full disk ends the recording alone
                self._cast.output(data)
        if self._live is not None:
            self._live.output(data)


def diff_of(envelope: Envelope) -> str:
    """The turn's diff, if it has one that can be read."""
    path = envelope.artifacts.get("diff")
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_DIFF)
    except OSError:
        return ""
