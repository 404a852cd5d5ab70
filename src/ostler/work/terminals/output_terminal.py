"""The output of a headless command, as a terminal that can be watched: recorded as it comes, secrets masked."""

import contextlib
from typing import Any

from msgspec.structs import replace

from ostler.errors import OstlerError
from ostler.model import Exit, Session, Turn
from ostler.store import Redactor
from ostler.store.redact import Masker
from ostler.terminal.cast import CastWriter
from ostler.terminal.log import ByteLog
from ostler.work.terminals.context import TerminalContext
from ostler.work.terminals.recording import new_recording
from ostler.work.terminals.turn_terminal import TurnTerminal
from ostler.work.transports.transport import OutputSink, nobody


class OutputTerminal(TurnTerminal):
    def __init__(
        self,
        context: TerminalContext,
        session: Session,
        turn: Turn,
        redactor: Redactor,
        shown: OutputSink | None = None,
    ) -> None:
        super().__init__(context, session, turn)
        self._log = ByteLog()
        self._cast: CastWriter | None = None
        self._shown = shown or nobody  # gets the output too
        self._masker = redactor.masker
        self._masks: dict[str, Masker] = {}  # of its streams

    def open(self) -> None:
        try:
            limit = self._context.setup_in(self._row.folder).settings.recording_mb
            self._cast = new_recording(self._context.store.folder, self._row, limit)
        except (OstlerError, OSError):  # a full disk: the turn goes on without a recording
            self._row = replace(self._row, recording="")
        super().open()

    def raw(self, stream: str, data: bytes) -> None:
        self._take(stream, self._masked(stream, data))

    def _masked(self, stream: str, data: bytes) -> bytes:
        if stream not in self._masks:
            self._masks[stream] = self._masker()
        return self._masks[stream].feed(data)

    def _take(self, stream: str, data: bytes) -> None:
        if data:
            self._shown(stream, data)
            self._output(data.replace(b"\n", b"\r\n"))

    def _output(self, data: bytes) -> None:
        if not data:
            return
        self._log.append(data)
        if self._cast is not None:
            with contextlib.suppress(OstlerError):  # a full disk ends the recording alone
                self._cast.output(data)
        if self._live is not None:
            self._live.output(data)

    def _so_far(self) -> bytes:
        return self._log.read(0)[1]

    def _end_of(self, exit: Exit | None) -> dict[str, Any]:
        """Shows what was held back since it might have become a secret."""
        for stream, mask in self._masks.items():
            self._take(stream, mask.close())
        return {**super()._end_of(exit), "size": self._log.end}

    def _show_end(self) -> None:
        if self._cast is not None:
            self._cast.close()
