"""What a headless turn says, as a terminal that can be watched but not typed into.

Until somebody looks it is a log and a recording: nothing of emulators and viewers is imported or started for a turn
that nobody watches.
"""

from typing import TYPE_CHECKING

from ostler.errors import OstlerError
from ostler.terminal.log import ByteLog
from ostler.words import TerminalRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from ostler.terminal.live import Terminal


class TurnTerminal:
    """`wake` makes the terminal that people look at, of the row as it is then."""

    def __init__(self, row: TerminalRow, wake: "Callable[[TerminalRow], Terminal]") -> None:
        self._row = row
        self._wake = wake
        self._asleep = ByteLog()
        self._terminal: Terminal | None = None

    @property
    def row(self) -> TerminalRow:
        return self._terminal.row if self._terminal else self._row

    @property
    def terminal(self) -> "Terminal":
        """From now on somebody looks."""
        if self._terminal is None:
            self._terminal = self._wake(self._row)
            self._terminal.output(self._asleep.read(0)[1])
        return self._terminal

    async def kill(self) -> None:
        raise OstlerError("unsupported", f"terminal {self._row.id} shows a turn", "Cancel the turn instead")
