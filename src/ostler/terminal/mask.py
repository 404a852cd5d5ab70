"""Secrets taken out of a live stream of bytes, at equal length, so that offsets stay what they are."""

import asyncio
from collections.abc import Callable

from ostler.store.redact import Redactor
from ostler.terminal.screen.screens import nothing

QUIET = 0.04
LATEST = 0.4


class Mask:
    """Shows a stream of bytes to people who watch it now, and hands it to a file that can wait.

    What may be the beginning of a secret is held back until the next bytes decide it. The file (`decided`) gets it
    then. For those who watch, a program that pauses must not look as if it hung: after QUIET seconds without output,
    at the latest after LATEST, they see a third of what would be the secret, and stars for the rest. When more comes
    it goes on from there, so that no pause between two writes ever shows a secret whole. What turns out to be none
    keeps those stars where it was watched.
    """

    def __init__(
        self, redactor: Redactor, out: Callable[[bytes], None], decided: Callable[[bytes], None] = nothing
    ) -> None:
        self._out, self._decided = out, decided
        self._masker = redactor.masker()
        self._held = 0  # bytes that are not decided
        self._ahead = 0  # how many of them were shown
        self._fed_at = self._held_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        self._pass_on(self._masker.feed(data), len(data))
        if self._held > self._ahead:
            self._fed_at = self._loop.time()
            if self._timer is None:
                self._held_at = self._fed_at
                self._timer = self._loop.call_at(self._fed_at + QUIET, self._check)

    def settle(self) -> None:
        """Shows what is held back: most likely nothing follows. If it does, it is masked as if it had been held."""
        self._stop()
        self._show(whole=True)

    def close(self) -> None:
        """The same, and nothing follows."""
        self._stop()
        self._pass_on(self._masker.close(), 0)

    def _pass_on(self, decided: bytes, more: int) -> None:
        self._held += more - len(decided)
        if not decided:
            return
        self._decided(decided)
        seen = min(self._ahead, len(decided))
        self._ahead -= seen
        if seen < len(decided):
            self._out(decided[seen:])

    def _show(self, whole: bool) -> None:
        if self._held > self._ahead:
            shown = self._masker.provisional(self._ahead, whole)
            self._ahead = self._held
            self._out(shown)

    def _check(self) -> None:
        self._timer = None
        due = min(self._fed_at + QUIET, self._held_at + LATEST)
        if self._held > self._ahead and self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._check)
        else:
            self._show(whole=False)

    def _stop(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
