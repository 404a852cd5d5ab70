"""Secrets taken out of a live stream of bytes, at equal length, so that offsets stay what they are."""

import asyncio
from collections.abc import Callable

from ostler.store.redact import Redactor

QUIET = 0.04


class Mask:
    """What may be the beginning of a secret is held back until the next bytes decide it, or until QUIET seconds
    passed without any.

    A person who types sees each key echoed alone, and some of them begin a secret: `s` of `sk-`. Without the
    deadline such a key would not show until the next one. A program writes a secret in one piece; one that
    comes slower than that, key by key, is shown by design.
    """

    def __init__(self, redactor: Redactor, out: Callable[[bytes], None]) -> None:
        self._redactor, self._out = redactor, out
        self._masker = redactor.masker()
        self._held = 0
        self._fed_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        shown = self._masker.feed(data)
        self._held += len(data) - len(shown)
        if shown:
            self._out(shown)
        if self._held:
            self._fed_at = self._loop.time()
            if self._timer is None:
                self._timer = self._loop.call_at(self._fed_at + QUIET, self._check)

    def flush(self) -> None:
        """Shows what is held back; whole secrets in it are masked."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._held:
            masker, self._masker = self._masker, self._redactor.masker()
            self._held = 0
            self._out(masker.close())

    def _check(self) -> None:
        self._timer = None
        due = self._fed_at + QUIET
        if self._held and self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._check)
        else:
            self.flush()
