"""Watches the screen of a TUI: what is on it, and what the program says of itself."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from msgspec import structs

from ostler import clock
from ostler.agents.tui import Signals, TuiFace, TuiScreen
from ostler.errors import OstlerError
from ostler.terminal.live import LiveTerminal
from ostler.terminal.screen.protocol import Modes, ScreenFacts, Snapshot, Update
from ostler.work.transports.tasks import cancel_all
from ostler.work.tuis.evidence import Says, SignalSource, state_says, status_says

TICK = 0.1  # seconds after which what has not changed is looked at again
_BUFFER = 4096  # updates; whoever watches here is never that far behind
_KEPT = 10_000  # signals that nobody has taken


class Watch:
    """From its start to `close`. `unread` has the signals since it was last emptied, with their times."""

    def __init__(self, live: LiveTerminal, face: TuiFace) -> None:
        self.screen = TuiScreen()
        self.signals = Signals(silent=True)
        self.modes = Modes()
        self.changed_at = clock.monotonic()
        self.blocked = 0  # how often it said so, after something else
        self.unread: deque[tuple[SignalSource, Says, float]] = deque(maxlen=_KEPT)
        self.past_prompts: set[str] = set()  # by which hooks of turns before are known
        self._face = face
        self._subscription = live.subscribe(buffer=_BUFFER)
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._follow())

    async def change(self, seconds: float) -> None:
        """Returns at the next change, or after that time."""
        with suppress(TimeoutError):  # nothing changed
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()

    async def until(self, met: Callable[[], bool], seconds: float) -> bool:
        """Whether it was met within that time."""
        deadline = clock.monotonic() + seconds
        while not met():
            if clock.monotonic() > deadline:
                return False
            await self.change(TICK)
        return True

    def add_signal(self, source: SignalSource, says: Says) -> None:
        """One that is not seen on the screen."""
        self.unread.append((source, says, clock.monotonic()))
        self._news.set()

    def join_late(self) -> None:
        """The program ran before it was watched: whatever it said of itself was not heard."""
        self.signals = structs.replace(self.signals, silent=False)

    def forget_state(self) -> None:
        """A turn is over: a state that was left standing says nothing of the next one."""
        if self.signals.state in ("working", "blocked"):
            self.signals = structs.replace(self.signals, state="")

    async def close(self) -> None:
        self._subscription.close()
        await cancel_all([self._task])

    async def _follow(self) -> None:
        with suppress(OstlerError):  # a screen that cannot be looked at any more: the program's end is told elsewhere
            async for seen in self._subscription:
                match seen:
                    case Snapshot():
                        self.screen, self.modes = TuiScreen(seen.text, seen.styled), seen.modes
                        self._apply_title(seen.title)
                    case Update():
                        self._updated(seen)
                self.changed_at = clock.monotonic()
                self._news.set()
        self.signals = structs.replace(self.signals, exited=True)
        self.unread.append(("process", "ended", clock.monotonic()))
        self._news.set()

    def _updated(self, update: Update) -> None:
        whole = update.whole or len(self.screen.rows) != update.rows
        rows = [""] * update.rows if whole else list(self.screen.rows)
        styled = [""] * update.rows if whole else list(self.screen.styled)
        for row in update.changed:
            if row.y < update.rows:
                rows[row.y], styled[row.y] = row.text, row.vt
        self.screen, self.modes = TuiScreen(tuple(rows), tuple(styled)), update.modes
        self._apply(update.facts)

    def _apply(self, facts: ScreenFacts) -> None:
        for state in facts.states:
            word = state.partition(":")[0].removeprefix("state=")
            self.blocked += word == "blocked" and self.signals.state != "blocked"
            self.signals = structs.replace(self.signals, state=word, silent=False)
            if says := state_says(state):
                self.unread.append(("OSC 7501", says, clock.monotonic()))
        if facts.title is not None:
            self._apply_title(facts.title)

    def _apply_title(self, title: str) -> None:
        if title != self.signals.title:
            self.signals = structs.replace(self.signals, title=title, silent=False)
            if says := status_says(self._face.title_status(title)):
                self.unread.append(("title", says, clock.monotonic()))
