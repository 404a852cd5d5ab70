"""What a headless turn says, as a terminal that can be watched but not typed into.

What an agent says is drawn when somebody looks, here from its events as they come, later from its journal
(drawn_recording.py). Of a turn that nobody watches nothing is drawn or recorded, and nothing imported that would do it.
"""

import asyncio
import contextlib
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import AnyEvent, Envelope, Exit, Session, SignalName, TerminalRow, Turn
from ostler.work.terminals.context import TerminalContext
from ostler.work.terminals.new_terminal import new_turn_terminal_id
from ostler.work.terminals.recording import recording_path
from ostler.work.turns.artifacts import diff_of

if TYPE_CHECKING:
    from ostler.render.turn_text import TurnText
    from ostler.terminal.live import LiveTerminal
    from ostler.terminal.log import ByteLog

COLS, ROWS = 100, 30
_MOST_UNDRAWN = 256  # events: who looks at a long turn must not wait until all of it is drawn


class TurnTerminal:
    """One for each turn that has no terminal of its own. What goes wrong with it is no concern of the turn."""

    def __init__(self, context: TerminalContext, session: Session, turn: Turn) -> None:
        self._context = context
        row = TerminalRow(
            id=new_turn_terminal_id(),
            session=session.id,
            name=f"turn {context.store.turn_number(turn.id)}",
            source="turn",
            cols=COLS,
            rows=ROWS,
            created_at=clock.now(),
            folder=turn.folder,
            turn=turn.id,
            owner=context.owner,
        )
        self._row = replace(row, recording=recording_path(context.store.folder, row))
        self._adding: asyncio.Future[None] | None = None
        self._ended = asyncio.Event()
        self._live: LiveTerminal | None = None
        self._end: dict[str, Any] | None = None  # what is stored of its end, once that is known
        self._last: list[AnyEvent] = []  # the events that came with the end
        self._envelope: Envelope | None = None

    @property
    def row(self) -> TerminalRow:
        return self._live.row if self._live else self._row

    @property
    def live(self) -> "LiveTerminal":
        """From now on somebody looks."""
        if self._live is None:
            from ostler.terminal.live import LiveTerminal

            self._live = LiveTerminal(self._row, self._context.screens(), eager=False)
            self._live.output(self._so_far())
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

    def feed(self, events: list[AnyEvent]) -> None:
        """Events as they were committed."""

    def raw(self, stream: str, data: bytes) -> None:
        """What the process wrote."""

    def written_end(self, last: list[AnyEvent], envelope: Envelope) -> tuple[str, dict[str, Any]] | None:
        """Its id, and what is to be written of its end together with the turn's; None if it was not opened.

        Nothing of that is shown before `end`. Can be repeated.
        """
        if self._row.id not in self._context.of_turns:
            return None
        if self._end is None:
            self._last, self._envelope = last, envelope
            self._end = self._end_of(self._exit(envelope))
        return self._row.id, self._end

    async def end(self, envelope: Envelope | None, exit: Exit | None = None, *, written: bool = False) -> None:
        """The last lines, and the end of the terminal. None: the turn's end could not be written, or is not it.

        `written`: `written_end` is in the store already.
        """
        if self._row.id not in self._context.of_turns:
            return
        try:
            if self._end is None and envelope is not None:
                self._envelope = envelope
                self._end = self._end_of(self._exit(envelope))
            await self._close(self._end or self._end_of(exit), written)
        except (OstlerError, OSError):
            pass  # its row was removed meanwhile
        finally:
            self._context.of_turns.pop(self._row.id, None)
            self._ended.set()

    async def _close(self, end: dict[str, Any], written: bool) -> None:
        self._show_end()
        if self._live is not None:
            await self._live.end(end["exit"])
        self._row = replace(self._row, state="ended", **end)
        if not written:
            write = partial(self._context.store.end_terminal, self._row.id, **end)
            await self._context.unwritten.write(self._row.id, write)
        if self._live is not None:
            self._live.free_log()

    # -- what each kind has of its own ---------------------------------------------------------------------

    def _so_far(self) -> bytes:
        """What it shows to whoever looks first; from then on `_live` gets what is new."""
        raise NotImplementedError

    def _exit(self, envelope: Envelope) -> Exit | None:
        return envelope.exit

    def _end_of(self, exit: Exit | None) -> dict[str, Any]:
        return {"exit": exit, "ended_at": clock.now()}

    def _show_end(self) -> None:
        raise NotImplementedError


class AgentTerminal(TurnTerminal):
    """What the events of an agent say, as `ostler run` prints it. Drawn once somebody looks."""

    def __init__(self, context: TerminalContext, session: Session, turn: Turn) -> None:
        super().__init__(context, session, turn)
        self._access = turn.access
        self._text: TurnText | None = None
        self._undrawn: list[AnyEvent] = []
        self._unseen: ByteLog | None = None  # what had to be drawn before anybody looked

    def feed(self, events: list[AnyEvent]) -> None:
        if self._end is not None:
            return
        self._undrawn += events
        if self._live is not None:
            self._live.output(self._draw())
        elif len(self._undrawn) > _MOST_UNDRAWN:
            self._draw_unseen()

    def _draw_unseen(self) -> None:
        from ostler.terminal.log import ByteLog

        self._unseen = self._unseen or ByteLog()
        self._unseen.append(self._draw())

    def _so_far(self) -> bytes:
        unseen, self._unseen = self._unseen, None
        return (unseen.read(0)[1] if unseen else b"") + self._draw()

    def _draw(self) -> bytes:
        if self._text is None:
            from ostler.render.turn_text import TurnText

            self._text = TurnText(access=self._access, home=self._context.home)
        undrawn, self._undrawn = self._undrawn, []
        return b"".join(map(self._text.feed, undrawn))

    def _exit(self, envelope: Envelope) -> Exit | None:
        """The agent's own; where its process goes on, or never came to be, what one of this turn alone would have."""
        if envelope.outcome == "cancelled":
            return Exit(signal=signal.SIGINT)  # whatever code an agent that is told to stop ends with: it did not fail
        if envelope.exit is not None:
            return envelope.exit
        if envelope.outcome == "timed_out":
            return Exit(signal=signal.SIGINT)
        return Exit(code=0 if envelope.ok else 1)

    def _show_end(self) -> None:
        if self._live is None or self._envelope is None:
            return
        self._undrawn += self._last
        self._live.output(self._draw())
        if self._text is not None:
            self._live.output(self._text.end(self._envelope, diff_of(self._envelope)))
