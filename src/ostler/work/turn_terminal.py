"""What a headless turn says, as a terminal that can be watched but not typed into.

Until somebody looks it is a log and a recording: nothing of emulators and viewers is imported or started for a turn
that nobody watches.
"""

import contextlib
import signal
import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ostler.errors import OstlerError
from ostler.store import Redactor
from ostler.terminal.log import ByteLog
from ostler.words import AnyEvent, Envelope, Exit, Session, TerminalRow, Turn
from ostler.work.terminal_rows import new_terminal_id
from ostler.work.turn_text import TurnText

if TYPE_CHECKING:
    from ostler.terminal.cast import CastWriter
    from ostler.terminal.live import Terminal
    from ostler.work.ostler import Ostler

COLS, ROWS = 100, 30
_MAX_DIFF = 4 * 1024 * 1024


class TurnTerminal:
    """One for each turn that has no terminal of its own. What goes wrong with it is no concern of the turn."""

    def __init__(self, ostler: "Ostler", session: Session, turn: Turn, redactor: Redactor) -> None:
        store = ostler.store
        counted = store.session(session.id) or session  # with this turn, whenever `session` was read
        self._ostler = ostler
        self._row = TerminalRow(
            id=new_terminal_id(lambda id: store.terminal(id) is not None),
            session=session.id,
            name=f"turn {max(1, counted.turns)}",
            source="turn",
            cols=COLS,
            rows=ROWS,
            created_at=time.time(),
            folder=turn.folder,
            turn=turn.id,
            owner=ostler.desk.id,
        )
        self._asleep = ByteLog()
        self._cast: CastWriter | None = None
        self._terminal: Terminal | None = None
        self._text = None if turn.agent == "exec" else TurnText(access=turn.access, home=ostler.setup.home)
        self._masks = {stream: redactor.masker() for stream in ("stdout", "stderr")}

    @property
    def row(self) -> TerminalRow:
        return self._terminal.row if self._terminal else self._row

    @property
    def terminal(self) -> "Terminal":
        """From now on somebody looks."""
        if self._terminal is None:
            from ostler.terminal.live import Terminal

            self._terminal = Terminal(self._row, self._ostler.screens, eager=False)
            self._terminal.output(self._asleep.read(0)[1])
        return self._terminal

    async def kill(self) -> None:
        raise OstlerError("unsupported", f"terminal {self._row.id} shows a turn", "Cancel the turn instead")

    # -- for the turn --------------------------------------------------------------------------------------

    async def open(self) -> None:
        self._record()
        self._ostler.turn_terminals[self._row.id] = self
        try:
            await self._ostler.store.add_terminal(self._row)
        except OstlerError:  # the turn meets the same trouble, and tells it
            del self._ostler.turn_terminals[self._row.id]

    def _record(self) -> None:
        from ostler.work.terminal_recording import new_recording, recording_path

        row = self._row
        with contextlib.suppress(OstlerError, OSError):
            row = replace(row, recording=str(recording_path(self._ostler.store.folder, row)))
            self._cast = new_recording(row, self._ostler.settings.recording_mb)
            self._row = row

    def tell(self, events: list[AnyEvent]) -> None:
        """Events as they were committed; of a command its output says all."""
        if self._text is not None:
            text = self._text
            with contextlib.suppress(Exception):  # whatever is wrong with what is shown: the turn goes on
                self._output(b"".join(text.tell(event) for event in events))

    def raw(self, stream: str, data: bytes) -> None:
        """Output of a command, masked here."""
        if self._text is None:
            self._output(self._masks[stream].feed(data).replace(b"\n", b"\r\n"))

    async def end(self, envelope: Envelope | None, exit: Exit | None = None) -> None:
        """The last lines, and the end of the terminal. None: the turn's end could not be written, or is not it."""
        if self._row.id not in self._ostler.turn_terminals:
            return
        try:
            self._output(self._last(envelope))
            await self._close(self._exit(envelope) if envelope is not None else exit)
        except (OstlerError, OSError):
            pass  # found by its dead owner
        finally:
            del self._ostler.turn_terminals[self._row.id]

    def _exit(self, envelope: Envelope) -> Exit | None:
        """The agent's own; where its process goes on, or never came to be, what one of this turn alone would have."""
        if envelope.exit is not None or self._text is None:
            return envelope.exit
        if envelope.outcome in ("cancelled", "timed_out"):
            return Exit(signal=signal.SIGINT)
        return Exit(code=0 if envelope.ok else 1)

    def _last(self, envelope: Envelope | None) -> bytes:
        if self._text is None:
            return b"".join(mask.close() for mask in self._masks.values()).replace(b"\n", b"\r\n")
        return self._text.end(envelope, diff_of(envelope)) if envelope is not None else b""

    async def _close(self, exit: Exit | None) -> None:
        if self._cast is not None:
            self._cast.close()
        if self._terminal is not None:
            await self._terminal.end(exit)
        await self._ostler.store.end_terminal(self._row.id, exit=exit, ended_at=time.time(), size=self._asleep.end)

    def _output(self, data: bytes) -> None:
        if not data:
            return
        self._asleep.append(data)
        if self._cast is not None:
            with contextlib.suppress(OstlerError):  # a full disk ends the recording alone
                self._cast.output(data)
        if self._terminal is not None:
            self._terminal.output(data)


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
