"""Sends a prompt to a TUI, with a receipt: accepted, echoed, submitted, acknowledged.

The text is pasted once and never again; Enter is pressed again only while the box still holds the text. What the
program does not take up in time is `undelivered`.
"""

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from ostler import clock
from ostler.agents.tui import TuiFace
from ostler.errors import OstlerError
from ostler.work.tuis.evidence import Evidence
from ostler.work.tuis.typing import Typist
from ostler.work.tuis.watch import TICK, Watch

DeliveryStage = Literal["accepted", "echoed", "submitted", "acknowledged"]
QUIET = 3.0  # seconds after which a box counts as ready where no state was told
STEADY = 0.3  # seconds that what is seen must stay as it is before it is acted upon
ENTERS = 3
CLEARS = 3
CLEAR_TAKES = 2.0  # seconds that a box has to become empty
ENTER_AGAIN = 1.5  # seconds after which Enter is pressed again, if the text still stands in the box

_log = logging.getLogger(__name__)


def pieces(text: str, most: int) -> list[str]:
    """The text in parts of so many characters; whole where that does not matter (0).

    Cut within words where there are any: white space at the end of a paste may be dropped.
    """
    parts = []
    while most and len(text) > most:
        within = (n for n in range(most, most // 2, -1) if not text[n - 1].isspace() and not text[n].isspace())
        cut = next(within, most)
        parts.append(text[:cut])
        text = text[cut:]
    return [*parts, text]


class Delivery(Struct, kw_only=True):
    """One prompt on its way. `stages` says how far it came; `pasted`: it went off, and is not known to be taken up."""

    face: TuiFace
    watch: Watch
    typist: Typist
    evidence: Evidence
    name: str  # the agent's, for messages
    turn: str = ""  # for the log
    text: str
    start_limit: float
    receipt_limit: float
    reached: Callable[[DeliveryStage, str], Awaitable[None]]
    used: bool = False  # it has taken a prompt before
    put_back: str = ""  # the prompt before, where an interrupt may have put it back into the box
    stages: list[DeliveryStage] = []
    pasted: bool = False
    cleared: int = 0

    async def send(self) -> None:
        """Returns when the prompt is acknowledged. Raises `undelivered`, and `crashed` when the program ended."""
        try:
            await self._send()
        except OstlerError as error:
            if error.kind != "not_found":  # which a terminal is whose program has ended just now
                raise
            raise OstlerError("crashed", f"{self.name} ended while it was given the prompt") from error

    async def _send(self) -> None:
        await self._until_ready()
        async with self.typist.at_keyboard():
            if self.watch.signals.exited or self.face.box(self.watch.screen) != "":
                raise self._undelivered("its input box was not free any more")
            self.pasted = True
            await self._paste()
            await self._reach("accepted")
            await self._until_echoed()
            await self._reach("echoed")
            await self._submit()
        self.pasted = False

    @property
    def leaves_text(self) -> bool:
        """Whether some of it may stand in the box. Not once the program works on it, however the sending ended."""
        return self.pasted and self.evidence.acknowledged is None

    # -- ready

    async def _until_ready(self) -> None:
        """Waits for an empty box. Time does not count while it works, asks, or a person is at the keyboard."""
        began = since = clock.monotonic()
        ready_since = None
        _log.debug("turn %s: the empty input box of %s is waited for", self.turn, self.name)
        while True:
            now = clock.monotonic()
            # What stands there has stood there since it changed last.
            ready_since = min(now, ready_since or now, self.watch.changed_at) if self._is_ready() else None
            if ready_since is not None and now - ready_since >= self._patience():
                _log.debug("turn %s: %s is ready after %.2f s", self.turn, self.name, now - began)
                return
            if self.watch.signals.exited:
                raise OstlerError("crashed", f"{self.name} ended before it was ready", "Its terminal shows why")
            if self._was_put_back() and self.cleared < CLEARS:
                await self._clear()
            status = self.face.status(self.watch.screen, self.watch.signals)
            if status in ("busy", "asking") or self.typist.is_held_up():
                since = now
            if now - since > self.start_limit:
                raise self._undelivered(self._why_not_ready())
            await self.watch.change(TICK)

    def _is_ready(self) -> bool:
        watch = self.watch
        ready = self.face.status(watch.screen, watch.signals) == "ready" and self.face.box(watch.screen) == ""
        return ready and watch.modes.bracketed_paste and self._has_started()

    def _was_put_back(self) -> bool:
        ready = self.face.status(self.watch.screen, self.watch.signals) == "ready"
        return ready and self.face.holds(self.watch.screen, self.put_back)

    async def _clear(self) -> None:
        """What ostler wrote and nobody has changed is taken out again."""
        self.cleared += 1
        _log.debug("turn %s: the prompt before, which an interrupt has put back, is cleared", self.turn)
        async with self.typist.at_keyboard():
            if not self._was_put_back():
                return
            self.typist.press(self.face.clear)
            deadline = clock.monotonic() + CLEAR_TAKES
            while self._was_put_back() and clock.monotonic() < deadline:
                await self.watch.change(TICK)

    def _patience(self) -> float:
        """A program that has taken a prompt before takes another one as soon as its box is empty."""
        if self.used:
            return STEADY
        ready = self.watch.signals.state in ("idle", "done") or not self.face.states
        return STEADY if ready and not self.face.starts_deaf else QUIET

    def _has_started(self) -> bool:
        """Whether it draws no more of what it begins with: a paste that comes before that can get lost."""
        if self.used or not self.face.banner or re.search(self.face.banner, self.watch.screen.text):
            return True
        return clock.monotonic() - self.watch.changed_at >= QUIET

    def _why_not_ready(self) -> str:
        if self.face.box(self.watch.screen):
            return "there is text in its input box that ostler did not write"
        return f"it was not ready within {self.start_limit:g} s"

    # -- sent

    async def _paste(self) -> None:
        """Each piece once the one before is in the box: those that come at once are taken for one."""
        *first, last = pieces(self.text, self.face.paste_most)
        for piece in first:
            before = self.face.box(self.watch.screen)
            await self.typist.paste(piece, self.watch.modes, self.receipt_limit)
            if not await self.watch.until(lambda b=before: self.face.box(self.watch.screen) != b, self.receipt_limit):  # type: ignore[misc]
                raise self._undelivered(f"it did not show a part of the prompt within {self.receipt_limit:g} s")
        await self.typist.paste(last, self.watch.modes, self.receipt_limit)

    async def _until_echoed(self) -> None:
        """Until the box shows it, and goes on to: while a paste is being drawn, Enter may be taken for a part of it."""
        deadline = clock.monotonic() + self.receipt_limit
        shown_since = None
        while shown_since is None or clock.monotonic() - shown_since < STEADY:
            shows = self.face.shows(self.watch.screen, self.text)
            shown_since = (shown_since or clock.monotonic()) if shows else None
            if self.watch.signals.exited:
                raise OstlerError("crashed", f"{self.name} ended while it was given the prompt")
            if clock.monotonic() > deadline:
                raise self._undelivered(f"it did not show the prompt within {self.receipt_limit:g} s")
            await self.watch.change(TICK)

    async def _submit(self) -> None:
        deadline, pressed, at = clock.monotonic() + self.receipt_limit, 0, 0.0
        while (by := self.evidence.acknowledged) is None:
            now = clock.monotonic()
            held = self.face.shows(self.watch.screen, self.text)
            if pressed == 0 or (pressed < ENTERS and held and now - at > ENTER_AGAIN and self._is_still()):
                if await self._press_enter(first=pressed == 0):
                    pressed, at = pressed + 1, now
                else:
                    deadline = clock.monotonic() + self.receipt_limit  # a person had the keyboard meanwhile
                    continue
            if (ending := self.evidence.ending(now)) is not None:
                if ending.how == "ended":
                    raise OstlerError("crashed", f"{self.name} ended when it was given the prompt")
                break  # a short turn is over before its program has said that it began
            if now > deadline:
                if self.evidence.looks_taken and not held:
                    break
                raise self._undelivered(f"it did not pick up the prompt within {self.receipt_limit:g} s")
            await self.watch.change(TICK)
        await self._reach("acknowledged", str(by or "screen: busy"))

    async def _press_enter(self, first: bool) -> bool:
        """False: a person had taken the keyboard, and has given it back now."""
        if first:
            self.evidence.sent(clock.monotonic())
        try:
            self.typist.press(("Enter",))
        except OstlerError as error:
            if error.kind != "denied":
                raise
            _log.debug("turn %s: a person has the keyboard, which is waited for", self.turn)
            await self.typist.regain()
            if self.evidence.acknowledged is None and not self.face.shows(self.watch.screen, self.text):
                raise self._undelivered("somebody else typed into its input box") from error
            return False
        if first:
            await self._reach("submitted")
        else:
            _log.debug("turn %s: Enter is pressed again, since the prompt still stands in the box", self.turn)
        return True

    def _is_still(self) -> bool:
        """Nothing moves and nothing is asked: what Enter does now is what it was pressed for."""
        return self.face.status(self.watch.screen, self.watch.signals) == "ready"

    async def _reach(self, stage: DeliveryStage, by: str = "") -> None:
        self.stages.append(stage)
        await self.reached(stage, by)

    def _undelivered(self, why: str) -> OstlerError:
        hint = "Look at its terminal (ostler attach), or raise tui_start and tui_receipt"
        return OstlerError("undelivered", f"{self.name} did not get the prompt: {why}", hint)
